mod behind_its_back;
mod remapping;

use super::*;
use arch::address::Linear;
use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use arch::svm::ExitCode;
use arch::svm::avic::{PhysicalEntry, PhysicalTablePointer};
use arch::svm::vmcb::{SIZE, Vmcb, control, save};
use board::Configuration;
use board::topology::Topology;
use cpu::{Activity, CpuModel};

const VMCB: SystemPhysical = SystemPhysical(0x10_0000);
const PAGE: SystemPhysical = SystemPhysical(0x10_1000);
const TABLE: SystemPhysical = SystemPhysical(0x10_2000);
const FLAGS: u64 = 0x202;

/// A vCPU that left for a reason, and what its virtual APIC has then.
#[derive(Clone, Copy)]
struct Case {
    code: ExitCode,
    flags: u64,
    requested: Option<u8>,
    in_service: Option<u8>,
    task_priority: u8,
    said_to_run: bool,
    host: Activity,
    enters_again: bool,
    /// The guest has said that an interrupt is lost.
    gives_up: bool,
}

const ASLEEP: Case = Case {
    code: ExitCode::Hlt,
    flags: FLAGS,
    requested: Some(0x31),
    in_service: None,
    task_priority: 0,
    said_to_run: false,
    host: Activity::Halted,
    enters_again: false,
    gives_up: false,
};
const ASLEEP_WITH_NOTHING: Case = Case { requested: None, ..ASLEEP };

fn machine() -> Machine {
    let model = CpuModel::named("zen4").expect("a model that comes with the machine");
    let topology = Topology::of_cores(2).expect("two processors");
    Machine::new(&Configuration::of(model, topology, 16 << 20)).expect("a machine")
}

impl Case {
    fn set(self, machine: &mut Machine) {
        let mut bytes = vec![0; SIZE];
        let mut vmcb = Vmcb::new(&mut bytes[..]).expect("as many bytes as it has");
        vmcb.set(control::AVIC_BACKING_PAGE, PAGE.0);
        let table = PhysicalTablePointer::new().with_table(TABLE).with_max_index(3);
        vmcb.set(control::AVIC_PHYSICAL_TABLE, table);
        vmcb.set(save::RFLAGS, self.flags);
        let memory = &mut machine.memory;
        memory.write(VMCB, &bytes).expect("RAM");
        let mut set = |bank: u64, vector: Option<u8>| {
            let Some(vector) = vector else { return };
            let at = PAGE.offset(bank + u64::from(vector >> 5) * 16);
            memory.write(at, &(1u32 << (vector & 31)).to_le_bytes()).expect("RAM");
        };
        set(0x200, self.requested);
        set(0x100, self.in_service);
        memory.write(PAGE.offset(0x80), &[self.task_priority]).expect("RAM");
        let entry = PhysicalEntry::new()
            .with_is_valid(true)
            .with_backing_page(PAGE)
            .with_is_running(self.said_to_run);
        memory.write(TABLE.offset(8), &entry.into_bits().to_le_bytes()).expect("RAM");
        machine.state.cpus[1].pending.set_activity(self.host);
    }

    /// What is raised if it enters its guest and leaves again before each look of a millisecond;
    /// with every seventh entry something is injected, or nothing ever.
    fn judge_again_and_again(self, injected: Option<u64>) -> Vec<(Rule, u8)> {
        self.judge_beside(injected, Picoseconds::ZERO)
    }

    /// The same beside a processor that is held up until then.
    fn judge_beside(self, injected: Option<u64>, held: Picoseconds) -> Vec<(Rule, u8)> {
        let mut machine = machine();
        self.set(&mut machine);
        machine.state.cpus[0].clock.move_to(held);
        let (vcpu, rip, cpu) = (VirtualCpu(VMCB), Linear(0), CpuIndex(1));
        let (info1, info2, interrupt_info, code) = (0, 0, 0, self.code);
        let mut oracle = Oracle::default();
        for look in 1..=100 {
            let at = Picoseconds(look * LOOK.0);
            let injected = injected.filter(|_| look % 7 == 0).unwrap_or(0);
            let entry = Event::Entry { vcpu, injected, rip };
            let exit = Event::SvmExit { vcpu, code, info1, info2, interrupt_info, rip };
            [entry, exit].into_iter().for_each(|event| oracle.observe(&Record { at, cpu, event }));
            machine.state.now = at;
            oracle.look(&machine);
        }
        oracle.take().into_iter().map(|alarm| (alarm.rule, alarm.vector)).collect()
    }

    /// What is raised within a millisecond of looks.
    fn judge(self) -> Vec<(Rule, u8)> {
        let mut machine = machine();
        self.set(&mut machine);
        let (vcpu, rip, cpu) = (VirtualCpu(VMCB), Linear(0), CpuIndex(1));
        let mut oracle = Oracle::default();
        let mut happens = |event| oracle.observe(&Record { at: Picoseconds(1), cpu, event });
        happens(Event::Entry { vcpu, injected: 0, rip });
        let (info1, info2, interrupt_info) = (0, 0, 0);
        if self.gives_up {
            let (code, info1) = (ExitCode::IoPort, 0x0FE4 << 16 | 1);
            happens(Event::SvmExit { vcpu, code, info1, info2, interrupt_info, rip });
        }
        let code = self.code;
        happens(Event::SvmExit { vcpu, code, info1, info2, interrupt_info, rip });
        if self.enters_again {
            happens(Event::Entry { vcpu, injected: 0, rip });
        }
        for look in 1..=100 {
            machine.state.now = Picoseconds(look * LOOK.0);
            oracle.look(&machine);
        }
        oracle.take().into_iter().map(|alarm| (alarm.rule, alarm.vector)).collect()
    }
}

#[test]
fn a_vcpu_that_sleeps_on_an_idle_processor_has_nothing_that_it_would_take() {
    assert_eq!(ASLEEP.judge(), [(Rule::Asleep, 0x31)], "once");
    for (what, case) in [
        ("nothing waits", ASLEEP_WITH_NOTHING),
        ("interrupts are disabled", Case { flags: 2, ..ASLEEP }),
        ("its priority holds it back", Case { task_priority: 0x3F, ..ASLEEP }),
        ("it left for something else", Case { code: ExitCode::Msr, ..ASLEEP }),
        ("its processor is busy", Case { host: Activity::Running, ..ASLEEP }),
        ("it runs again", Case { enters_again: true, ..ASLEEP }),
    ] {
        assert_eq!(case.judge(), [], "{what}");
    }
    let behind = Case { in_service: Some(0x35), ..ASLEEP };
    assert_eq!(behind.judge(), [(Rule::InService, 0x35)], "one in service holds it back");
    let given_up = Case { gives_up: true, ..ASLEEP };
    assert_eq!(given_up.judge(), [(Rule::Lost, 0xE4)], "who ends sleeps on");
    let above = Case { task_priority: 0x2F, in_service: Some(0x2E), ..ASLEEP };
    assert_eq!(above.judge(), [(Rule::Asleep, 0x31)], "a higher class");
}

#[test]
fn a_vcpu_that_halts_and_enters_again_and_again_is_given_its_interrupt() {
    let awake = Case { host: Activity::Running, ..ASLEEP };
    assert_eq!(awake.judge_again_and_again(None), [(Rule::NotTaken, 0x31)], "once");
    for (vector, wanted) in [(0x30, vec![(Rule::NotTaken, 0x31)]), (0x31, vec![]), (0x41, vec![])] {
        let injected = Some(0x8000_0000 | vector);
        assert_eq!(awake.judge_again_and_again(injected), wanted, "given {vector:#x}");
    }
    let millisecond = Picoseconds::from_nanoseconds(1_000_000);
    assert_eq!(awake.judge_beside(None, millisecond), [], "by one who is held up");
    let half = Picoseconds(millisecond.0 / 2);
    assert_eq!(awake.judge_beside(None, half), [(Rule::NotTaken, 0x31)], "who was");
    for (what, case) in [
        ("nothing waits", Case { requested: None, ..awake }),
        ("interrupts are disabled", Case { flags: 2, ..awake }),
        ("its priority holds it back", Case { task_priority: 0x3F, ..awake }),
        ("one in service does", Case { in_service: Some(0x35), ..awake }),
    ] {
        assert_eq!(case.judge_again_and_again(None), [], "{what}");
    }
}

#[test]
fn a_vcpu_that_sleeps_is_not_said_to_run() {
    let said = Case { said_to_run: true, ..ASLEEP_WITH_NOTHING };
    assert_eq!(said.judge(), [(Rule::SaidToRun, 0)]);
    let busy = Case { host: Activity::Running, ..said };
    assert_eq!(busy.judge(), [], "it may poll");
}

#[test]
fn a_vcpu_that_sleeps_where_it_would_be_woken_has_ended_its_interrupts() {
    let unended = Case { in_service: Some(0x31), ..ASLEEP_WITH_NOTHING };
    assert_eq!(unended.judge(), [(Rule::InService, 0x31)]);
    for (what, case) in [
        ("interrupts are disabled", Case { flags: 2, ..unended }),
        ("its processor is busy", Case { host: Activity::Running, ..unended }),
        ("it runs again", Case { enters_again: true, ..unended }),
        ("it left for something else", Case { code: ExitCode::Msr, ..unended }),
    ] {
        assert_eq!(case.judge(), [], "{what}");
    }
}

#[test]
fn a_guest_that_misses_an_interrupt_says_which_by_a_port_and_no_other_port_says_so() {
    let (vcpu, rip, cpu) = (VirtualCpu(VMCB), Linear(0), CpuIndex(1));
    let (at, long) = (Picoseconds(1), Picoseconds::from_nanoseconds(1_000_000));
    let told = |event, held| {
        let mut machine = machine();
        machine.state.cpus[0].clock.move_to(held);
        let mut oracle = Oracle::default();
        oracle.observe(&Record { at, cpu, event });
        oracle.look(&machine);
        oracle.take().into_iter().map(|alarm| (alarm.rule, alarm.vector)).collect::<Vec<_>>()
    };
    let said = |event| {
        assert_eq!(
            told(event, long),
            [],
            "a processor is held up that may be about to announce it"
        );
        told(event, Picoseconds::ZERO)
    };
    for (port, wanted) in
        [(0x0FE4, vec![(Rule::Lost, 0xE4)]), (0x0EE4, vec![]), (0xF4, vec![]), (0x1FE4, vec![])]
    {
        let (info1, info2, interrupt_info) = (port << 16 | 1, 0, 0);
        let code = ExitCode::IoPort;
        let svm = Event::SvmExit { vcpu, code, info1, info2, interrupt_info, rip };
        assert_eq!(said(svm), wanted, "{port:#x}");
        let vmx = Event::VmxExit {
            vcpu,
            reason: VMX_IO,
            qualification: port << 16,
            guest_physical: 0,
            interruption: 0,
            vectoring: 0,
            instruction: 0,
            rip,
        };
        assert_eq!(said(vmx), wanted, "{port:#x}");
    }
}

#[test]
fn what_nobody_sent_is_wrong_although_a_processor_is_held_up() {
    let (vcpu, rip, cpu) = (VirtualCpu(VMCB), Linear(0), CpuIndex(1));
    let (code, info1, info2, interrupt_info) = (ExitCode::IoPort, 0x0DE4 << 16 | 1, 0, 0);
    let event = Event::SvmExit { vcpu, code, info1, info2, interrupt_info, rip };
    let mut machine = machine();
    machine.state.cpus[0].clock.move_to(Picoseconds::from_nanoseconds(1_000_000));
    let mut oracle = Oracle::default();
    oracle.observe(&Record { at: Picoseconds(1), cpu, event });
    oracle.look(&machine);
    let alarms: Vec<_> = oracle.take().iter().map(|alarm| (alarm.rule, alarm.vector)).collect();
    assert_eq!(alarms, [(Rule::Unasked, 0xE4)]);
}

#[test]
fn what_a_kernel_prints_of_a_fault_is_raised_and_nothing_else() {
    let mut oracle = Oracle::default();
    oracle.listen(Picoseconds(1), b"[    1.0] kvm: all is well\n[    2.0] WARNING: CPU: 1 ");
    assert_eq!(oracle.take(), [], "a line that has no end yet");
    oracle.listen(Picoseconds(2), b"PID: 7 at arch/x86/kvm/svm/avic.c:99 f+0x1/0x2\n");
    let alarms = oracle.take();
    assert_eq!(alarms.len(), 1);
    assert_eq!((alarms[0].rule, alarms[0].at), (Rule::Console, Picoseconds(2)));
    let mut again = Oracle::default();
    again.listen(Picoseconds(9), b"[    9.0] WARNING: CPU: 2 PID: 8 at arch/x86/kvm/svm/avic.c\n");
    assert!(again.take()[0].key().2.contains("WARNING:"), "what is the same in each run");
}

#[test]
fn warnings_are_heard_in_the_form_of_newer_kernels_and_told_apart_by_function() {
    let heard = |line: &str| {
        let mut oracle = Oracle::default();
        oracle.listen(Picoseconds(1), format!("{line}\n").as_bytes());
        oracle.take().first().map(|alarm| alarm.key().2)
    };
    let older = |cpu, function| {
        format!("[    2.{cpu}] WARNING: CPU: {cpu} PID: 8 at x86/kvm.c:99 {function}+0x1{cpu}/0x20")
    };
    assert_eq!(heard(&older(1, "f")), heard(&older(2, "f")));
    assert_ne!(heard(&older(1, "f")), heard(&older(1, "avic_vcpu_load")));
    let newer =
        heard("[    2.0] WARNING: arch/x86/kvm/lapic.c:9 at f+0x1/0x2 [kvm], CPU#1: vcpu 0/8");
    assert!(newer.expect("a warning").contains(" f [kvm],"));
    assert!(heard("[    2.0] WARNING: at f+0x1/0x2, CPU#1: swapper/0").is_some());
    assert_eq!(heard("[    2.0] Spectre V2 : WARNING: Unprivileged eBPF is enabled"), None);
}

#[test]
fn a_functions_interrupt_is_told_from_an_ipi_of_the_processor_whose_track_it_is_on() {
    use arch::address::Device;
    use arch::identity::{RequesterId, Vector};
    let mut oracle = Oracle::default();
    let vcpu = VirtualCpu(VMCB);
    let mut at = 0;
    let mut observe = |oracle: &mut Oracle, event: Event| {
        oracle.observe(&Record { at: Picoseconds(at), cpu: CpuIndex(0), event });
        at += u64::from(!matches!(event, Event::MessageSignalled { .. }));
    };
    let posted = Event::Posted { place: PAGE, vector: Vector(0xE1) };
    // To an APIC ID, by the first processor's guest.
    observe(&mut oracle, Event::VirtualIpiSent { vcpu, icr: 0x1_0000_00E1 });
    observe(&mut oracle, posted);
    assert_eq!(oracle.ways.get(&PAGE.0), Some(&Way::Physical));
    let (requester, address) = (RequesterId(0xE8), Device(0xFEE0_0000));
    observe(&mut oracle, Event::MessageSignalled { requester, address, data: 0 });
    observe(&mut oracle, posted);
    assert_eq!(oracle.ways.get(&PAGE.0), Some(&Way::Device));
    observe(&mut oracle, posted);
    assert_eq!(oracle.ways.get(&PAGE.0), Some(&Way::Physical), "the next is an IPI's again");
    assert_eq!(oracle.take_changes().posts, 1);
    // An IOMMU may take a while.
    observe(&mut oracle, Event::Halt { rip: Linear(0) });
    observe(&mut oracle, posted);
    assert_eq!(oracle.ways.get(&PAGE.0), Some(&Way::Device));
}
