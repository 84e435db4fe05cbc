//! A suite in one setting: the host is booted once, and kept in memory for every program.

use super::judge::Convention;
use super::{Column, Program, Tested, Verdict};
use crate::drive::recording::Recording;
use crate::drive::session::{Kept, Session, Visitor};
use crate::host::Host;
use crate::host::booted::Store;
use crate::host::initramfs::Initramfs;
use crate::host::kernel::Kernel;
use crate::plan::ModuleParameter;
use crate::watch::{Halt, Told, Watch};
use anyhow::{Context, ensure};
use arch::time::Picoseconds;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Bytes of a program's output that are kept, from the end.
const MOST_OUTPUT: usize = 256 << 10;
/// Between two looks whether the user wants an end.
const LOOK: Duration = Duration::from_millis(200);

/// Is told each result as it comes.
pub type Done<'a> = &'a mut dyn FnMut(&Tested, &mut Watch<'_>);

/// How programs share hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each begins on the host as it has booted.
    Fresh,
    /// One after the other on one host, until it can no longer be used.
    Shared,
}

/// What to run, and where.
pub struct Plan<'a> {
    /// The setting.
    pub column: Column,
    /// The emulated host.
    pub host: Host,
    /// What it boots.
    pub kernel: &'a Kernel,
    /// What it boots with.
    pub initramfs: &'a Initramfs,
    /// What KVM is loaded with.
    pub parameters: &'a [ModuleParameter],
    /// Functions that vfio-pci is to drive.
    pub given: &'a [String],
    /// The suite.
    pub programs: &'a [Program],
    /// How programs share hosts.
    pub sharing: Sharing,
    /// Programs at once, where they do not share a host.
    pub jobs: usize,
    /// Virtual time that a program may take.
    pub each: Picoseconds,
    /// Time of this machine that it may take.
    pub patience: Duration,
    /// Where booted hosts are kept.
    pub store: Option<&'a Store>,
    /// A debugger that comes when the first program begins.
    pub visitor: Mutex<Option<Box<dyn Visitor>>>,
    /// Where traces of programs that fail go.
    pub traces: Option<PathBuf>,
    /// Whether the user has asked for an end.
    pub stop: &'a AtomicBool,
}

/// Runs it; the results in the order of the programs. `done` is told each as it comes.
pub fn run(plan: &Plan<'_>, done: Done<'_>, watch: &mut Watch<'_>) -> anyhow::Result<Vec<Tested>> {
    let mut session = Session::start(&plan.host, plan.kernel, plan.initramfs, plan.store, watch)?;
    session.load(plan.parameters, watch)?;
    plan.given.iter().try_for_each(|address| session.give(address, watch))?;
    // What was logged until here is the host's own.
    session.log(watch)?;
    let kept = session.keep(&plan.host)?;
    drop(session);
    watch.stage(&format!("{}: {} tests", plan.column, plan.programs.len()));
    match plan.sharing {
        Sharing::Fresh => fresh(plan, &kept, done, watch),
        Sharing::Shared => shared(plan, &kept, done, watch),
    }
}

/// Every program on a host of its own, as many at once as there are jobs.
fn fresh(
    plan: &Plan<'_>,
    kept: &Kept,
    done: Done<'_>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Vec<Tested>> {
    let next = AtomicUsize::new(0);
    let running = Mutex::new(BTreeSet::new());
    let (sender, results) = mpsc::channel();
    let mut all: Vec<(usize, Tested)> = Vec::new();
    std::thread::scope(|scope| {
        let mut begun = Vec::new();
        for _ in 0..plan.jobs.clamp(1, plan.programs.len().max(1)) {
            let (sender, next, running) = (sender.clone(), &next, &running);
            let work = move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = plan.programs.get(index) else { return };
                    open(running).insert(index);
                    let tested = alone(plan, kept, program).map(|tested| (index, tested));
                    open(running).remove(&index);
                    if sender.send(tested).is_err() {
                        return;
                    }
                }
            };
            begun.extend(Builder::new().spawn_scoped(scope, work));
        }
        drop(sender);
        ensure!(!begun.is_empty(), "no thread for a host");
        let name = |index: &usize| plan.programs.get(*index).map_or("", |one| one.name.as_str());
        let now = || open(&running).iter().map(name).collect::<Vec<_>>().join(", ");
        let collected = collect(&results, &mut all, done, &now, watch);
        // Each thread ends with its program, and none begins another.
        if collected.is_err() {
            next.store(plan.programs.len(), Ordering::Relaxed);
        }
        drop(results);
        collected
    })?;
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, tested)| tested).collect())
}

/// A thread that panicked ends the run anyway.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn collect(
    results: &mpsc::Receiver<anyhow::Result<(usize, Tested)>>,
    all: &mut Vec<(usize, Tested)>,
    done: Done<'_>,
    now: &dyn Fn() -> String,
    watch: &mut Watch<'_>,
) -> anyhow::Result<()> {
    loop {
        match results.recv_timeout(LOOK) {
            Ok(result) => {
                let (index, tested) = result?;
                done(&tested, watch);
                all.push((index, tested));
                watch.renew();
            }
            Err(RecvTimeoutError::Timeout) => {
                watch.line(&format!("{} done; {}", all.len(), now()));
                watch.tick()?;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// A program on a host of its own; one that failed again with a trace, if that is wanted, which is
/// the same failure, since the machine is deterministic.
fn alone(plan: &Plan<'_>, kept: &Kept, program: &Program) -> anyhow::Result<Tested> {
    if let Some(tested) = not_run(plan, program) {
        return Ok(tested);
    }
    let mut session = kept.session()?;
    let (mut tested, _) = attempt(plan, &mut session, program)?;
    tested.trace_hash = Some(format!("{:016x}", session.trace_hash()));
    if let Verdict::Stopped(why) = &mut tested.verdict {
        *why += &places(plan, kept, &session);
    }
    let has_failed = matches!(tested.verdict, Verdict::Fail(_) | Verdict::Stopped(_));
    if let Some(folder) = plan.traces.as_ref().filter(|_| has_failed) {
        let name: String = format!("{} {}", program.name, plan.column)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let notes = [("test".to_owned(), program.name.clone())];
        let recording = Recording::create(&folder.join(format!("{name}.trace")), &notes)?;
        let mut session = kept.session()?;
        session.record(Some(recording));
        let (_, is_usable) = attempt(plan, &mut session, program)?;
        if let Some(mut recording) = session.take_recording() {
            if is_usable {
                let mut ignore = |_: Told<'_>| {};
                let mut watch = Watch::new(plan.stop, plan.patience, &mut ignore);
                session.name_code(&mut recording, &mut watch)?;
            }
            recording.finish()?;
        }
    }
    Ok(tested)
}

/// All on one host; another one takes over when it can no longer be used.
fn shared(
    plan: &Plan<'_>,
    kept: &Kept,
    done: Done<'_>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Vec<Tested>> {
    let mut session = kept.session()?;
    let mut all = Vec::new();
    for program in plan.programs {
        watch.line(&format!("{} done; {}", all.len(), program.name));
        watch.tick()?;
        let (mut tested, is_usable) = match not_run(plan, program) {
            Some(tested) => (tested, true),
            None => attempt(plan, &mut session, program)?,
        };
        if let Verdict::Stopped(why) = &mut tested.verdict {
            *why += &places(plan, kept, &session);
        }
        done(&tested, watch);
        all.push(tested);
        watch.renew();
        if !is_usable {
            session = kept.session()?;
        }
    }
    Ok(all)
}

/// What there is to say of a program that is not run.
fn not_run(plan: &Plan<'_>, program: &Program) -> Option<Tested> {
    let why = program.skipped.clone()?;
    Some(Tested {
        name: program.name.clone(),
        column: plan.column.clone(),
        verdict: Verdict::Skip(why),
        status: None,
        virtual_seconds: 0.0,
        seconds: 0.0,
        trace_hash: None,
        output: String::new(),
        log: Vec::new(),
    })
}

/// Runs a program on a host, and whether that can be used for another then.
fn attempt(
    plan: &Plan<'_>,
    session: &mut Session,
    program: &Program,
) -> anyhow::Result<(Tested, bool)> {
    let output = RefCell::new(String::new());
    let mut tell = |told: Told<'_>| {
        if let Told::Wrote(_, text) = told {
            keep(&mut output.borrow_mut(), text);
        }
    };
    let mut watch = Watch::new(plan.stop, plan.patience, &mut tell);
    let started = Instant::now();
    session.put(&program.files, &mut watch).with_context(|| program.name.clone())?;
    session.debug(open(&plan.visitor).take());
    let began = session.virtual_time();
    let ended = session.run(&program.command, plan.each, &mut watch);
    let time = session.virtual_time().0.saturating_sub(began.0);
    let (status, log, verdict, is_usable) = match ended {
        Ok(status) => {
            let log = session.log(&mut watch)?;
            let judge = match program.convention {
                Convention::Selftest => Verdict::of,
                Convention::KvmUnitTests => Verdict::of_unit_test,
            };
            let verdict = judge(status, &output.borrow(), &log);
            (Some(status), log, verdict, true)
        }
        Err(error) => {
            let halt = error.downcast_ref::<Halt>().copied();
            if halt == Some(Halt::Interrupted) {
                return Err(error);
            }
            let why = match halt {
                // The host's clock began before the test.
                Some(Halt::VirtualTime(_)) => Halt::VirtualTime(plan.each).to_string(),
                _ => error.root_cause().to_string(),
            };
            match halt {
                None => (None, Vec::new(), Verdict::Fail(first_line(&format!("{error:#}"))), false),
                Some(_) => {
                    watch.renew();
                    let is_usable = session.stop(&mut watch)?;
                    let log = if is_usable { session.log(&mut watch)? } else { Vec::new() };
                    (None, log, Verdict::Stopped(why), is_usable)
                }
            }
        }
    };
    Ok((
        Tested {
            name: program.name.clone(),
            column: plan.column.clone(),
            verdict,
            status,
            virtual_seconds: time as f64 / 1e12,
            seconds: started.elapsed().as_secs_f64(),
            trace_hash: None,
            output: output.into_inner(),
            log,
        },
        is_usable,
    ))
}

/// Where the processors were when a program was stopped, by the kernel's symbols.
fn places(plan: &Plan<'_>, kept: &Kept, session: &Session) -> String {
    let Some(places) = session.stopped_at() else { return String::new() };
    let mut ignore = |_: Told<'_>| {};
    let mut watch = Watch::new(plan.stop, plan.patience, &mut ignore);
    // Another host of the same snapshot has the same code at the same addresses.
    let symbols = kept.session().and_then(|mut one| one.symbols(&mut watch)).unwrap_or_default();
    places.iter().fold(String::new(), |text, place| text + "; " + &place.named(&symbols))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Adds to what is kept of an output, of which the end counts.
fn keep(output: &mut String, text: &str) {
    *output += text;
    if output.len() > 2 * MOST_OUTPUT {
        let mut cut = output.len() - MOST_OUTPUT;
        while !output.is_char_boundary(cut) {
            cut += 1;
        }
        output.drain(..cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_output_without_end_the_end_is_kept() {
        let mut output = String::new();
        for number in 0..100_000 {
            keep(&mut output, &format!("line \u{e9} {number}\n"));
        }
        assert!(output.len() <= 2 * MOST_OUTPUT && output.ends_with("99999\n"));
    }
}
