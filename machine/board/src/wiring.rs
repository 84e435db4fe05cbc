//! The board's wires: which part answers at an address or port, and where lines lead.
//!
//! Lines and ends of interrupts take effect at once, since they end at the interrupt controllers,
//! which are here; whatever these emit for processors waits in the outbox for the schedule.

use arch::address::{Linear, SystemPhysical};
use arch::identity::{CpuIndex, RequesterId, Vector};
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;
use bus::{
    Context, ControlBlock, Effect, GuestMemory, Happening, Initiator, Outbox, Platform, Visit,
    VmExit,
};
use device::chipset::{Chipset, ChipsetConfiguration};
use device::map;
use interrupt::io_apic::{IoApic, IoApicModel};
use interrupt::legacy::PicPair;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::{Event, Record, TraceHash, VirtualCpu};

mod iommu;

use ::iommu::{Iommu, Model};

/// Where the I/O APIC is; the MADT says the same.
const IO_APIC: u64 = 0xFEC0_0000;
/// Pins of the I/O APIC.
const IO_APIC_PINS: u8 = 24;
/// What belongs to no processor stands on the first one's track.
const BOARD: CpuIndex = CpuIndex(0);
/// Bytes that an I/O APIC decodes.
const IO_APIC_SIZE: u64 = 0x1000;
/// Guests whose nested page tables are remembered for the trace; with more, they are said again.
const MOST_REMARKED: usize = 4096;

/// Everything outside the processors.
#[derive(Clone, Serialize, Deserialize)]
pub struct Wiring {
    /// All devices but the interrupt controllers.
    pub chipset: Chipset,
    /// The only I/O APIC.
    pub io_apic: IoApic,
    /// The 8259 pair.
    pub pic: PicPair,
    /// What stands between functions and the rest, if there is one.
    pub iommu: Option<Iommu>,
    /// Interrupts that it is posting.
    postings: iommu::Postings,
    intr: bool,
    /// The latest time that a device has seen: it never goes back.
    now: Picoseconds,
    /// Of all records so far, whether they are collected or not.
    pub hash: TraceHash,
    /// What the schedule has yet to take to the processors.
    #[serde(skip)]
    pub outbox: Outbox,
    /// Records for a trace file, collected while somebody wants them.
    #[serde(skip)]
    pub records: Option<Vec<Record>>,
    /// What the trace file says of guests so far.
    #[serde(skip)]
    remarked: BTreeMap<VirtualCpu, Remarked>,
    #[serde(skip)]
    watched_port: Option<WatchedPort>,
    /// By processor: the last exception, for people who ask why one stopped.
    #[serde(skip)]
    last_exceptions: Vec<Option<LastException>>,
}

/// What remarks in a trace say of a guest's virtual processor.
#[derive(Clone, Copy, Debug)]
struct Remarked {
    nested_root: Option<SystemPhysical>,
    has_virtual_apic: bool,
}

/// An exception that a processor took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastException {
    pub vector: Vector,
    pub error_code: u32,
    pub rip: Linear,
}

/// A port whose writes somebody waits for.
#[derive(Clone, Copy, Debug)]
struct WatchedPort {
    port: u16,
    /// Nothing for any value.
    value: Option<u32>,
    is_hit: bool,
}

impl Wiring {
    /// The board at power-on, with this IOMMU.
    pub fn new(configuration: &ChipsetConfiguration, iommu: Option<Model>) -> Self {
        let model =
            IoApicModel { version: 0x20, pins: IO_APIC_PINS, requester: RequesterId(0x00A0) };
        Self {
            chipset: Chipset::new(configuration),
            io_apic: IoApic::new(model),
            pic: PicPair::new(),
            postings: iommu::Postings::every(iommu),
            iommu: iommu.map(Iommu::new),
            intr: false,
            now: Picoseconds::ZERO,
            hash: TraceHash::default(),
            outbox: Outbox::default(),
            records: None,
            remarked: BTreeMap::new(),
            watched_port: None,
            last_exceptions: Vec::new(),
        }
    }

    /// Adds a record to the run's hash and to the trace.
    pub fn note(&mut self, cpu: CpuIndex, at: Picoseconds, event: Event) {
        let record = Record { at, cpu, event };
        self.hash.record(&record);
        if let Some(records) = &mut self.records {
            records.push(record);
        }
    }

    /// Says in the trace what a guest has from this entry on that it had not before.
    fn remark_entry(&mut self, visit: Visit, vcpu: VirtualCpu, now: Remarked) {
        if self.remarked.len() >= MOST_REMARKED {
            self.remarked.clear();
        }
        let before = self.remarked.insert(vcpu, now);
        if let Some(root) = now.nested_root
            && before.is_none_or(|before| before.nested_root != now.nested_root)
        {
            self.note(visit.cpu, visit.at, Event::NestedRoot { vcpu, root });
        }
        let Remarked { has_virtual_apic: is_on, .. } = now;
        if before.is_none_or(|before| before.has_virtual_apic != is_on) {
            self.note(visit.cpu, visit.at, Event::VirtualApic { vcpu, is_on });
        }
    }

    /// Makes the machine's run return after a write of `value`, or of anything, to a port.
    pub fn watch_port(&mut self, port: u16, value: Option<u32>) {
        self.watched_port = Some(WatchedPort { port, value, is_hit: false });
    }

    /// Whether the watched port was written to; the watch then ends.
    pub fn take_port_hit(&mut self) -> bool {
        self.watched_port.take_if(|watched| watched.is_hit).is_some()
    }

    pub(crate) fn last_exception(&self, cpu: CpuIndex) -> Option<LastException> {
        self.last_exceptions.get(usize::from(cpu.0)).copied().flatten()
    }

    fn keep_exception(&mut self, cpu: CpuIndex, exception: LastException) {
        let index = usize::from(cpu.0);
        if self.last_exceptions.len() <= index {
            self.last_exceptions.resize(index + 1, None);
        }
        self.last_exceptions[index] = Some(exception);
    }

    pub(crate) fn has_port_hit(&self) -> bool {
        self.watched_port.is_some_and(|watched| watched.is_hit)
    }

    /// Lends the devices what they need, then sees to lines.
    pub fn with_devices<T>(
        &mut self,
        memory: &mut GuestMemory,
        at: Picoseconds,
        act: impl FnOnce(&mut Chipset, &mut Context<'_>) -> T,
    ) -> T {
        self.now = self.now.max(at);
        let (now, mut outbox) = (self.now, Outbox::default());
        let result = match &mut self.iommu {
            Some(iommu) => {
                let mut memory = iommu::Translated { iommu, memory };
                let context = &mut Context { now, memory: &mut memory, outbox: &mut outbox };
                act(&mut self.chipset, context)
            }
            None => act(&mut self.chipset, &mut Context { now, memory, outbox: &mut outbox }),
        };
        for (initiator, at, effect) in outbox.drain() {
            self.settle(initiator, at, effect);
        }
        self.follow_iommu(memory, now);
        result
    }

    /// Takes an effect to where it leads, or keeps it for the schedule.
    fn settle(&mut self, initiator: Initiator, at: Picoseconds, effect: Effect) {
        match effect {
            Effect::Line { gsi, asserted } => self.set_line(at, gsi, asserted),
            Effect::EndOfInterrupt { vector } => {
                let mut effects = Vec::new();
                self.io_apic.end_of_interrupt(vector, &mut effects);
                self.send_io_apic(at, effects);
            }
            other => self.outbox.push(initiator, at, other),
        }
    }

    fn set_line(&mut self, at: Picoseconds, gsi: u8, asserted: bool) {
        self.note(BOARD, at, Event::Line { gsi, is_asserted: asserted });
        if gsi < 16 {
            self.pic.set_line(gsi, asserted);
            self.update_intr(at);
        }
        let pin = if gsi == map::PIT_LINE { map::PIT_IO_APIC_PIN } else { gsi };
        let mut effects = Vec::new();
        self.io_apic.set_line(pin, asserted, &mut effects);
        self.send_io_apic(at, effects);
    }

    fn send_io_apic(&mut self, at: Picoseconds, effects: Vec<Effect>) {
        let initiator = Initiator::Device(self.io_apic.requester());
        for effect in effects {
            self.outbox.push(initiator, at, effect);
        }
    }

    /// Tells the processors when the level of the 8259s' output has changed.
    fn update_intr(&mut self, at: Picoseconds) {
        let asserted = self.pic.output();
        if asserted != self.intr {
            self.intr = asserted;
            self.note(BOARD, at, Event::LegacyInterrupt { is_asserted: asserted });
            self.outbox.push(Initiator::Board, at, Effect::LegacyInterrupt { asserted });
        }
    }

    fn is_pic(port: u16) -> bool {
        matches!(port, 0x20 | 0x21 | 0xA0 | 0xA1 | 0x4D0 | 0x4D1)
    }

    fn io_apic_offset(address: SystemPhysical) -> Option<u16> {
        let base = IO_APIC;
        (base..base + IO_APIC_SIZE).contains(&address.0).then(|| (address.0 - base) as u16)
    }
}

impl Platform for Wiring {
    fn read(
        &mut self,
        memory: &mut GuestMemory,
        visit: Visit,
        address: SystemPhysical,
        size: u8,
    ) -> u64 {
        let value = match Self::io_apic_offset(address) {
            Some(offset) => self.io_apic.read_mmio(offset, size),
            None if let Some(value) = self.read_iommu(address, size) => value,
            None => {
                self.with_devices(memory, visit.at, |chipset, cx| chipset.read(cx, address, size))
            }
        };
        self.note(visit.cpu, visit.at, Event::DeviceRead { address, size, value });
        value
    }

    fn write(
        &mut self,
        memory: &mut GuestMemory,
        visit: Visit,
        address: SystemPhysical,
        size: u8,
        value: u64,
    ) {
        self.note(visit.cpu, visit.at, Event::DeviceWrite { address, size, value });
        match Self::io_apic_offset(address) {
            Some(offset) => {
                let mut effects = Vec::new();
                self.io_apic.write_mmio(offset, size, value, &mut effects);
                self.send_io_apic(visit.at, effects);
            }
            None if self.write_iommu(memory, address, size, value) => {
                self.follow_iommu(memory, visit.at);
            }
            None => self.with_devices(memory, visit.at, |chipset, cx| {
                chipset.write(cx, address, size, value);
            }),
        }
    }

    fn port_in(&mut self, memory: &mut GuestMemory, visit: Visit, port: u16, size: u8) -> u32 {
        let value = if Self::is_pic(port) {
            let value = self.pic.port_read(port);
            self.update_intr(visit.at);
            value.into()
        } else {
            self.with_devices(memory, visit.at, |chipset, cx| chipset.port_in(cx, port, size))
        };
        self.note(visit.cpu, visit.at, Event::PortRead { port, size, value });
        value
    }

    fn port_out(
        &mut self,
        memory: &mut GuestMemory,
        visit: Visit,
        port: u16,
        size: u8,
        value: u32,
    ) {
        self.note(visit.cpu, visit.at, Event::PortWrite { port, size, value });
        if let Some(watched) = &mut self.watched_port
            && watched.port == port
            && watched.value.is_none_or(|wanted| wanted == value)
        {
            watched.is_hit = true;
        }
        if !Self::is_pic(port) {
            return self.with_devices(memory, visit.at, |chipset, cx| {
                chipset.port_out(cx, port, size, value);
            });
        }
        for (i, byte) in value.to_le_bytes().into_iter().take(size.into()).enumerate() {
            let port = port.wrapping_add(i as u16);
            if Self::is_pic(port) {
                self.pic.port_write(port, byte);
            }
        }
        self.update_intr(visit.at);
    }

    fn acknowledge_legacy(&mut self, visit: Visit) -> u8 {
        let vector = self.pic.acknowledge();
        self.update_intr(visit.at);
        vector
    }

    fn effect(&mut self, visit: Visit, effect: Effect) {
        let initiator = Initiator::Cpu(visit.cpu);
        match effect {
            Effect::Interrupt { message, scope } => {
                let event = Event::InterruptSent {
                    destination: message.destination,
                    destination_mode: message.destination_mode,
                    delivery_mode: message.delivery_mode,
                    vector: message.vector,
                    scope,
                    is_level: message.is_level,
                };
                self.note(visit.cpu, visit.at, event);
            }
            Effect::EndOfInterrupt { vector } => {
                self.note(visit.cpu, visit.at, Event::EndOfInterrupt { vector });
            }
            Effect::Doorbell { target } => {
                self.note(visit.cpu, visit.at, Event::Doorbell { target });
            }
            _ => {}
        }
        self.settle(initiator, visit.at, effect);
    }

    fn record(&mut self, visit: Visit, happening: Happening) {
        if let Happening::VmEntry { block, nested_root, has_virtual_apic, .. } = happening
            && self.records.is_some()
        {
            let now = Remarked { nested_root, has_virtual_apic };
            self.remark_entry(visit, virtual_cpu(block), now);
        }
        if let Happening::Exception { vector, error, ip } = happening {
            let exception =
                LastException { vector: Vector(vector), error_code: error, rip: Linear(ip) };
            self.keep_exception(visit.cpu, exception);
        }
        self.note(visit.cpu, visit.at, event_of(happening));
    }
}

fn virtual_cpu(block: ControlBlock) -> VirtualCpu {
    VirtualCpu(block.address())
}

/// An exit in its vendor's words.
fn exit_event(exit: VmExit) -> Event {
    let VmExit { block, code, qualification, address, delivering, ip, .. } = exit;
    match block {
        ControlBlock::Vmcb(vmcb) => Event::SvmExit {
            vcpu: VirtualCpu(vmcb),
            code: ExitCode::from_bits(code),
            info1: qualification,
            info2: address,
            interrupt_info: delivering,
            rip: Linear(ip),
        },
        ControlBlock::Vmcs(vmcs) => Event::VmxExit {
            vcpu: VirtualCpu(vmcs),
            reason: code as u32,
            qualification,
            guest_physical: address,
            interruption: exit.event,
            vectoring: delivering,
            instruction: exit.instruction,
            rip: Linear(ip),
        },
    }
}

/// A processor's happening in the trace's vocabulary.
fn event_of(happening: Happening) -> Event {
    match happening {
        Happening::Interrupt { vector, ip } => {
            Event::InterruptDelivered { vector, rip: Linear(ip) }
        }
        Happening::Exception { vector, error, ip } => Event::Exception {
            vector: Vector(vector),
            error_code: error,
            address: Linear(0),
            rip: Linear(ip),
        },
        Happening::Halt { ip } => Event::Halt { rip: Linear(ip) },
        Happening::Wake { .. } => Event::Wake {},
        Happening::VmExit(exit) => exit_event(exit),
        Happening::MsrAccess { index, is_write: false, value } => Event::MsrRead { index, value },
        Happening::MsrAccess { index, value, .. } => Event::MsrWrite { index, value },
        Happening::VmEntry { block, injected, ip, .. } => {
            Event::Entry { vcpu: virtual_cpu(block), injected, rip: Linear(ip) }
        }
        Happening::EntryRefused { vmcb, rule } => {
            Event::EntryRefused { vcpu: VirtualCpu(vmcb), rule }
        }
        Happening::VmxEntryRefused { vmcs, rule } => {
            Event::VmxEntryRefused { vcpu: VirtualCpu(vmcs), rule }
        }
        Happening::VirtualIpi { block, icr } => {
            Event::VirtualIpiSent { vcpu: virtual_cpu(block), icr }
        }
        Happening::Posted { place, vector } => Event::Posted { place, vector },
        Happening::PostedTaken { block, place, vector } => {
            Event::PostedTaken { vcpu: virtual_cpu(block), place, vector }
        }
        Happening::VirtualAccept { block, vector } => {
            Event::VirtualInterruptAccepted { vcpu: virtual_cpu(block), vector }
        }
        Happening::VirtualInterrupt { block, vector, ip } => {
            Event::VirtualInterruptDelivered { vcpu: virtual_cpu(block), vector, rip: Linear(ip) }
        }
        Happening::VirtualEndOfInterrupt { block, vector } => {
            Event::VirtualEndOfInterrupt { vcpu: virtual_cpu(block), vector }
        }
    }
}
