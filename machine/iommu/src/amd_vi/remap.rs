//! Remapping devices' interrupts. [IOMMU "Interrupt Remapping Tables"]

use super::device::Asked;
use super::{AmdVi, Posting};
use crate::SystemMemory;
use arch::address::SystemPhysical;
use arch::amd_vi::remapping::{INDEX, LEGACY_SIZE, WIDE_SIZE};
use arch::amd_vi::{
    Control, EventFlags, EventKind, GuestEntry, InterruptControl, InterruptHalf, InterruptType,
    LegacyEntry, RemappedEntry,
};
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage};
use arch::identity::{RequesterId, Vector};
use arch::msi::{MessageData, MessageSignalled};

/// Of a virtual APIC's backing page.
const PAGE_SIZE: u64 = 0x1000;

/// What becomes of a function's interrupt.
pub type Remapped = crate::Remapped<Posting>;

/// Why an interrupt has no entry that counts.
struct Refused {
    flags: EventFlags,
    kind: EventKind,
    is_silent: bool,
}

impl Refused {
    const fn new(flags: EventFlags, is_silent: bool) -> Self {
        Self { flags, kind: EventKind::PageFault, is_silent }
    }
}

impl AmdVi {
    /// Looks up the interrupt that a function's write into the interrupt window means.
    pub fn remap(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        message: MessageSignalled,
    ) -> Remapped {
        if !self.control.is_enabled() || requester == self.model.requester {
            return Remapped::Unchanged;
        }
        let flags = EventFlags::INTERRUPT | EventFlags::WRITE;
        let asked = Asked { requester, flags, address: message.address.0 };
        let Ok(entry) = self.entry(memory, asked) else { return Remapped::Aborted };
        let (interrupts, domain) = (entry.interrupts, entry.translation.domain());
        if !interrupts.is_valid() {
            return Remapped::Unchanged;
        }
        let data = MessageData::from_bits(message.data);
        self.decide(memory, requester, interrupts, data).unwrap_or_else(|refused| {
            if !refused.is_silent && !interrupts.suppresses_events() {
                self.log_event(memory, asked.event(refused.kind, domain, refused.flags));
            }
            Remapped::Aborted
        })
    }

    /// Fixed and arbitrated interrupts go by their control field, others pass or not.
    fn decide(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        interrupts: InterruptHalf,
        data: MessageData,
    ) -> Result<Remapped, Refused> {
        let passes = match data.delivery_mode() {
            DeliveryMode::Fixed | DeliveryMode::LowestPriority => match interrupts.control() {
                InterruptControl::Pass => true,
                InterruptControl::Remap => {
                    return self.look_up(memory, requester, interrupts, data);
                }
                InterruptControl::Abort | InterruptControl::Reserved => false,
            },
            // No filter of SMIs is among the features.
            DeliveryMode::Smi => true,
            DeliveryMode::Nmi => interrupts.passes_nmi(),
            DeliveryMode::Init => interrupts.passes_init(),
            DeliveryMode::ExtInt => interrupts.passes_ext_int(),
            DeliveryMode::RemoteRead | DeliveryMode::Startup => false,
        };
        if passes { Ok(Remapped::Unchanged) } else { Err(Refused::new(EventFlags::empty(), false)) }
    }

    /// Vector and delivery mode of the message are the index: 512 entries for two modes.
    fn look_up(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        interrupts: InterruptHalf,
        data: MessageData,
    ) -> Result<Remapped, Refused> {
        let index = data.into_bits() & INDEX;
        if index >= 1 << interrupts.table_length() {
            return Err(Refused::new(EventFlags::empty(), false));
        }
        let is_wide = self.control.has_wide_remapping_entries();
        let size = if is_wide { WIDE_SIZE } else { LEGACY_SIZE };
        let at = interrupts.table().offset(u64::from(index) * size);
        if !memory.holds(at, size) {
            let kind = EventKind::PageTableHardwareError;
            return Err(Refused { flags: EventFlags::empty(), kind, is_silent: false });
        }
        if !is_wide {
            return legacy(LegacyEntry::from_bits(memory.read_u32(at)), data);
        }
        let raw = self.wide_entry(memory, requester, index, at);
        let entry = GuestEntry::from_bits(raw);
        if !entry.is_enabled() {
            return Err(Refused::new(EventFlags::empty(), entry.suppresses_fault()));
        }
        match (entry.is_guest(), self.control.guest_mode()) {
            (false, _) => self.wide(RemappedEntry::from_bits(raw), data),
            (true, Control::VIRTUAL_APIC) if memory.holds(entry.backing_page(), PAGE_SIZE) => {
                Ok(Remapped::Posting(Posting::new(requester, index, at, entry)))
            }
            // The specification lists no event for a backing page that cannot be reached: told as
            // a table that cannot be.
            (true, Control::VIRTUAL_APIC) => {
                let kind = EventKind::PageTableHardwareError;
                Err(Refused { flags: EventFlags::empty(), kind, is_silent: false })
            }
            (true, _) => {
                let flags = EventFlags::PRESENT | EventFlags::RESERVED;
                Err(Refused::new(flags, entry.suppresses_fault()))
            }
        }
    }

    /// One access of 16 bytes, unless the entry is kept.
    pub(super) fn wide_entry(
        &mut self,
        memory: &impl SystemMemory,
        requester: RequesterId,
        index: u32,
        at: SystemPhysical,
    ) -> u128 {
        let read =
            || u128::from(memory.read_u64(at.offset(8))) << 64 | u128::from(memory.read_u64(at));
        if self.behaviour.keeps_whole_entries {
            *self.kept.entry((requester.0, index)).or_insert_with(read)
        } else {
            read()
        }
    }

    /// [IOMMU "Interrupt Remapping Table Entry — Guest Virtual APIC Disabled"]
    fn wide(&self, entry: RemappedEntry, data: MessageData) -> Result<Remapped, Refused> {
        let is_x2apic = self.control.has_x2apic_destinations();
        let target = Target {
            destination: entry.destination() & if is_x2apic { u32::MAX } else { 0xFF },
            mode: entry.destination_mode(),
            vector: entry.vector(),
            is_x2apic,
        };
        target.interrupt(entry.kind(), entry.suppresses_fault(), data)
    }
}

/// [IOMMU "Interrupt Remapping Table Entry — Basic Format"]
fn legacy(entry: LegacyEntry, data: MessageData) -> Result<Remapped, Refused> {
    if !entry.is_enabled() {
        return Err(Refused::new(EventFlags::empty(), entry.suppresses_fault()));
    }
    if entry.is_guest() {
        let flags = EventFlags::PRESENT | EventFlags::RESERVED;
        return Err(Refused::new(flags, entry.suppresses_fault()));
    }
    let target = Target {
        destination: entry.destination().into(),
        mode: entry.destination_mode(),
        vector: entry.vector(),
        is_x2apic: false,
    };
    target.interrupt(entry.kind(), entry.suppresses_fault(), data)
}

/// What an entry of either size says.
struct Target {
    destination: u32,
    mode: DestinationMode,
    vector: u8,
    is_x2apic: bool,
}

impl Target {
    /// The trigger mode stays that of the message.
    fn interrupt(
        self,
        kind: InterruptType,
        is_silent: bool,
        data: MessageData,
    ) -> Result<Remapped, Refused> {
        let delivery_mode = match kind {
            InterruptType::Fixed => DeliveryMode::Fixed,
            InterruptType::Arbitrated => DeliveryMode::LowestPriority,
            InterruptType::Reserved(_) => {
                let flags = EventFlags::PRESENT | EventFlags::RESERVED;
                return Err(Refused::new(flags, is_silent));
            }
        };
        Ok(Remapped::Interrupt(InterruptMessage {
            destination: self.destination,
            destination_mode: self.mode,
            delivery_mode,
            vector: Vector(self.vector),
            is_level: data.is_level(),
            is_asserted: !data.is_level() || data.is_asserted(),
            is_x2apic: self.is_x2apic,
        }))
    }
}
