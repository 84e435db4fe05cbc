//! The board's wires: which part answers at an address or port, and where lines lead.
//!
//! Lines and ends of interrupts take effect at once, since they end at the interrupt controllers,
//! which are here; whatever these emit for processors waits in the outbox for the schedule.

use crate::record::Recorder;
use crate::translated::Translated;
use arch::address::SystemPhysical;
use arch::identity::RequesterId;
use arch::time::Picoseconds;
use bus::{Context, Effect, GuestMemory, Happening, Initiator, Outbox, Platform, Visit};
use device::chipset::{Chipset, ChipsetConfiguration};
use device::map;
use interrupt::io_apic::{IoApic, IoApicModel};
use interrupt::legacy::PicPair;
use iommu::{Iommu, Model, Signal};
use serde::{Deserialize, Serialize};
use trace::Event;

/// Where the I/O APIC is; the MADT says the same.
const IO_APIC: u64 = 0xFEC0_0000;
/// Pins of the I/O APIC.
const IO_APIC_PINS: u8 = 24;
/// Bytes that an I/O APIC decodes.
const IO_APIC_SIZE: u64 = 0x1000;

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
    intr: bool,
    /// The latest time that a device has seen: it never goes back.
    now: Picoseconds,
    /// What happened.
    pub recorder: Recorder,
    /// What the schedule has yet to take to the processors.
    #[serde(skip)]
    pub outbox: Outbox,
    #[serde(skip)]
    watched_port: Option<WatchedPort>,
    /// [`Chipset::next_deadline`], unless something may have changed it.
    #[serde(skip)]
    next_deadline: Option<Option<Picoseconds>>,
}

/// A port whose writes are waited for.
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
            iommu: iommu.map(Iommu::new),
            intr: false,
            now: Picoseconds::ZERO,
            recorder: Recorder::default(),
            outbox: Outbox::default(),
            watched_port: None,
            next_deadline: None,
        }
    }

    /// Goes on where the board before a reset ended.
    pub(crate) fn go_on_after(&mut self, mut before: Self) {
        self.chipset.go_on_after(&mut before.chipset);
        self.now = before.now;
        self.recorder = before.recorder;
        self.watched_port = before.watched_port;
    }

    /// Makes the machine's run return after a write of `value`, or of anything, to a port.
    pub fn watch_port(&mut self, port: u16, value: Option<u32>) {
        self.watched_port = Some(WatchedPort { port, value, is_hit: false });
    }

    /// Whether the watched port was written to; the watch then ends.
    pub fn take_port_hit(&mut self) -> bool {
        self.watched_port.take_if(|watched| watched.is_hit).is_some()
    }

    pub(crate) fn has_port_hit(&self) -> bool {
        self.watched_port.is_some_and(|watched| watched.is_hit)
    }

    /// The first moment at which a device has something to do.
    pub(crate) fn next_deadline(&mut self) -> Option<Picoseconds> {
        let next = *self.next_deadline.get_or_insert_with(|| self.chipset.next_deadline());
        debug_assert_eq!(next, self.chipset.next_deadline(), "a device was changed unseen");
        next
    }

    /// The devices, for a change between two looks at [`Self::next_deadline`].
    pub(crate) fn devices_mut(&mut self) -> &mut Chipset {
        self.next_deadline = None;
        &mut self.chipset
    }

    /// Lends the devices what they need, then sees to lines.
    pub fn with_devices<T>(
        &mut self,
        memory: &mut GuestMemory,
        at: Picoseconds,
        act: impl FnOnce(&mut Chipset, &mut Context<'_>) -> T,
    ) -> T {
        self.now = self.now.max(at);
        self.next_deadline = None;
        let (now, mut outbox) = (self.now, Outbox::default());
        let mut signals = Vec::new();
        let result = match &mut self.iommu {
            Some(iommu) => {
                let mut memory = Translated { iommu, memory, signals: &mut signals };
                let context = &mut Context { now, memory: &mut memory, outbox: &mut outbox };
                act(&mut self.chipset, context)
            }
            None => act(&mut self.chipset, &mut Context { now, memory, outbox: &mut outbox }),
        };
        for (initiator, at, effect) in outbox.drain() {
            self.settle(initiator, at, effect);
        }
        self.carry(memory, now, signals);
        result
    }

    /// Takes the IOMMU's signals to where they lead.
    pub(crate) fn carry(
        &mut self,
        memory: &mut GuestMemory,
        at: Picoseconds,
        signals: Vec<Signal>,
    ) {
        for signal in signals {
            match signal {
                Signal::Effect(effect) => self.outbox.push(Initiator::Board, at, effect),
                Signal::Doorbell(target) => {
                    self.recorder.note_board(at, Event::Doorbell { target });
                    self.outbox.push(Initiator::Board, at, Effect::Doorbell { target });
                }
                Signal::Refused(refusal) => self.recorder.note_refusal(at, refusal),
                Signal::OfFunction => {
                    self.next_deadline = None;
                    let outbox = &mut self.outbox;
                    let mut context = Context { now: at, memory, outbox };
                    self.chipset.pci.signal_msi(&mut context, map::IOMMU_FUNCTION, 0);
                }
            }
        }
    }

    /// Reads a register of the IOMMU, if one is at this address.
    fn read_iommu(&self, address: SystemPhysical, size: u8) -> Option<u64> {
        let iommu = self.iommu.as_ref()?;
        register_offset(iommu, address).map(|offset| iommu.read(offset, size))
    }

    /// Writes a register of the IOMMU; nothing if none is at this address.
    fn write_iommu(
        &mut self,
        memory: &mut GuestMemory,
        address: SystemPhysical,
        size: u8,
        value: u64,
    ) -> Option<Vec<Signal>> {
        let iommu = self.iommu.as_mut()?;
        let offset = register_offset(iommu, address)?;
        Some(iommu.write(memory, offset, size, value).signals)
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
        self.recorder.note_board(at, Event::Line { gsi, is_asserted: asserted });
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
            self.recorder.note_board(at, Event::LegacyInterrupt { is_asserted: asserted });
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
            None if let Some(value) = read_only(memory, address, size) => value,
            None => {
                self.with_devices(memory, visit.at, |chipset, cx| chipset.read(cx, address, size))
            }
        };
        self.recorder.note(visit.cpu, visit.at, Event::DeviceRead { address, size, value });
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
        self.recorder.note(visit.cpu, visit.at, Event::DeviceWrite { address, size, value });
        match Self::io_apic_offset(address) {
            Some(offset) => {
                let mut effects = Vec::new();
                self.io_apic.write_mmio(offset, size, value, &mut effects);
                self.send_io_apic(visit.at, effects);
            }
            None if let Some(signals) = self.write_iommu(memory, address, size, value) => {
                self.carry(memory, visit.at, signals);
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
        self.recorder.note(visit.cpu, visit.at, Event::PortRead { port, size, value });
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
        self.recorder.note(visit.cpu, visit.at, Event::PortWrite { port, size, value });
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
        self.recorder.note_effect(visit, effect);
        self.settle(initiator, visit.at, effect);
    }

    fn record(&mut self, visit: Visit, happening: Happening) {
        self.recorder.note_happening(visit, happening);
    }
}

/// What read-only memory holds, for an access that wants to write as well.
fn read_only(memory: &GuestMemory, address: SystemPhysical, size: u8) -> Option<u64> {
    let bytes = memory.slice(address, size.min(8).into()).ok()?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn register_offset(iommu: &Iommu, address: SystemPhysical) -> Option<u64> {
    address.0.checked_sub(map::IOMMU.0).filter(|offset| *offset < iommu.register_bytes())
}
