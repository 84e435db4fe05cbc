//! Rules on the reference hypervisor under way, whose tables and pages are changed behind its back.

use super::super::super::window;
use super::*;
use crate::{reference, silicon};
use arch::vmx::apicv::{NotificationControl, POSTED_CONTROL_OFFSET};

const VECTOR: u8 = 0xEB;
/// An APIC ID that no processor has, in either mode of the host.
const NOBODY: u32 = 0x707;
/// So many looks.
const LONG: u64 = 2_000;

/// What is raised, up to a rule, where something is done to each vCPU before each look.
fn raised(
    name: &str,
    rule: Rule,
    mut disturb: impl FnMut(&mut Machine, SystemPhysical),
) -> Option<Alarm> {
    let model = CpuModel::named(name).expect("a model that comes with the machine");
    let options = "avic=on apicv=on vcpus=2 guest.tests=mix guest.apic=x2apic guest.seed=3";
    let mut machine = reference::under_way(model, options, "\"record\":\"mix\"");
    let mut oracle = Oracle::default();
    let before = window::run_on(&mut machine, &mut oracle, Picoseconds(LONG * LOOK.0));
    assert_eq!(before, [], "{name}, before anything is done");
    for _ in 0..LONG {
        oracle.vcpus.keys().for_each(|vcpu| disturb(&mut machine, vcpu.0));
        let alarms = window::run_on(&mut machine, &mut oracle, LOOK);
        let wanted = alarms.into_iter().find(|alarm| alarm.rule == rule);
        if wanted.is_some() || machine.outcome().is_some() {
            return wanted;
        }
    }
    None
}

/// The word at an address becomes another.
fn change(machine: &mut Machine, at: SystemPhysical, new: impl FnOnce(u64) -> u64) {
    let word = machine.memory.read_u64(at).expect("RAM");
    machine.memory.write(at, &new(word).to_le_bytes()).expect("RAM");
}

#[test]
fn a_vcpu_in_its_guest_is_not_said_to_run_on_another_processor() {
    let other = |machine: &mut Machine, block| {
        let Some(vmcb) = silicon::vmcb(machine, block) else { return };
        let table = vmcb.get(control::AVIC_PHYSICAL_TABLE).table();
        for index in 0..2 {
            change(machine, table.offset(8 * index), |entry| {
                PhysicalEntry::from_bits(entry).with_host_apic_id(index as u16 ^ 1).into_bits()
            });
        }
    };
    let alarm = raised("zen4", Rule::Elsewhere, other).expect("an entry of another processor");
    assert_eq!(alarm.way, Way::Physical);
    let other = |machine: &mut Machine, block| {
        let Some(descriptor) = silicon::descriptor(machine, block) else { return };
        change(machine, descriptor.offset(POSTED_CONTROL_OFFSET), |word| {
            NotificationControl::from_bits(word).with_destination(NOBODY).into_bits()
        });
    };
    let alarm = raised("sapphire-rapids", Rule::Elsewhere, other).expect("a descriptor likewise");
    assert_eq!(alarm.way, Way::Physical);
}

#[test]
fn a_guest_says_when_an_interrupt_comes_that_nobody_sent() {
    // As if the silicon had posted it to another than it was sent to.
    let post = |machine: &mut Machine, block| {
        let Some(page) = silicon::apic_page(machine, block) else { return };
        let at = page.offset(0x200 + u64::from(VECTOR >> 5) * 16);
        change(machine, at, |word| word | 1 << (VECTOR & 31));
    };
    let alarm = raised("zen4", Rule::Unasked, post).expect("a vector that nobody sent");
    assert_eq!(alarm.vector, VECTOR);
}

#[test]
fn nothing_is_wrong_with_what_nobody_changes() {
    for name in ["zen4", "sapphire-rapids"] {
        for rule in [Rule::Elsewhere, Rule::Unasked] {
            assert_eq!(raised(name, rule, |_, _| ()), None, "{name}");
        }
    }
}
