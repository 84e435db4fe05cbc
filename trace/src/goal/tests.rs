use super::*;
use arch::address::{Linear, SystemPhysical};
use arch::apic::DeliveryMode;
use arch::identity::Vector;
use arch::time::Picoseconds;

fn goal(text: &str) -> Result<EventGoal, String> {
    text.parse()
}

fn check(event: Event, rows: &[(&str, bool)]) {
    let record = Record { at: Picoseconds(5), cpu: CpuIndex(1), event };
    for (text, is_met) in rows {
        let mut goal = goal(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(goal.is(&record), *is_met, "{text}: {record}");
    }
}

fn vcpu(address: u64) -> VirtualCpu {
    VirtualCpu(SystemPhysical(address))
}

#[test]
fn an_event_is_met_by_its_kind_and_by_fields_as_numbers_and_as_words() {
    check(
        Event::PortWrite { port: 0x80, size: 1, value: 7 },
        &[
            ("out", true),
            ("in", false),
            ("out cpu=1", true),
            ("out cpu=0", false),
            ("out port=0x80 value=7", true),
            ("out 128", true),
            ("out 0x81", false),
        ],
    );
    check(
        Event::VirtualApic { vcpu: vcpu(0x5000), is_on: false },
        &[("inhibit", true), ("virtual-apic is_on=true", false), ("inhibit vcpu=0", true)],
    );
    let svm = Event::SvmExit {
        vcpu: vcpu(0x5000),
        code: ExitCode::Msr,
        info1: 1,
        info2: 0,
        interrupt_info: 0,
        rip: Linear(0),
    };
    let (vcpu, guest_physical, vectoring, instruction) = (vcpu(0x7000), 0, 0, 0);
    let (qualification, interruption, rip) = (0, 0, Linear(0));
    let reason = 0x8000_0020;
    let vmx = Event::VmxExit {
        vcpu,
        reason,
        qualification,
        guest_physical,
        interruption,
        vectoring,
        instruction,
        rip,
    };
    let rows = [("vmexit msr", true), ("vm-exit code=MSR", true), ("vmexit hlt", false)];
    check(svm, &rows);
    check(svm, &[("vmexit 0x7c", true), ("vmexit vcpu=0x5000", true), ("vmexit 0x20", false)]);
    check(vmx, &[("vmexit msr", true), ("vmexit msr_write", true), ("vmexit 32", true)]);
    check(vmx, &[("vmexit msr_read", false), ("vmexit reason=0x80000020", true)]);
}

#[test]
fn an_ipi_reaches_those_that_its_destination_or_shorthand_names() {
    let ipi = |destination, destination_mode, scope| Event::InterruptSent {
        destination,
        destination_mode,
        delivery_mode: DeliveryMode::Fixed,
        vector: Vector(0xEC),
        scope,
        is_level: false,
    };
    let (physical, logical) = (DestinationMode::Physical, DestinationMode::Logical);
    let fixed = [("ipi to 3", true), ("ipi to 2", false), ("ipi 0xec to 3", true)];
    check(ipi(3, physical, Scope::Destination), &fixed);
    check(ipi(8, logical, Scope::Destination), &[("ipi to 3", true), ("ipi to 8", false)]);
    check(ipi(0x1_0002, logical, Scope::Destination), &[("ipi to 17", true)]);
    check(ipi(0, physical, Scope::AllButSelf), &[("ipi to 3", true), ("ipi to 1", false)]);
    check(ipi(0, physical, Scope::SelfOnly), &[("ipi to 1", true), ("ipi scope=all", false)]);
    check(ipi(0, physical, Scope::All), &[("ipi scope=all delivery_mode=fixed", true)]);
}

#[test]
fn vcpus_are_numbered_in_the_order_in_which_they_first_run() {
    let mut second = goal("vm-entry vcpu=1").expect("an event");
    let mut ask = |address| {
        let event = Event::Entry { vcpu: vcpu(address), injected: 0, rip: Linear(0) };
        second.is(&Record { at: Picoseconds(0), cpu: CpuIndex(0), event })
    };
    let asked = [0x9000, 0x5000, 0x9000, 0x7000, 0x5000].map(&mut ask);
    assert_eq!(asked, [false, true, false, false, true]);
}

#[test]
fn an_error_names_what_was_wrong_and_what_would_be_right() {
    for (text, why) in [
        ("", "must be one of accept, "),
        ("nothing", "no event \"nothing\", must be one of accept, "),
        ("vm-exit what=1", "one of vm-exit's fields: vcpu, code"),
        ("vmexit nothing", "no exit \"nothing\", must be a number or one of"),
        ("out port=eighty", "port=eighty: must be a number"),
        ("ipi scope=nobody", "must be a number or one of Destination, SelfOnly, All"),
        ("inhibit is_on=maybe", "must be a number or one of false, true"),
        ("ipi to", "must be an APIC ID"),
        ("halt to 1", "has no destination"),
        ("wake 1", "must be cpu=N or one of wake's fields"),
        ("out cpu=x", "must be a processor's number"),
    ] {
        let said = goal(text).expect_err(text);
        assert!(said.contains(why), "{text}: {said}");
    }
    let long = format!("out {}", "port=1 ".repeat(MOST_CONDITIONS + 1));
    assert!(goal(&long).is_err());
}
