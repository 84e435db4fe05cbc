//! Messages of the host's functions as KVM routes them: an event that a vector raises becomes an
//! interrupt of a vCPU, or KVM has the IOMMU post it.
//! [KVM-API "KVM_SET_GSI_ROUTING", "KVM_IRQFD"]
//!
//! Where the I/O APIC is ours its level-triggered pins have routes as well: of these KVM learns
//! which EOIs it has to tell. [KVM-API "KVM_CAP_SPLIT_IRQCHIP", "KVM_EXIT_IOAPIC_EOI"]
//!
//! The event is joined to KVM only when the guest runs and has unmasked the vector: kernels up to
//! 6.12 decide then whether an interrupt can be posted, and do not look again when AVIC comes
//! later.

use crate::configuration::{Configuration, InterruptChip};
use crate::devices::IO_APIC_PINS;
use crate::error::BenchError;
use arch::address::Device;
use arch::msi::{MessageAddress, MessageSignalled};
use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQ_ROUTING_MSI, KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER,
    KVM_IRQCHIP_PIC_SLAVE, KvmIrqRouting, kvm_irq_routing_entry, kvm_msi,
};
use kvm_ioctls::VmFd;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

/// Inputs of both 8259s, and of one.
const PIC_INPUTS: u8 = 16;
const OF_ONE_PIC: u8 = 8;

/// What pins of the I/O APIC send that are level-triggered.
pub(crate) type PinMessages = [Option<MessageSignalled>; IO_APIC_PINS as usize];

/// KVM's table of routes: a new one replaces all of the old.
pub(crate) struct Routes {
    vm: Arc<VmFd>,
    /// Lines of KVM's own interrupt chip, where it has it.
    lines: Vec<kvm_irq_routing_entry>,
    /// What level-triggered pins of our I/O APIC send, by pin.
    pins: PinMessages,
    /// By number, the first behind the pins of the I/O APIC.
    messages: Vec<Option<MessageSignalled>>,
    has_wide_ids: bool,
}

impl Routes {
    pub(crate) fn new(configuration: &Configuration, vm: Arc<VmFd>) -> Self {
        let is_full = configuration.interrupt_chip == InterruptChip::Full;
        let lines = if is_full { chip_lines() } else { Vec::new() };
        let has_wide_ids = configuration.has_wide_ids();
        let pins = [None; IO_APIC_PINS as usize];
        Self { vm, lines, pins, messages: Vec::new(), has_wide_ids }
    }

    /// A number for a further message.
    fn add(&mut self) -> u32 {
        self.messages.push(None);
        u32::from(IO_APIC_PINS) + self.messages.len() as u32 - 1
    }

    /// Routes a number to a message, if it was not.
    fn set(&mut self, number: u32, message: MessageSignalled) -> Result<(), BenchError> {
        let index = (number - u32::from(IO_APIC_PINS)) as usize;
        if self.messages[index] == Some(message) {
            return Ok(());
        }
        self.messages[index] = Some(message);
        self.put()
    }

    /// Routes the pins of our I/O APIC, if they send anything else than before: a table takes KVM
    /// tens of microseconds, and Linux writes most entries once.
    pub(crate) fn set_pins(&mut self, pins: PinMessages) -> Result<(), BenchError> {
        if self.pins == pins {
            return Ok(());
        }
        self.pins = pins;
        self.put()
    }

    fn put(&self) -> Result<(), BenchError> {
        let routes = KvmIrqRouting::from_entries(&self.entries())
            .map_err(|_| BenchError::kvm("so many routes", kvm_ioctls::Error::new(libc::E2BIG)))?;
        self.vm
            .set_gsi_routing(&routes)
            .map_err(|error| BenchError::kvm("KVM_SET_GSI_ROUTING", error))
    }

    fn entries(&self) -> Vec<kvm_irq_routing_entry> {
        let messages = message_entries(&self.pins, &self.messages, self.has_wide_ids);
        self.lines.iter().copied().chain(messages).collect()
    }
}

/// Pins first, whose numbers are theirs; the numbers of messages follow.
fn message_entries(
    pins: &PinMessages,
    messages: &[Option<MessageSignalled>],
    has_wide_ids: bool,
) -> Vec<kvm_irq_routing_entry> {
    let numbered = (0..).zip(pins.iter().chain(messages));
    let entries = numbered.filter_map(|(gsi, message)| {
        let message = kvm_message((*message)?, has_wide_ids);
        let mut route =
            kvm_irq_routing_entry { gsi, type_: KVM_IRQ_ROUTING_MSI, ..Default::default() };
        route.u.msi.address_lo = message.address_lo;
        route.u.msi.address_hi = message.address_hi;
        route.u.msi.data = message.data;
        Some(route)
    });
    entries.collect()
}

/// As KVM makes the routes of its own chip: each line to the input of that number, of the 8259s and
/// of the I/O APIC.
fn chip_lines() -> Vec<kvm_irq_routing_entry> {
    let line = |gsi: u8, irqchip: u32, pin: u8| {
        let mut route = kvm_irq_routing_entry {
            gsi: gsi.into(),
            type_: KVM_IRQ_ROUTING_IRQCHIP,
            ..Default::default()
        };
        route.u.irqchip.irqchip = irqchip;
        route.u.irqchip.pin = pin.into();
        route
    };
    let pic = (0..PIC_INPUTS).map(|input| match input / OF_ONE_PIC {
        0 => line(input, KVM_IRQCHIP_PIC_MASTER, input),
        _ => line(input, KVM_IRQCHIP_PIC_SLAVE, input % OF_ONE_PIC),
    });
    pic.chain((0..IO_APIC_PINS).map(|pin| line(pin, KVM_IRQCHIP_IOAPIC, pin))).collect()
}

/// A message as KVM takes it: bits 31:8 of a destination are in the upper half of the address where
/// identifiers have 32 bits. [KVM-API "KVM_CAP_X2APIC_API"] Guests put bits 14:8 of it where
/// [`MessageAddress`] has them.
pub(crate) fn kvm_message(message: MessageSignalled, has_wide_ids: bool) -> kvm_msi {
    let Device(address) = message.address;
    let low = MessageAddress::from_bits(address as u32);
    let (address_lo, address_hi) = match has_wide_ids {
        false => (low.into_bits(), (address >> 32) as u32),
        true => {
            let high = u32::from(low.destination_high()) << 8;
            (low.with_destination_high(0).into_bits(), high)
        }
    };
    kvm_msi { address_lo, address_hi, data: message.data, ..kvm_msi::default() }
}

/// A vector of a function: what it raises, and whether KVM takes that. While it does not, the
/// event's counter is the vector's pending bit.
pub(crate) struct Vector {
    routes: Arc<Mutex<Routes>>,
    vm: Arc<VmFd>,
    number: u32,
    pub(crate) event: EventFd,
    is_joined: bool,
}

impl Vector {
    pub(crate) fn new(routes: &Arc<Mutex<Routes>>) -> io::Result<Self> {
        let event = EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK)?;
        let mut table = routes.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, vm) = (table.add(), table.vm.clone());
        Ok(Self { routes: routes.clone(), vm, number, event, is_joined: false })
    }

    /// From now on KVM turns the event into a message; the same event for KVM and for vfio is what
    /// lets the kernel post. What came before is delivered now.
    pub(crate) fn join(&mut self, message: MessageSignalled) -> Result<(), BenchError> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).set(self.number, message)?;
        if self.is_joined {
            return Ok(());
        }
        self.vm
            .register_irqfd(&self.event, self.number)
            .map_err(|error| BenchError::kvm("KVM_IRQFD", error))?;
        self.is_joined = true;
        // KVM has looked whether the event was raised already, and leaves the counter as it was.
        let _ = self.event.read();
        Ok(())
    }

    /// From now on the event waits.
    pub(crate) fn part(&mut self) -> Result<(), BenchError> {
        if std::mem::take(&mut self.is_joined) {
            self.vm
                .unregister_irqfd(&self.event, self.number)
                .map_err(|error| BenchError::kvm("KVM_IRQFD", error))?;
        }
        Ok(())
    }

    /// Whether the event was raised and nobody took it.
    pub(crate) fn is_pending(&self) -> bool {
        // There is no look at the counter that leaves it as it is.
        !self.is_joined && self.event.read().is_ok_and(|count| self.event.write(count).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_above_the_lowest_eight_of_a_destination_go_where_kvm_looks_for_them() {
        let message = MessageSignalled { address: Device(0xFEE7_B020), data: 0x41 };
        let wide = kvm_message(message, true);
        assert_eq!((wide.address_lo, wide.address_hi, wide.data), (0xFEE7_B000, 0x100, 0x41));
        let narrow = kvm_message(message, false);
        assert_eq!((narrow.address_lo, narrow.address_hi), (0xFEE7_B020, 0));
    }

    #[test]
    fn a_level_triggered_pin_has_the_route_of_its_own_number_before_those_of_messages() {
        let of = |vector: u32| MessageSignalled { address: Device(0xFEE0_0000), data: vector };
        let mut pins = [None; IO_APIC_PINS as usize];
        pins[11] = Some(of(0x80B1));
        let messages = [None, Some(of(0x41))];
        let entries = message_entries(&pins, &messages, false);
        // SAFETY: every entry is one of a message.
        let own = entries.iter().map(|route| (route.gsi, unsafe { route.u.msi }.data));
        assert_eq!(own.collect::<Vec<_>>(), [(11, 0x80B1), (25, 0x41)]);
    }

    #[test]
    fn each_line_of_kvm_s_chip_keeps_its_inputs() {
        let lines = chip_lines();
        let of = |chip: u32| {
            // SAFETY: every entry is one of a chip's lines.
            let own = lines.iter().map(|line| (line.gsi, unsafe { line.u.irqchip }));
            let own = own.filter(move |(_, line)| line.irqchip == chip);
            own.map(|(gsi, line)| (gsi, line.pin)).collect::<Vec<_>>()
        };
        assert_eq!(of(KVM_IRQCHIP_IOAPIC), (0..24).map(|at| (at, at)).collect::<Vec<_>>());
        assert_eq!(of(KVM_IRQCHIP_PIC_MASTER), (0..8).map(|at| (at, at)).collect::<Vec<_>>());
        assert_eq!(of(KVM_IRQCHIP_PIC_SLAVE), (8..16).map(|at| (at, at - 8)).collect::<Vec<_>>());
    }
}
