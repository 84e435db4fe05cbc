//! The structures in memory that the silicon and the hypervisor share, read before and after.

use crate::silicon;
use arch::address::SystemPhysical;
use arch::svm::avic::{PHYSICAL_ENTRY_SIZE, PhysicalEntry};
use arch::svm::vmcb::control;
use arch::vmx::apicv::{NotificationControl, POSTED_CONTROL_OFFSET};
use arch::vmx::control::{PinControls, SecondaryControls, TertiaryControls};
use arch::vmx::field::{control as vmcs_control, guest};
use board::Machine;

/// The registers of 256 vectors in an APIC's page, 16 bytes apart. [SDM3 "Local APIC Register
/// Address Map"]
const BANKS: [(&str, u64); 2] = [("ISR", 0x100), ("IRR", 0x200)];

/// The bits of a control block that have the processor deliver interrupts.
/// [APM2 "Virtual Interrupts"] [SDM3 "Processor-Based VM-Execution Controls"]
const DELIVERS: [&str; 2] = ["int_ctl.AVIC enable", "secondary: virtual-interrupt delivery"];

/// What there is of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    /// ISR and IRR of its virtual APIC.
    banks: [[u32; 8]; 2],
    /// Its posted-interrupt descriptor: PIR, and what is behind it.
    posted: Option<([u64; 4], NotificationControl)>,
    /// Its entry of AVIC's physical APIC ID table.
    entry: Option<PhysicalEntry>,
    /// The requesting and the servicing virtual interrupt.
    status: Option<[u8; 2]>,
    /// What of interrupt virtualization its control block has switched on.
    controls: Vec<(&'static str, bool)>,
}

/// Where these are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// VMCB or VMCS.
    pub block: SystemPhysical,
    page: Option<SystemPhysical>,
    descriptor: Option<SystemPhysical>,
    /// The entry's index and address.
    entry: Option<(u64, SystemPhysical)>,
}

impl Places {
    pub fn of(machine: &Machine, block: SystemPhysical) -> Self {
        let page = silicon::apic_page(machine, block);
        let descriptor = silicon::descriptor(machine, block);
        Self { block, page, descriptor, entry: page.and_then(|page| entry(machine, block, page)) }
    }

    /// The index of its entry in the physical APIC ID table.
    pub fn index(&self) -> Option<u64> {
        self.entry.map(|(index, _)| index)
    }
}

/// The entry that names a page, of the table that a VMCB names.
fn entry(
    machine: &Machine,
    block: SystemPhysical,
    page: SystemPhysical,
) -> Option<(u64, SystemPhysical)> {
    let pointer = silicon::vmcb(machine, block)?.get(control::AVIC_PHYSICAL_TABLE);
    let places = (0..=u64::from(pointer.max_index()))
        .map(|index| (index, pointer.table().offset(index * PHYSICAL_ENTRY_SIZE)));
    places.into_iter().find(|(_, at)| {
        let entry = PhysicalEntry::from_bits(machine.memory.read_u64(*at).unwrap_or(0));
        entry.is_valid() && entry.backing_page() == page
    })
}

/// What interrupt virtualization is switched by. [APM2 "Virtual Interrupts"] [SDM3
/// "VM-Execution Control Fields"]
fn controls(machine: &Machine, block: SystemPhysical) -> Vec<(&'static str, bool)> {
    if let Some(vmcb) = silicon::vmcb(machine, block) {
        let bits = vmcb.get(control::INTERRUPT_CONTROL);
        return vec![
            (DELIVERS[0], bits.avic_enabled()),
            ("int_ctl.x2AVIC enable", bits.x2avic_enabled()),
        ];
    }
    let Some(vmcs) = silicon::vmcs(machine, block) else { return Vec::new() };
    let pin = PinControls::from_bits_retain(vmcs.get(vmcs_control::PIN) as u32);
    let secondary = SecondaryControls::from_bits_retain(vmcs.get(vmcs_control::SECONDARY) as u32);
    let tertiary = TertiaryControls::from_bits_retain(vmcs.get(vmcs_control::TERTIARY));
    vec![
        ("pin-based: process posted interrupts", pin.contains(PinControls::POSTED_INTERRUPTS)),
        (
            "secondary: virtualize x2APIC mode",
            secondary.contains(SecondaryControls::VIRTUALIZE_X2APIC_MODE),
        ),
        (
            "secondary: APIC-register virtualization",
            secondary.contains(SecondaryControls::APIC_REGISTER_VIRTUALIZATION),
        ),
        (DELIVERS[1], secondary.contains(SecondaryControls::VIRTUAL_INTERRUPT_DELIVERY)),
        ("tertiary: IPI virtualization", tertiary.contains(TertiaryControls::IPI_VIRTUALIZATION)),
    ]
}

impl Shared {
    pub fn read(machine: &Machine, places: &Places) -> Self {
        let memory = &machine.memory;
        let word = |at: SystemPhysical| memory.read_u64(at).unwrap_or(0);
        let bank = |(_, base): (&str, u64)| {
            std::array::from_fn(|index| {
                let at = places.page.map(|page| page.offset(base + 16 * index as u64));
                at.and_then(|at| memory.read_u32(at).ok()).unwrap_or(0)
            })
        };
        let posted = places.descriptor.map(|at| {
            let requests = std::array::from_fn(|index| word(at.offset(8 * index as u64)));
            (requests, NotificationControl::from_bits(word(at.offset(POSTED_CONTROL_OFFSET))))
        });
        let status = silicon::vmcs(machine, places.block).filter(|_| places.page.is_some());
        Self {
            banks: BANKS.map(bank),
            posted,
            entry: places.entry.map(|(_, at)| PhysicalEntry::from_bits(word(at))),
            controls: controls(machine, places.block),
            status: status.map(|vmcs| (vmcs.get(guest::INTERRUPT_STATUS) as u16).to_le_bytes()),
        }
    }

    /// The fields and bits in which another is different, as `NAME OLD -> NEW`.
    pub fn changes(&self, new: &Self) -> Vec<String> {
        let mut all = Vec::new();
        for ((name, _), (old, new)) in BANKS.iter().zip(self.banks.iter().zip(&new.banks)) {
            let bits = |word: &u32| u64::from(*word);
            changed_bits(name, 32, old.iter().map(bits), new.iter().map(bits), &mut all);
        }
        if let (Some((old_bits, old)), Some((new_bits, new))) = (&self.posted, &new.posted) {
            changed_bits("PIR", 64, old_bits.iter().copied(), new_bits.iter().copied(), &mut all);
            let rows = [
                ("ON", u32::from(old.is_outstanding()), u32::from(new.is_outstanding())),
                ("SN", u32::from(old.is_suppressed()), u32::from(new.is_suppressed())),
                ("NV", old.vector().into(), new.vector().into()),
                ("NDST", old.destination(), new.destination()),
            ];
            all.extend(rows.into_iter().filter_map(changed));
        }
        if let (Some(old), Some(new)) = (self.entry, new.entry) {
            let rows = [
                ("IsRunning", u32::from(old.is_running()), u32::from(new.is_running())),
                ("host APIC ID", old.host_apic_id().into(), new.host_apic_id().into()),
            ];
            all.extend(rows.into_iter().filter_map(changed));
        }
        if let (Some(old), Some(new)) = (self.status, new.status) {
            let rows =
                [("RVI", old[0].into(), new[0].into()), ("SVI", old[1].into(), new[1].into())];
            all.extend(rows.into_iter().filter_map(changed));
        }
        let pairs = self.controls.iter().zip(&new.controls);
        let rows = pairs.map(|((name, old), (_, new))| (*name, (*old).into(), (*new).into()));
        all.extend(rows.filter_map(changed));
        all
    }

    /// Whether the processor delivers interrupts of the virtual APIC by itself, as the control
    /// block says.
    pub fn is_virtualized(&self) -> bool {
        self.controls.iter().any(|(name, is_on)| DELIVERS.contains(name) && *is_on)
    }

    /// What a sender looks at before it decides whom to tell.
    pub fn as_found(&self, places: &Places) -> Option<String> {
        if let (Some(entry), Some(index)) = (self.entry, places.index()) {
            return Some(format!(
                "physical APIC ID table, entry {index}: V {}, IsRunning {}, host APIC ID {}",
                u8::from(entry.is_valid()),
                u8::from(entry.is_running()),
                entry.host_apic_id()
            ));
        }
        self.descriptor()
    }

    /// Whom to notify, where requests are posted.
    pub fn descriptor(&self) -> Option<String> {
        let (_, control) = self.posted.as_ref()?;
        Some(format!(
            "posted-interrupt descriptor: ON {}, SN {}, NV {:x}h, NDST {:x}h",
            u8::from(control.is_outstanding()),
            u8::from(control.is_suppressed()),
            control.vector(),
            control.destination()
        ))
    }
}

fn changed((name, old, new): (&str, u32, u32)) -> Option<String> {
    // Flags and APIC IDs below ten read the same in both bases.
    (old != new).then(|| format!("{name} {} -> {}", in_hex(old.into()), in_hex(new.into())))
}

pub(super) fn in_hex(value: u64) -> String {
    if value < 10 { value.to_string() } else { format!("{value:x}h") }
}

fn changed_bits(
    name: &str,
    width: usize,
    old: impl Iterator<Item = u64>,
    new: impl Iterator<Item = u64>,
    all: &mut Vec<String>,
) {
    for (word, (old, new)) in old.zip(new).enumerate() {
        let bits = (0..width).filter(|bit| (old ^ new) >> bit & 1 != 0);
        all.extend(bits.map(|bit| {
            let (before, after) = (old >> bit & 1, new >> bit & 1);
            format!("{name}[{:x}h] {before} -> {after}", word * width + bit)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_changed_is_named_with_both_values() {
        let control = NotificationControl::new().with_vector(0xF2).with_destination(3);
        let old = Shared {
            posted: Some(([0; 4], control)),
            entry: Some(PhysicalEntry::new().with_is_valid(true)),
            status: Some([0, 0x30]),
            ..Shared::default()
        };
        let mut new = old.clone();
        new.banks[1][7] = 1 << 1;
        new.posted = Some(([0, 0, 0, 1 << 33], control.with_is_outstanding(true)));
        new.entry = old.entry.map(|entry| entry.with_is_running(true).with_host_apic_id(12));
        new.status = Some([0xE1, 0x30]);
        assert_eq!(
            old.changes(&new),
            [
                "IRR[e1h] 0 -> 1",
                "PIR[e1h] 0 -> 1",
                "ON 0 -> 1",
                "IsRunning 0 -> 1",
                "host APIC ID 0 -> ch",
                "RVI 0 -> e1h"
            ]
        );
        assert_eq!(old.changes(&old), Vec::<String>::new());
    }
}
