//! Interrupts made of records as the machine's trace has them.

use super::*;
use crate::drive::sampling::{Place, Sample};
use arch::address::{Linear, SystemPhysical};
use arch::identity::{ApicId, Vector};

const SENDER: VirtualCpu = VirtualCpu(SystemPhysical(0x1000));
const TARGET: VirtualCpu = VirtualCpu(SystemPhysical(0x2000));
const ICR: u64 = 0x1_0000_00E1;

fn record(at: u64, cpu: u16, event: Event) -> Record {
    Record { at: Picoseconds(at), cpu: CpuIndex(cpu), event }
}

fn exit(at: u64, cpu: u16, vcpu: VirtualCpu, code: ExitCode) -> Record {
    let rip = Linear(0);
    let event = Event::SvmExit { vcpu, code, info1: 1, info2: 0, interrupt_info: 0, rip };
    record(at, cpu, event)
}

fn entry(at: u64, cpu: u16, vcpu: VirtualCpu, injected: u64) -> Record {
    record(at, cpu, Event::Entry { vcpu, injected, rip: Linear(0) })
}

fn msr(at: u64, cpu: u16, index: u32, value: u64) -> Record {
    record(at, cpu, Event::MsrWrite { index, value })
}

/// Without the feature: the send exits, the host interrupts the target, the end exits.
fn software(at: u64) -> Vec<Record> {
    vec![
        exit(at, 0, SENDER, ExitCode::Msr),
        msr(at, 0, ICR_MSR, ICR),
        exit(at + 200, 1, TARGET, ExitCode::Intr),
        entry(at + 400, 0, SENDER, 0),
        entry(at + 700, 1, TARGET, IS_INJECTED | 0xE1),
        exit(at + 800, 1, TARGET, ExitCode::Msr),
        msr(at + 800, 1, EOI_MSR, 0),
        entry(at + 1100, 1, TARGET, 0),
    ]
}

/// With it.
fn hardware(at: u64) -> Vec<Record> {
    let (vcpu, vector, rip) = (TARGET, Vector(0xE1), Linear(0));
    vec![
        record(at, 0, Event::VirtualIpiSent { vcpu: SENDER, icr: ICR }),
        record(at + 50, 0, Event::Posted { place: SystemPhysical(7), vector }),
        record(at + 50, 0, Event::Doorbell { target: ApicId(1) }),
        record(at + 90, 1, Event::VirtualInterruptDelivered { vcpu, vector, rip }),
        record(at + 120, 1, Event::VirtualEndOfInterrupt { vcpu, vector }),
    ]
}

fn found(records: &[Record]) -> Option<Examples> {
    Examples::find(records, &Samples::default())
}

fn typical(records: &[Record]) -> Option<Example> {
    found(records).map(|found| found.chosen(Choice::Typical, None).1.clone())
}

fn said(spans: &[Span]) -> Vec<(u64, u64, Doing, &str)> {
    spans.iter().map(|one| (one.from_ps, one.to_ps, one.doing, one.what.as_str())).collect()
}

#[test]
fn an_ipi_by_software_is_its_exits_on_both_sides() {
    let records: Vec<Record> = (0..100).flat_map(|turn| software(turn * 1200)).collect();
    let example = typical(&records).expect("a hundred sends");
    assert_eq!((example.duration_ps, example.exits), (1200, 3));
    assert_eq!(said(&example.sender), [(0, 400, Doing::Hypervisor, "ICR write")]);
    assert_eq!(
        said(&example.target),
        [
            (200, 700, Doing::Hypervisor, "host interrupt"),
            (700, 800, Doing::Handler, "handler"),
            (800, 1100, Doing::Hypervisor, "EOI"),
        ]
    );
    // 0 to 700 and 800 to 1100 of 1200.
    assert!((example.share_in_hypervisor() - 1000.0 / 12.0).abs() < 1e-9);
}

#[test]
fn an_ipi_by_the_processor_has_no_exit() {
    let records: Vec<Record> = (0..100).flat_map(|turn| hardware(turn * 150)).collect();
    let example = typical(&records).expect("a hundred sends");
    assert_eq!((example.duration_ps, example.exits), (150, 0));
    assert_eq!(said(&example.sender), [(0, 50, Doing::Hardware, "send")]);
    assert_eq!(
        said(&example.target),
        [(50, 90, Doing::Hardware, "deliver"), (90, 120, Doing::Handler, "handler"),]
    );
    assert_eq!(example.share_in_hypervisor(), 0.0);
}

#[test]
fn what_lasts_from_the_one_before_is_named_so_and_cut() {
    // The target's EOI takes until behind the next send.
    let turn = |turn: u64| {
        let mut records = software(turn * 1000);
        records.sort_by_key(|record| record.at);
        records
    };
    let mut records: Vec<Record> = (0..100).flat_map(turn).collect();
    records.sort_by_key(|record| record.at);
    let example = typical(&records).expect("a hundred sends");
    let first = &example.target[0];
    assert_eq!((first.from_ps, first.to_ps), (0, 100));
    assert_eq!(first.what, "EOI of the one before");
    assert_eq!(example.target.last().map(|span| span.to_ps), Some(1000));
}

#[test]
fn a_run_that_sends_too_little_has_no_example() {
    let records: Vec<Record> = (0..10).flat_map(|turn| hardware(turn * 150)).collect();
    assert_eq!(found(&records), None);
    assert_eq!(found(&[]), None);
}

fn message(at: u64) -> Record {
    let requester = device::map::PULSE.requester();
    let address = arch::address::Device(0xFEE0_0000);
    record(at, 0, Event::MessageSignalled { requester, address, data: 0 })
}

/// A device's interrupt that the IOMMU posts.
fn posted(at: u64) -> Vec<Record> {
    let (vcpu, vector, rip) = (TARGET, Vector(0xE1), Linear(0));
    vec![
        message(at),
        record(at, 0, Event::Posted { place: SystemPhysical(7), vector }),
        record(at, 0, Event::Doorbell { target: ApicId(1) }),
        record(at + 460, 1, Event::VirtualInterruptAccepted { vcpu, vector }),
        record(at + 460, 1, Event::VirtualInterruptDelivered { vcpu, vector, rip }),
        record(at + 590, 1, Event::VirtualEndOfInterrupt { vcpu, vector }),
    ]
}

/// One that a third processor of the host takes.
fn through_the_host(at: u64) -> Vec<Record> {
    let (vector, rip) = (Vector(0x23), Linear(0));
    let delivery_mode = arch::apic::DeliveryMode::Fixed;
    vec![
        message(at),
        record(at + 300, 2, Event::InterruptAccepted { delivery_mode, vector, is_level: false }),
        record(at + 310, 2, Event::InterruptDelivered { vector, rip }),
        record(
            at + 650,
            2,
            Event::InterruptSent {
                destination: 1,
                destination_mode: DestinationMode::Physical,
                delivery_mode,
                vector: Vector(0xFD),
                scope: arch::apic::Scope::Destination,
                is_level: false,
            },
        ),
        exit(at + 900, 1, TARGET, ExitCode::Intr),
        entry(at + 1700, 1, TARGET, IS_INJECTED | 0xE1),
        exit(at + 2200, 1, TARGET, ExitCode::Msr),
        msr(at + 2200, 1, EOI_MSR, 0),
        entry(at + 2800, 1, TARGET, 0),
    ]
}

#[test]
fn a_device_s_interrupt_is_from_its_message_to_the_end_of_its_handler() {
    let records: Vec<Record> = (0..100).flat_map(|turn| posted(turn * 20_000)).collect();
    let example = typical(&records).expect("a hundred messages");
    assert_eq!(
        (example.interrupt, example.duration_ps, example.exits),
        (Interrupt::Device, 590, 0)
    );
    assert_eq!(said(&example.sender), [(0, 460, Doing::Hardware, "message")]);
    assert_eq!(said(&example.target), [(460, 590, Doing::Handler, "handler")]);

    let records: Vec<Record> = (0..100).flat_map(|turn| through_the_host(turn * 20_000)).collect();
    let example = typical(&records).expect("a hundred messages");
    assert_eq!((example.duration_ps, example.exits), (2800, 2));
    assert_eq!(
        said(&example.sender),
        [(0, 300, Doing::Hardware, "message"), (310, 650, Doing::Hypervisor, "host interrupt"),]
    );
    assert_eq!(
        said(&example.target),
        [
            (900, 1700, Doing::Hypervisor, "host interrupt"),
            (1700, 2200, Doing::Handler, "handler"),
            (2200, 2800, Doing::Hypervisor, "EOI"),
        ]
    );
}

#[test]
fn a_timer_s_interrupt_is_from_the_exit_that_sets_it() {
    let turn = |at: u64| {
        vec![
            exit(at, 1, TARGET, ExitCode::Msr),
            msr(at, 1, 0x838, 1000),
            entry(at + 400, 1, TARGET, 0),
            exit(at + 5000, 1, TARGET, ExitCode::Intr),
            entry(at + 5600, 1, TARGET, IS_INJECTED | 0xE1),
            exit(at + 5700, 1, TARGET, ExitCode::Msr),
            msr(at + 5700, 1, EOI_MSR, 0),
            entry(at + 6000, 1, TARGET, 0),
        ]
    };
    let records: Vec<Record> = (0..100).flat_map(|one| turn(one * 10_000)).collect();
    let example = typical(&records).expect("a hundred timers");
    assert_eq!(
        (example.interrupt, example.duration_ps, example.exits),
        (Interrupt::Timer, 6000, 3)
    );
    assert_eq!(example.lanes().len(), 1);
}

#[test]
fn the_slowest_and_the_worst_that_is_new_are_found_on_demand() {
    let mut records: Vec<Record> = (0..100).flat_map(|turn| hardware(turn * 150)).collect();
    // One is late, and another has an exit besides.
    records.iter_mut().filter(|one| one.at.0 >= 80 * 150).for_each(|one| one.at.0 += 400);
    let extra =
        [exit(60 * 150 + 130, 1, TARGET, ExitCode::Intr), entry(60 * 150 + 140, 1, TARGET, 0)];
    let place = records.iter().position(|one| one.at.0 >= 61 * 150).expect("a later one");
    records.splice(place..place, extra);
    let before: Vec<Record> = (0..100).flat_map(|turn| software(turn * 1200)).collect();
    let (found, before) = (found(&records).expect("on"), found(&before).expect("off"));
    let chosen = |choice, before| {
        let (choice, example) = found.chosen(choice, before);
        (choice, example.duration_ps, example.exits)
    };
    assert_eq!(chosen(Choice::Typical, Some(&before)), (Choice::Typical, 150, 0));
    assert_eq!(chosen(Choice::Slowest, Some(&before)), (Choice::Slowest, 550, 0));
    // Without the feature hosts interrupt as well.
    assert_eq!(chosen(Choice::WorstNew, Some(&before)), (Choice::Typical, 150, 0));
    let records: Vec<Record> = (0..100).flat_map(|turn| hardware(turn * 150)).collect();
    let nothing = Examples::find(&records, &Samples::default()).expect("on");
    assert_eq!(chosen(Choice::WorstNew, Some(&nothing)), (Choice::WorstNew, 150, 1));
}

#[test]
fn what_processors_did_is_told_by_the_exit_that_it_was_for() {
    let records: Vec<Record> = (0..100).flat_map(|turn| software(turn * 1200)).collect();
    let sample = |at, done, cpu, place| Sample {
        at: Picoseconds(at),
        done: Picoseconds(done),
        cpu: CpuIndex(cpu),
        place,
    };
    let mut samples = Samples { looks: 4801, ..Samples::default() };
    samples.span = Some((Picoseconds(0), Picoseconds(120_000)));
    for turn in (0..100).map(|turn| turn * 1200) {
        samples.all.extend([
            sample(turn + 100, turn + 100, 0, Place::Kernel(0x10)),
            // It is about to leave its guest.
            sample(turn + 190, turn + 201, 1, Place::Kernel(0x20)),
            sample(turn + 300, turn + 300, 1, Place::Kernel(0x20)),
            sample(turn + 500, turn + 500, 0, Place::Program),
        ]);
    }
    let mut functions = Examples::find(&records, &samples).expect("a hundred sends").functions;
    let named = BTreeMap::from([
        (0x10, ("send".to_owned(), Some("kvm".to_owned()))),
        (0x20, ("take".to_owned(), None)),
    ]);
    name_functions(&mut functions, &named);
    let mut told: Vec<_> =
        functions.iter().map(|one| (one.during.as_str(), one.words(), one.ps)).collect();
    told.sort_unstable();
    let told: Vec<_> =
        told.iter().map(|(during, name, ps)| (*during, name.as_str(), *ps)).collect();
    assert_eq!(
        told,
        [
            ("", "programs of the host", 25),
            ("ICR write", "send [kvm]", 25),
            ("host interrupt", "VM exit by the processor", 25),
            ("host interrupt", "take", 25),
        ]
    );
}
