//! How long a debugger's way back takes, in seconds of the processor: `backwards KERNEL [CPUS]
//! [MILLISECONDS] [CPU MODEL]` boots a kernel without a root file system for so long (100), then
//! 100 ms more under a debugger, and goes back over those.

use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::debugger::{
    Backwards, DebuggedMachine, Debuggee, Others, Stop, StopPoint, WatchedAccess,
};
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine};

/// Virtual time that is gone back over.
const PAST: u64 = 100;
const PAGE: u64 = 0x1000;
/// Addresses of a kernel's where no code lies, and no data that it uses.
const NO_CODE: Linear = Linear(0xFFFF_FFFF_8000_0123);
const NO_DATA: u64 = 0xFFFF_8880_0000_9000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let file = words.first().ok_or("backwards KERNEL [CPUS] [MILLISECONDS] [CPU MODEL]")?;
    let cpus = words.get(1).map_or(Ok(2), |word| word.parse())?;
    let from: u64 = words.get(2).map_or(Ok(100), |word| word.parse())?;
    let model = cpu::CpuModel::named(words.get(3).map_or("zen4", String::as_str))?;
    let kernel = std::fs::read(file)?;
    let topology = Topology::of_cores(cpus)?;
    let mut machine = Machine::new(&Configuration::of(model, topology, 512 << 20))?;
    machine.load(&Images {
        kernel: board::load::Source::of(file, &kernel),
        initrd: None,
        modules: &[],
        command_line: "console=ttyS0 panic=-1",
    })?;
    let until = Picoseconds::from_milliseconds(from);
    machine.run(Limits { until, instructions: u64::MAX });
    measure(&mut machine, Picoseconds::from_milliseconds(from + PAST));
    Ok(())
}

fn measure(machine: &mut Machine, end: Picoseconds) {
    let mut debugged = DebuggedMachine::new(machine, |_| 0);
    let before = debugged.machine.instructions();
    let begun = on_processor();
    advance(&mut debugged, end);
    let done = (debugged.machine.instructions() - before) as f64 / 1e6;
    println!("{:<44}{:.2}", format!("forward, {done:.0} M instructions"), on_processor() - begun);
    let registers = debugged.registers(CpuIndex(0));
    let (code, stack) = (registers.rip & !(PAGE - 1), registers.general[7]);
    let watch = |at, access| StopPoint::Watch { start: Linear(at), length: 8, access };
    let page = stack & !(PAGE - 1);
    for (what, point) in [
        ("breakpoint where nothing runs", StopPoint::Execute(NO_CODE)),
        ("breakpoint on the running page", StopPoint::Execute(Linear(code | (PAGE - 1)))),
        ("watchpoint where nothing is", watch(NO_DATA, WatchedAccess::Write)),
        ("watchpoint on the stack's page", watch(page, WatchedAccess::Write)),
        ("the same for reads as well", watch(page, WatchedAccess::Either)),
        ("watchpoint of what was written last", watch(stack - 8, WatchedAccess::Write)),
    ] {
        advance(&mut debugged, end);
        let present = debugged.machine.instructions();
        debugged.insert(point);
        let begun = on_processor();
        let stop = loop {
            if let Some(stop) = debugged.run_back(Backwards::Continue) {
                break stop;
            }
        };
        let (took, now) = (on_processor() - begun, debugged.machine.instructions());
        println!("{what:<44}{took:.2}  {stop:?}, {:.1} M before", (present - now) as f64 / 1e6);
        debugged.remove(point);
    }
}

/// To a moment that has not come, past what stops on the way.
fn advance(debugged: &mut DebuggedMachine<'_>, until: Picoseconds) {
    while debugged.machine.state.now < until {
        match debugged.run(None) {
            None => {}
            Some(Stop::Execute { cpu } | Stop::Watch { cpu, .. }) => {
                debugged.step(cpu, Others::Run);
            }
            Some(other) => panic!("{other:?} before the end: fewer MILLISECONDS"),
        }
        debugged.machine.take_console();
    }
}

/// Seconds that this program's thread has had of a processor.
fn on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}
