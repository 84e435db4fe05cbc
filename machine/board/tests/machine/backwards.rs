//! A debugged machine goes back to where it was, and forward again as if it had not.

use crate::program::{LOAD, MAIN, TRAMPOLINE, assemble, image, start_second, started};
use arch::address::{Linear, SystemPhysical};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::debugger::{
    Backwards, DebuggedMachine, Debuggee, Others, Stop, StopPoint, WatchedAccess,
};
use board::{Limits, Machine, Outcome};
use iced_x86::code_asm::*;

/// Where the first processor counts, and the second.
const COUNTS: [u64; 2] = [0x30_0000, 0x3_0040];
const ROUNDS: u32 = 100;
/// They take 12 ms in all: there are several moments to go back to.
const PAUSES: u32 = 8_000;
const FIRST: CpuIndex = CpuIndex(0);

/// Both processors count in memory; the first ends the run.
pub fn counting() -> Machine {
    let second = {
        let mut a = CodeAssembler::new(16).expect("16 bits are a mode");
        let mut again = a.create_label();
        a.mov(ax, 0x3000).expect("an operand");
        a.mov(ds, ax).expect("an operand");
        a.set_label(&mut again).expect("a place");
        a.inc(word_ptr(0x40)).expect("an operand");
        (0..20).for_each(|_| a.pause().expect("an instruction"));
        a.jmp(again).expect("a label");
        a.assemble(0x8000).expect("it assembles")
    };
    let length = second.len();
    let main = assemble(MAIN, &move |a| {
        start_second(a, length)?;
        let (mut round, mut wait) = (a.create_label(), a.create_label());
        a.xor(ecx, ecx)?;
        a.set_label(&mut round)?;
        a.inc(ecx)?;
        a.mov(dword_ptr(COUNTS[0] as u32), ecx)?;
        a.mov(ebx, PAUSES)?;
        a.set_label(&mut wait)?;
        a.pause()?;
        a.dec(ebx)?;
        a.jne(wait)?;
        a.cmp(ecx, ROUNDS)?;
        a.jne(round)?;
        a.mov(eax, 7)?;
        a.out(0xF4, eax)
    });
    started(&image(&[(MAIN, main), (TRAMPOLINE, second)]))
}

fn status(_: Outcome) -> u8 {
    0
}

fn count(machine: &Machine) -> u32 {
    let mut bytes = [0; 4];
    machine.memory.read(SystemPhysical(COUNTS[0]), &mut bytes).expect("RAM");
    u32::from_le_bytes(bytes)
}

/// All that a debugger sees, and all that anybody did.
fn seen(machine: &Machine) -> impl PartialEq + std::fmt::Debug + use<> {
    let cpus = machine.state.cpus.iter().map(|cpu| {
        let registers = &cpu.registers;
        (registers.ip, registers.gpr[..16].to_vec(), registers.flags.bits(), cpu.clock.now())
    });
    let counts = COUNTS.map(|at| machine.memory.read_u64(SystemPhysical(at)).expect("RAM"));
    (cpus.collect::<Vec<_>>(), counts, machine.instructions(), machine.state.wiring.recorder.hash)
}

fn forward(debugged: &mut DebuggedMachine<'_>) -> Stop {
    loop {
        if let Some(stop) = debugged.run(None) {
            return stop;
        }
    }
}

fn back(debugged: &mut DebuggedMachine<'_>, how: Backwards) -> Stop {
    loop {
        if let Some(stop) = debugged.run_back(how) {
            return stop;
        }
    }
}

#[test]
fn the_last_write_is_found_and_the_one_before_and_the_run_ends_as_without_a_debugger() {
    let limits = Limits { until: Picoseconds::from_milliseconds(100), instructions: u64::MAX };
    let mut free = counting();
    let mut machine = counting();
    for one in [&mut free, &mut machine] {
        one.state.wiring.recorder.records = Some(Vec::new());
    }
    assert_eq!(free.run(limits), Some(Outcome::DebugExit(7)));
    let mut debugged = DebuggedMachine::new(&mut machine, status);
    let (start, length) = (Linear(COUNTS[0]), 4);
    let written = StopPoint::Watch { start, length, access: WatchedAccess::Write };
    assert!(debugged.insert(written));
    let stop = Stop::Watch { cpu: FIRST, address: start, access: WatchedAccess::Write };
    let mut passed = Vec::new();
    for round in 1..=70 {
        assert_eq!(forward(&mut debugged), stop);
        assert_eq!(count(debugged.machine), round);
        passed.push(seen(debugged.machine));
    }
    for round in (60..70).rev() {
        // The access is undone, too.
        assert_eq!(back(&mut debugged, Backwards::Continue), stop);
        assert_eq!(count(debugged.machine), round);
    }
    for round in 61..=65 {
        assert_eq!(forward(&mut debugged), stop);
        assert_eq!(seen(debugged.machine), passed[round - 1], "round {round}");
    }
    assert!(debugged.remove(written));
    assert_eq!(back(&mut debugged, Backwards::Continue), Stop::Beginning);
    assert_eq!((debugged.machine.instructions(), count(debugged.machine)), (0, 0));
    assert_eq!(forward(&mut debugged), Stop::Off { status: 0 });
    drop(debugged);
    assert_eq!(seen(&machine), seen(&free));
    let records = |machine: &Machine| machine.state.wiring.recorder.records.clone();
    assert!(records(&free).is_some_and(|records| !records.is_empty()));
    assert_eq!(records(&machine), records(&free), "what is done again is recorded once");
}

#[test]
fn steps_back_pass_the_same_states_as_steps_forward() {
    let mut machine = counting();
    let mut debugged = DebuggedMachine::new(&mut machine, status);
    let point = StopPoint::Execute(Linear(u64::from(LOAD) + MAIN as u64));
    assert_eq!(back(&mut debugged, Backwards::Step(FIRST)), Stop::Beginning, "nothing was kept");
    // Into the time in which both count.
    for _ in 0..4 {
        assert_eq!(debugged.run(None), None);
    }
    let mut passed = Vec::new();
    for _ in 0..50 {
        passed.push(seen(debugged.machine));
        let others = Others::Run;
        assert_eq!(debugged.step(FIRST, others), Stop::Stepped { cpu: FIRST });
    }
    // The other goes back as well, to just before the same instruction of the first.
    for place in (1..50).rev() {
        assert_eq!(back(&mut debugged, Backwards::Step(FIRST)), Stop::Stepped { cpu: FIRST });
        let now = debugged.machine.state.cpus[0].clock.instructions();
        assert_eq!(debugged.step(FIRST, Others::Run), Stop::Stepped { cpu: FIRST });
        if place < 49 {
            assert_eq!(seen(debugged.machine), passed[place + 1], "step {place}");
        }
        assert_eq!(back(&mut debugged, Backwards::Step(FIRST)), Stop::Stepped { cpu: FIRST });
        assert_eq!(debugged.machine.state.cpus[0].clock.instructions(), now);
    }
    assert!(debugged.insert(point));
    let stop = back(&mut debugged, Backwards::Continue);
    assert_eq!(stop, Stop::Execute { cpu: FIRST }, "far back, over the moments that are kept");
    assert_eq!(debugged.machine.instructions(), 0);
}

#[test]
fn who_changes_the_machine_has_no_past_any_more() {
    let mut machine = counting();
    let mut debugged = DebuggedMachine::new(&mut machine, status);
    for _ in 0..3 {
        assert_eq!(debugged.run(None), None);
    }
    assert_eq!(debugged.step(FIRST, Others::Run), Stop::Stepped { cpu: FIRST });
    let registers = debugged.registers(FIRST);
    assert!(debugged.set_registers(FIRST, &registers));
    assert_eq!(back(&mut debugged, Backwards::Step(FIRST)), Stop::Beginning);
    assert_eq!(debugged.step(FIRST, Others::Run), Stop::Stepped { cpu: FIRST });
    assert_eq!(back(&mut debugged, Backwards::Step(FIRST)), Stop::Stepped { cpu: FIRST });
    assert!(debugged.write_memory(FIRST, Linear(COUNTS[0]), &[1]));
    assert_eq!(back(&mut debugged, Backwards::Step(FIRST)), Stop::Beginning);
}

/// The instruction behind the one that writes there.
fn after_write(debugged: &mut DebuggedMachine<'_>, at: u64, cpu: CpuIndex) -> StopPoint {
    let (start, access) = (Linear(at), WatchedAccess::Write);
    let written = StopPoint::Watch { start, length: 2, access };
    assert!(debugged.insert(written));
    assert_eq!(forward(debugged), Stop::Watch { cpu, address: start, access });
    assert!(debugged.remove(written));
    StopPoint::Execute(Linear(debugged.registers(cpu).rip))
}

#[test]
fn points_are_passed_backwards_where_they_were_passed_forward_by_either_processor() {
    let mut machine = counting();
    let mut debugged = DebuggedMachine::new(&mut machine, status);
    let rare = after_write(&mut debugged, COUNTS[0], FIRST);
    let frequent = after_write(&mut debugged, COUNTS[1], CpuIndex(1));
    let mut passed = Vec::new();
    for (point, times, back_again) in [(rare, 40, 25), (frequent, 3_000, 60)] {
        assert!(debugged.insert(point));
        for _ in 0..times {
            let stop = forward(&mut debugged);
            passed.push((stop, seen(debugged.machine)));
            let Stop::Execute { cpu } = stop else { panic!("{stop:?}") };
            debugged.step(cpu, Others::Run);
        }
        let both = [0, 1].map(|cpu| Stop::Execute { cpu: CpuIndex(cpu) });
        for place in (passed.len() - back_again..passed.len()).rev() {
            let stop = back(&mut debugged, Backwards::Continue);
            assert!(both.contains(&stop));
            assert_eq!((stop, seen(debugged.machine)), passed[place], "place {place}");
        }
        passed.truncate(passed.len() - back_again);
    }
    // The rare one alone, over all that the other processor did since.
    assert!(debugged.remove(frequent));
    let first = Stop::Execute { cpu: FIRST };
    let last = passed.iter().rposition(|(stop, _)| *stop == first).expect("it was passed");
    assert_eq!(back(&mut debugged, Backwards::Continue), first);
    assert_eq!(seen(debugged.machine), passed[last].1);
}

/// The firmware configuration's command, which the device answers in its first word.
const COMMAND: u64 = 0x30_0000;
const SKIP: u32 = 4;

/// A processor writes a command, and a device its answer over it, again and again.
fn commanding() -> Machine {
    let main = assemble(MAIN, &|a| {
        let (mut round, mut wait) = (a.create_label(), a.create_label());
        a.xor(ecx, ecx)?;
        a.mov(dword_ptr(COMMAND as u32 + 4), 0)?;
        a.set_label(&mut round)?;
        a.inc(ecx)?;
        a.mov(dword_ptr(COMMAND as u32), SKIP.swap_bytes())?;
        a.mov(eax, (COMMAND as u32).swap_bytes())?;
        a.mov(edx, 0x518)?;
        a.out(dx, eax)?;
        a.mov(ebx, PAUSES)?;
        a.set_label(&mut wait)?;
        a.pause()?;
        a.dec(ebx)?;
        a.jne(wait)?;
        a.cmp(ecx, ROUNDS)?;
        a.jne(round)?;
        a.mov(eax, 7)?;
        a.out(0xF4, eax)
    });
    started(&image(&[(MAIN, main)]))
}

#[test]
fn what_a_device_writes_is_watched_as_what_instructions_write_both_ways() {
    let mut free = commanding();
    let limits = Limits { until: Picoseconds::from_milliseconds(100), instructions: u64::MAX };
    assert_eq!(free.run(limits), Some(Outcome::DebugExit(7)));
    let mut machine = commanding();
    let mut debugged = DebuggedMachine::new(&mut machine, status);
    let (start, access) = (Linear(COMMAND), WatchedAccess::Write);
    let written = StopPoint::Watch { start, length: 4, access };
    assert!(debugged.insert(written));
    let stop = Stop::Watch { cpu: FIRST, address: start, access };
    let by_device = |words: &str| {
        let is_told =
            words.contains("hardware: device ") && words.contains("0x04000000 -> 0x00000");
        assert!(is_told || words.is_empty(), "{words}");
        is_told
    };
    let mut passed = Vec::new();
    for number in 0..40 {
        assert_eq!(forward(&mut debugged), stop);
        assert_eq!(by_device(&debugged.take_words()), number % 2 == 1);
        passed.push(seen(debugged.machine));
    }
    let why = debugged.command("why 0x300000 4");
    assert!(why.contains("hardware: device "), "{why}");
    let why = debugged.command("why physical:0x300000 4");
    assert!(why.contains("hardware: device "), "{why}");
    assert!(Some(&seen(debugged.machine)) == passed.last(), "it is the present again");
    for number in (20..40).rev() {
        assert_eq!(back(&mut debugged, Backwards::Continue), stop);
        assert_eq!(by_device(&debugged.take_words()), number % 2 == 1);
    }
    for wanted in &passed[20..31] {
        assert_eq!(forward(&mut debugged), stop);
        assert_eq!(seen(debugged.machine), *wanted);
    }
    for place in ["0x300000", "physical:0x300000"] {
        let why = debugged.command(&format!("why {place} 4 cpu=0"));
        assert!(why.contains("the instruction at 0x10002d of processor 0"), "{why}");
        assert!(why.contains("0x0 -> 0x4000000"), "{why}");
    }
    let nobody = debugged.command("why 0x200000");
    assert!(nobody.starts_with("nobody since 0.000000000 s"), "{nobody}");
    for (command, said) in [
        ("why", "error: no command"),
        ("why 0x300000 9", "error: 9: must be 1 to 8 bytes"),
        ("why 0x300000 cpu=7", "error: cpu=7: must be below 2"),
        ("why physical:0x1000000000", "error: 0x1000000000 is not RAM"),
        ("why here", "error: \"here\" must be an address"),
        ("break nothing", "error: no event \"nothing\""),
        ("delete 3", "error: no event 3"),
    ] {
        let answer = debugged.command(command);
        assert!(answer.starts_with(said), "{command}: {answer}");
    }
    assert!(debugged.remove(written));
    assert_eq!(forward(&mut debugged), Stop::Off { status: 0 });
    drop(debugged);
    assert_eq!(seen(&machine), seen(&free));
}

#[test]
fn events_stop_a_machine_behind_their_instruction_both_ways() {
    let mut free = commanding();
    let limits = Limits { until: Picoseconds::from_milliseconds(100), instructions: u64::MAX };
    assert_eq!(free.run(limits), Some(Outcome::DebugExit(7)));
    let mut machine = commanding();
    let mut debugged = DebuggedMachine::new(&mut machine, status);
    assert_eq!(debugged.command("break out 0x518"), "event 0\n");
    assert_eq!(debugged.command("break"), "0: out 0x518\n");
    let stop = Stop::Event { cpu: FIRST };
    let behind = u64::from(LOAD) + MAIN as u64 + 0x22;
    let mut passed = Vec::new();
    for _ in 0..30 {
        assert_eq!(forward(&mut debugged), stop);
        let words = debugged.take_words();
        assert!(words.starts_with("event: ") && words.contains("port=0x518"), "{words}");
        passed.push(seen(debugged.machine));
        assert_eq!(debugged.registers(FIRST).rip, behind);
    }
    for _ in 0..10 {
        assert_eq!(back(&mut debugged, Backwards::Continue), stop);
        assert_ne!(debugged.registers(FIRST).rip, behind, "before it");
    }
    for place in passed.drain(20..) {
        assert_eq!(forward(&mut debugged), stop);
        assert_eq!(seen(debugged.machine), place);
    }
    assert_eq!(debugged.command("delete 0"), "");
    assert_eq!(forward(&mut debugged), Stop::Off { status: 0 });
    drop(debugged);
    assert_eq!(seen(&machine), seen(&free));
    assert!(machine.state.wiring.recorder.records.is_none(), "nobody else wants them");
}
