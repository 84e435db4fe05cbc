use super::control::Reply;
use super::*;
use board::Configuration;
use board::topology::Topology;
use cpu::CpuModel;

static NEVER: AtomicBool = AtomicBool::new(false);

pub fn machine() -> Machine {
    let model = CpuModel::named("zen4").expect("a model");
    let topology = Topology::of_cores(1).expect("a core");
    let mut machine =
        Machine::new(&Configuration::of(model, topology, 16 << 20)).expect("a machine");
    machine.state.wiring.recorder.records = Some(Vec::new());
    machine
}

pub fn control() -> Control {
    Control::new(true, |_| 0, &NEVER)
}

/// Numbers that are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Puts code at the reset vector's place in RAM: the processor stands there in real mode.
fn with_code(code: &[u8]) -> Machine {
    let mut machine = machine();
    machine.memory.write(arch::address::SystemPhysical(0x1000), code).expect("RAM");
    let cpu = &mut machine.state.cpus[0];
    let segment = cpu.registers.segment(arch::segment::SegmentRegister::Ds);
    let code = arch::segment::Segment { attributes: arch::segment::Attributes(0x9B), ..segment };
    cpu.registers.set_segment(arch::segment::SegmentRegister::Cs, code);
    cpu.registers.ip = 0x1000;
    machine
}

fn obey(control: &mut Control, machine: &mut Machine, line: &str) -> Result<Reply, String> {
    let command = parse(line, control.cpu)?.expect("a command");
    control.obey(machine, command)
}

fn limits(machine: &Machine) -> Limits {
    let until = machine.state.now.saturating_add(arch::time::Picoseconds::from_milliseconds(5));
    Limits { until, instructions: u64::MAX }
}

/// mov al, 1; then out 80h, al; inc al; and back.
const PORTS: [u8; 8] = [0xB0, 0x01, 0xE6, 0x80, 0xFE, 0xC0, 0xEB, 0xFA];

#[test]
fn a_step_executes_one_instruction() {
    let (mut control, mut machine) = (control(), with_code(&PORTS));
    let said = obey(&mut control, &mut machine, "step").expect("a step").text;
    assert!(said.contains("rip 0x1002") && said.contains("1 instructions"), "{said}");
    let said = obey(&mut control, &mut machine, "step 3").expect("steps").text;
    assert!(said.contains("rip 0x1002") && said.contains("4 instructions"), "{said}");
}

#[test]
fn until_stops_behind_the_instruction_that_the_event_comes_from() {
    let (mut control, mut machine) = (control(), with_code(&PORTS));
    let reply = obey(&mut control, &mut machine, "until out port=0x80 value=0x64");
    assert_eq!(reply.map(|reply| reply.next), Ok(Next::Go));
    let limits = limits(&machine);
    let (outcome, met) = control.run(&mut machine, limits);
    assert_eq!(outcome, None);
    let met = met.expect("the event");
    assert!(met.contains("value=0x64") && met.contains("rip 0x1004"), "{met}");
    assert!(control.is_stopped);
    // mov, then 99 times out, inc and jmp, and the last out.
    assert_eq!(machine.instructions(), 1 + 99 * 3 + 1);
}

#[test]
fn a_run_to_an_event_is_the_same_run() {
    let at = arch::time::Picoseconds::from_milliseconds(3);
    let mut alone = with_code(&PORTS);
    alone.run(Limits { until: at, instructions: u64::MAX });
    let (mut control, mut machine) = (control(), with_code(&PORTS));
    obey(&mut control, &mut machine, "until out value=0x64").expect("a goal");
    let limits = limits(&machine);
    assert!(control.run(&mut machine, limits).1.is_some());
    machine.run(Limits { until: at, instructions: u64::MAX });
    assert_eq!(machine.state.wiring.recorder.hash, alone.state.wiring.recorder.hash);
}

#[test]
fn time_and_instructions_are_goals_that_lie_ahead() {
    let (mut control, mut machine) = (control(), with_code(&PORTS));
    obey(&mut control, &mut machine, "until instructions:100").expect("a goal");
    let limits = limits(&machine);
    assert!(control.run(&mut machine, limits).1.is_some());
    assert_eq!(machine.instructions(), 100);
    assert!(obey(&mut control, &mut machine, "until instructions:100").is_err());
    assert!(obey(&mut control, &mut machine, "until time:0s").is_err());
    obey(&mut control, &mut machine, "until time:1ms").expect("a goal");
    assert!(control.run(&mut machine, limits).1.is_some());
    assert!(machine.state.now >= arch::time::Picoseconds::from_milliseconds(1));
}

#[test]
fn a_machine_that_has_ended_can_be_looked_at_and_does_not_go_on() {
    // lidt of nothing, then an interrupt: the processor shuts down.
    let code = [0x0F, 0x01, 0x1E, 0x00, 0x20, 0xCD, 0x03];
    let (mut control, mut machine) = (control(), with_code(&code));
    let limits = limits(&machine);
    let (outcome, _) = control.run(&mut machine, limits);
    assert!(outcome.is_some());
    assert!(obey(&mut control, &mut machine, "info registers").is_ok());
    for line in ["step", "cont", "until time:1s"] {
        let said = obey(&mut control, &mut machine, line).expect_err(line);
        assert!(said.starts_with("the machine has ended: triple fault"), "{said}");
    }
}

#[test]
fn no_line_is_too_strange_to_be_answered() {
    let pieces = [
        "info",
        "-j",
        "--json",
        "lapic",
        "vmcb",
        "pid",
        "tlb",
        "irte",
        "0x",
        "0x1000",
        "0xffffffffffffffff",
        "0",
        "65535",
        "65536",
        "-1",
        "cpu",
        "until",
        "vm-exit",
        "time:1s",
        "time:",
        "instructions:9",
        "port=",
        "=",
        "cpu=0",
        "cpu=x",
        "events",
        "999",
        "type",
        "stop",
        "help",
        "\u{0}",
        "\u{1F600}",
        "\u{1b}[2J",
        "\"",
        "{}",
        "%s%n",
    ];
    let (mut control, mut machine) = (control(), machine());
    let mut numbers = Numbers(29);
    for _ in 0..10_000 {
        let words: Vec<&str> =
            (0..numbers.below(5)).map(|_| pieces[numbers.below(pieces.len())]).collect();
        let line = words.join(" ");
        match parse(&line, control.cpu) {
            Ok(Some(command)) => {
                let said = control.obey(&mut machine, command);
                assert!(said.is_ok_and(|reply| reply.next != Next::Quit) || !line.is_empty());
            }
            Ok(None) => assert!(line.is_empty()),
            Err(why) => assert!(!why.is_empty(), "{line}"),
        }
    }
}

#[test]
fn next_stops_where_a_processor_is_held_up_and_is_refused_where_none_is() {
    use board::perturb::{Anchor, Decision, Source};
    let (mut control, mut machine) = (control(), with_code(&PORTS));
    let error = obey(&mut control, &mut machine, "next").expect_err("nobody is held up");
    assert!(error.contains("lab explore replay --step"), "{error}");
    let micros = |time: u64| arch::time::Picoseconds::from_nanoseconds(time * 1_000);
    let held = |at: u64| {
        let (cpu, after, count) = (arch::identity::CpuIndex(0), Anchor::Start, 0);
        Decision { cpu, after, count, offset: micros(at), delay: micros(20) }
    };
    machine.perturb(Source::Plan(vec![held(100), held(300)]));
    for (count, at) in [(1, 100), (2, 300)] {
        assert_eq!(obey(&mut control, &mut machine, "next").expect("as above").next, Next::Go);
        let limits = limits(&machine);
        let (outcome, met) = control.run(&mut machine, limits);
        assert!(outcome.is_none() && met.is_some() && control.is_stopped);
        let holds = machine.holds().expect("a perturbation");
        assert_eq!(holds.len(), count);
        assert!(machine.state.now < micros(at + 50), "{:?}", machine.state.now);
    }
    assert_eq!(obey(&mut control, &mut machine, "next").expect("as above").next, Next::Go);
    let limits = limits(&machine);
    assert_eq!(control.run(&mut machine, limits), (None, None), "no more are");
}
