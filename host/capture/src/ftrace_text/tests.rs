use super::*;
use proptest::prelude::*;
use trace::kvm::{Exit, KvmEvent, MmioKind};

#[derive(Default)]
struct All {
    events: Vec<(Stamp, KvmEvent)>,
    lost: Vec<(u32, u64, u64)>,
}

impl Sink for All {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        self.events.push((*stamp, *event));
    }

    fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.lost.push((cpu, at_ns, events));
    }
}

fn read_text(text: &str) -> (All, Result<Told, Error>) {
    let mut all = All::default();
    let told = read(text.as_bytes(), &AtomicBool::new(false), &AtomicU64::new(0), &mut all);
    (all, told)
}

fn event_of(line: &str) -> KvmEvent {
    let (all, told) = read_text(line);
    assert!(told.is_ok(), "{line}");
    all.events.first().unwrap_or_else(|| panic!("not understood: {line}")).1
}

fn exit(isa: u32, reason: u32, info1: u64, info2: u64, interruption: u32) -> KvmEvent {
    KvmEvent::Exit(Exit { isa, reason, info1, info2, interruption })
}

#[test]
fn exits_of_every_kernel_since_2_6_are_read() {
    let rows = [
        ("kvm-1  [000] 1.2: kvm_exit: reason apic_access rip 0xc011518c", exit(1, 44, 0, 0, 0)),
        (
            "c-2 [003] .... 8.3: kvm_exit: reason EXTERNAL_INTERRUPT rip 0x100 info 0 800000f6",
            exit(1, 1, 0, 0x8000_00f6, 0),
        ),
        (
            "q-3 [015] d.... 9.9: kvm_exit: vcpu 0 reason EXCEPTION_NMI rip 0xfd0bd info1 \
             0x0000000000000001 info2 0x0000000000000413 intr_info 0x80000306 error_code 0x00000000",
            exit(1, 0, 1, 0x413, 0x8000_0306),
        ),
        ("q-3 [0] d. 9.9: kvm_exit: vcpu 0 reason msr rip 0xffff", exit(2, 0x7c, 0, 0, 0)),
        (
            "q-3 [0] 9.9: kvm_exit: reason EXIT_NPF rip 0x1 info d fee00300",
            exit(2, 0x400, 0xd, 0xfee0_0300, 0),
        ),
        ("q-3 [0] 9.9: kvm_exit: reason EXIT_IOIO rip 0x1 info 0 0", exit(2, 0x7b, 0, 0, 0)),
        (
            "q-3 [0] 9.9: kvm_exit: vcpu 1 reason PF excp rip 0x1 info1 0 info2 0",
            exit(2, 0x4e, 0, 0, 0),
        ),
        (
            "q-3 [0] 9.9: kvm_exit: vcpu 1 reason INVALID_STATE FAILED_VMENTRY rip 0x1",
            exit(1, 33, 0, 0, 0),
        ),
        ("q-3 [0] 9.9: kvm_exit: reason SOMETHING_NEW rip 0x1", exit(0, 0xf000_0000, 0, 0, 0)),
    ];
    for (line, event) in rows {
        assert_eq!(event_of(line), event, "{line}");
    }
}

#[test]
fn fields_instead_of_text_are_read() {
    const MSR: &str = "q-2 [000] 74.803521: kvm_msr: write=1 ecx=830 data=0x1000000fd exception=0";
    let by_kernel = "q-2 [000] 74.803469: kvm_exit: exit_reason=124 guest_rip=0xffffffff81073914 \
                     isa=2 info1=0x0000000000000001 info2=0x0000000000000000 intr_info=0x00000b0e \
                     error_code=0x00000000 vcpu_id=3";
    let written = |value| KvmEvent::Msr { is_write: true, index: value, value: 0x1_0000_00fd };
    let both = |exit: &str, msr: &str| {
        let (all, told) = read_text(&format!("{exit}\n{msr}\n"));
        assert!(told.is_ok(), "{exit}");
        all.events.into_iter().map(|event| event.1).collect::<Vec<_>>()
    };
    let expected = exit(2, 0x7c, 1, 0, 0xb0e);
    assert_eq!(both(by_kernel, MSR), [expected, written(0x830)]);
    // Recorders of before 2021 write every number without a mark in decimal.
    let plain = "q-2 [000] 74.803469: kvm_exit: exit_reason=124 guest_rip=0xffffffff81073914 isa=2 \
                 info1=1 info2=0 intr_info=2830 error_code=0 vcpu_id=3";
    let msr = MSR.replace("830", "2096").replace("0x1000000fd", "4294967549");
    assert_eq!(both(plain, &msr), [expected, written(0x830)]);
    for (line, event) in [
        (
            "kvm_entry: vcpu_id=3 rip=0xffffffff81a18a78 immediate_exit=0",
            KvmEvent::Entry { vcpu: 3 },
        ),
        (
            "kvm_mmio: type=1 len=4 gpa=0xfee00300 val=0x8fb",
            KvmEvent::Mmio { kind: MmioKind::Read, address: 0xfee0_0300, value: 0x8fb },
        ),
        (
            "kvm_apic: rw=1 reg=768 val=0x8fb",
            KvmEvent::Apic { is_write: true, register: 0x300, value: 0x8fb },
        ),
        ("kvm_userspace_exit: reason=2 errno=-4", KvmEvent::UserspaceExit { reason: 2, errno: -4 }),
        (
            "kvm_apicv_inhibit_changed: set=1 reason=8 inhibits=256",
            KvmEvent::Inhibit { is_set: true, reason: 8, mask: 256 },
        ),
        ("kvm_vcpu_wakeup: ns=518026 waited=1 valid=1", wakeup()),
    ] {
        assert_eq!(event_of(&format!("qemu-2 [000] 1.5: {line}")), event, "{line}");
    }
}

fn wakeup() -> KvmEvent {
    KvmEvent::Wakeup { halted_ns: 518_026, has_waited: true }
}

#[test]
fn the_other_events_are_read() {
    let mmio = KvmEvent::Mmio { kind: MmioKind::Write, address: 0xfee0_0300, value: 0x8fb };
    let rows = [
        ("kvm_entry: vcpu 3, rip 0x1", KvmEvent::Entry { vcpu: 3 }),
        ("kvm_mmio: mmio write len 4 gpa 0xfee00300 val 0x8fb", mmio),
        (
            "kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x41",
            KvmEvent::PortIo { is_write: true, port: 0x3f8 },
        ),
        (
            "kvm_msr: msr_write 830 = 0x1000008fb",
            KvmEvent::Msr { is_write: true, index: 0x830, value: 0x1_0000_08fb },
        ),
        (
            "kvm_apic: apic_write APIC_EOI = 0x0",
            KvmEvent::Apic { is_write: true, register: 0xb0, value: 0 },
        ),
        (
            "kvm_hypercall: nr 0xa a0 0x3 a1 0x0 a2 0x0 a3 0xfb",
            KvmEvent::Hypercall { number: 10, is_hyperv: false },
        ),
        (
            "kvm_hv_hypercall: code 0xb fast cnt 0x0 idx 0x0 in 0x0 out 0x0",
            KvmEvent::Hypercall { number: 11, is_hyperv: true },
        ),
        (
            "kvm_apicv_inhibit_changed: cleared reason=8, inhibits=0x20",
            KvmEvent::Inhibit { is_set: false, reason: 8, mask: 0x20 },
        ),
        (
            "kvm_avic_incomplete_ipi: vcpu=2, icrh:icrl=0x00000001:000008fb, id=1, index=4",
            KvmEvent::IncompleteIpi { vcpu: 2, icr: 0x1_0000_08fb, cause: 1, index: 4 },
        ),
        (
            "kvm_avic_unaccelerated_access: vcpu=0, offset=0xb0(APIC_EOI), trap, write, vec=0x22",
            KvmEvent::UnacceleratedAccess {
                vcpu: 0,
                register: 0xb0,
                is_trap: true,
                is_write: true,
                vector: 0x22,
            },
        ),
        (
            "kvm_inj_virq: IRQ 0xec [reinjected]",
            KvmEvent::InjectInterrupt { vector: 0xec, is_soft: false, is_reinjected: true },
        ),
        (
            "kvm_inj_virq: irq 236",
            KvmEvent::InjectInterrupt { vector: 236, is_soft: false, is_reinjected: false },
        ),
        (
            "kvm_apicv_accept_irq: apicid a vec 33 (LowPrio|level)",
            KvmEvent::AcceptInterrupt {
                apic: 10,
                vector: 33,
                delivery_mode: 1,
                is_level: true,
                is_posted: true,
            },
        ),
        (
            "kvm_apic_ipi: dst 1 vec 251 (Fixed|physical|assert|edge|dst)",
            KvmEvent::SendIpi { icr_low: 0x40fb, destination: 1 },
        ),
        (
            "kvm_userspace_exit: reason KVM_EXIT_IO (2)",
            KvmEvent::UserspaceExit { reason: 2, errno: 0 },
        ),
        (
            "kvm_userspace_exit: reason restart (4)",
            KvmEvent::UserspaceExit { reason: 10, errno: -4 },
        ),
        (
            "kvm_userspace_exit: reason error (11)",
            KvmEvent::UserspaceExit { reason: 0, errno: -11 },
        ),
        (
            "kvm_vcpu_wakeup: wait time 1234 ns, polling valid",
            KvmEvent::Wakeup { halted_ns: 1234, has_waited: true },
        ),
        ("kvm_avic_ga_log: vmid=33, vcpuid=8", KvmEvent::GuestLog { vm: 33, vcpu: 8 }),
        (
            "kvm_eoi: apicid 1 vector 49",
            KvmEvent::EndOfInterrupt { apic: 1, vector: 49, is_paravirtual: false },
        ),
        (
            "kvm_pi_irte_update: PI is enabled and being updated for irq 55, vcpu 2, gsi: 0x18, gvec: 0x41",
            KvmEvent::PostedRoute { host_irq: 55, vcpu: 2, vector: 0x41, is_set: true },
        ),
    ];
    for (text, event) in rows {
        assert_eq!(event_of(&format!("q-1 [000] .... 5.0: {text}")), event, "{text}");
    }
}

#[test]
fn names_printed_by_the_kernel_are_learnt() {
    let text =
        "q-1 [0] 5.0: kvm_apicv_inhibit_changed: set reason=8, inhibits=0x300 IRQWIN|PIT_REINJ\n";
    let told = read_text(text).1.expect("an event");
    assert_eq!(told.inhibit_names.get(&9).map(String::as_str), Some("PIT_REINJ"));
    let text = "q-1 [0] 5.0: kvm_apicv_inhibit_changed: set reason=8, inhibits=0x300\n";
    assert!(read_text(text).1.expect("an event").inhibit_names.is_empty());
}

#[test]
fn losses_and_absent_threads_are_told() {
    let text = "CPU:1 [LOST 7 EVENTS]\n[001] 2.0: kvm:kvm_entry: vcpu 4, rip 0x1\n";
    let (all, _) = read_text(text);
    assert_eq!(all.lost, [(1, 0, 7)]);
    assert_eq!(all.events[0].0.thread, 5);
    assert!(read_text("no trace at all\n").1.is_err());
}

#[test]
fn a_counter_for_a_clock_is_told_from_no_trace() {
    let text = "q-1 [000] ..... 91757586: kvm_entry: vcpu 0, rip 0x1\n";
    let why = |text: &str| read_text(text).1.expect_err("no recording").to_string();
    assert!(why(text).contains("trace_clock"), "{}", why(text));
    assert!(why("no trace at all\n").contains("no line of text"));
}

#[test]
fn threads_that_lines_do_not_name_are_said() {
    let warnings = |text: &str| read_text(text).1.expect("an event").origin.warnings;
    let entry = "[001] 2.0: kvm:kvm_entry: vcpu 4, rip 0x1\n";
    assert!(warnings(entry).iter().any(|warning| warning.contains("threads")));
    assert!(warnings(&format!("q 7/9 {entry}")).is_empty());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = read_text(&text);
    }

    #[test]
    fn no_event_text_panics(
        name in proptest::sample::select(vec![
            "kvm_exit", "kvm_entry", "kvm_mmio", "kvm_msr", "kvm_apic", "kvm_pio", "kvm_inj_virq",
            "kvm_apicv_inhibit_changed", "kvm_avic_incomplete_ipi", "kvm_apic_ipi", "kvm_set_irq",
            "kvm_avic_unaccelerated_access", "kvm_pi_irte_update", "kvm_userspace_exit",
        ]),
        text in "[a-z0-9x=,:()| .é]{0,60}(reason|rip|vcpu|info1|inhibits|icrh:icrl|offset|vec)?[ =0-9a-fx:(,]{0,30}",
    ) {
        let _ = read_text(&format!("q-1 [0] 5.0: {name}: {text}\n"));
    }
}
