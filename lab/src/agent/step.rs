//! One step: the module as the step wants it, a virtual machine, what was counted.

use super::line::Line;
use super::log;
use super::together::{Part, Together};
use super::tracing::Tracing;
use crate::linux::module::Modules;
use crate::linux::place::{GUEST_IMAGE, GUEST_INITRD, GUEST_KERNEL, TOGETHER};
use crate::protocol::{FromAgent, Guest, Step, StepResult, ToAgent};
use crate::workload::{self, Attendant, Workload};
use anyhow::Context;
use bench::VirtualMachine;
use board::Images;
use board::load::Source;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// What every Linux guest is told.
const LINUX: &str = "console=ttyS0 quiet panic=-1";

pub(super) fn perform(
    line: &mut Line,
    modules: &mut Modules,
    step: &Step,
) -> anyhow::Result<StepResult> {
    let workload = workload::named(&step.workload)
        .with_context(|| format!("no workload is called {}", step.workload))?;
    let parameters = modules.load(&step.arm.parameters)?;
    let has_device = workload.needs().function.is_some();
    let tracing = step.is_traced.then(|| Tracing::start(has_device)).transpose()?;
    line.send(&FromAgent::Standby)?;
    let go = line.receive()?;
    anyhow::ensure!(matches!(go, ToAgent::Go | ToAgent::GoByLine), "the session broke off");
    let (mut vm, mut attendant) = prepare(workload, step)?;
    if go == ToAgent::GoByLine || step.guests > 1 {
        vm.read_by_line();
    }
    let mut others = others(workload, step)?;
    if let Some(tracing) = &tracing {
        tracing.mark_begin()?;
    }
    let (started, before) = (Instant::now(), times());
    let together = Together::of(step.guests);
    let (end, console) =
        run_all(line, step, &together, &mut vm, &mut others, attendant.as_deref_mut())?;
    let before = together.began().unwrap_or(before);
    let seconds = started.elapsed().as_secs_f64();
    let times = times().into_iter().zip(before).map(|(after, before)| after.saturating_sub(before));
    let times = times.collect();
    if let Some(tracing) = &tracing {
        // Before the virtual machine goes: with it go its inhibits.
        tracing.mark_end()?;
    }
    drop(attendant);
    drop((vm, others));
    Ok(StepResult {
        seconds,
        outcome: end.outcome,
        console,
        times,
        process_exits: end.process_exits,
        tracepoints: tracing.map(Tracing::finish).transpose()?,
        parameters,
        messages: messages(),
    })
}

/// The virtual machine, which stands at its kernel's first instruction, with what it is given, and
/// what looks after that.
fn prepare(
    workload: &dyn Workload,
    step: &Step,
) -> anyhow::Result<(VirtualMachine, Option<Box<dyn Attendant>>)> {
    let mut attendant = workload.attend(step)?;
    let words = attendant.as_ref().map(|attendant| attendant.words()).unwrap_or_default();
    let vm = match &step.guest {
        Guest::Benchmark(options) => benchmark(step, options)?,
        Guest::Kernel(words) => kernel(step, words)?,
        Guest::Linux(options) => linux(step, &format!("{options} {words} {}", step.arm.guest))?,
    };
    if let Some(attendant) = &mut attendant {
        attendant.give(&vm)?;
    }
    Ok((vm, attendant))
}

/// What processors have spent since boot. [LINUX "Documentation/filesystems/proc.rst"]
pub(super) fn times() -> Vec<u64> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let words = line.unwrap_or_default().split_ascii_whitespace();
    words.map_while(|word| word.parse().ok()).collect()
}

/// The virtual machines beside the first.
fn others(workload: &dyn Workload, step: &Step) -> anyhow::Result<Vec<VirtualMachine>> {
    let all = (1..step.guests).map(|_| {
        let (mut vm, attendant) = prepare(workload, step)?;
        vm.read_by_line();
        anyhow::ensure!(attendant.is_none(), "{} runs in one guest at a time", step.workload);
        Ok(vm)
    });
    all.collect()
}

fn benchmark(step: &Step, options: &str) -> anyhow::Result<VirtualMachine> {
    let command_line = format!("{options} {}", step.arm.guest);
    let images = Images {
        kernel: Source::of("benchmark", image::BENCHMARK),
        initrd: None,
        modules: &[],
        command_line: command_line.trim(),
    };
    Ok(VirtualMachine::new(&step.configuration, &images)?)
}

fn kernel(step: &Step, words: &str) -> anyhow::Result<VirtualMachine> {
    let bytes = std::fs::read(GUEST_IMAGE).with_context(|| format!("cannot read {GUEST_IMAGE}"))?;
    let images = Images {
        kernel: Source::of(GUEST_IMAGE, &bytes),
        initrd: None,
        modules: &[],
        command_line: words,
    };
    Ok(VirtualMachine::new(&step.configuration, &images)?)
}

fn linux(step: &Step, options: &str) -> anyhow::Result<VirtualMachine> {
    let read = |path| std::fs::read(path).with_context(|| format!("cannot read {path}"));
    let (kernel, initrd) = (read(GUEST_KERNEL)?, read(GUEST_INITRD)?);
    let together = if step.guests > 1 { TOGETHER } else { "" };
    let command_line = format!("{LINUX} {options} {together}");
    let images = Images {
        kernel: Source::of(GUEST_KERNEL, &kernel),
        initrd: Some(Source::of(GUEST_INITRD, &initrd)),
        modules: &[],
        command_line: command_line.trim(),
    };
    Ok(VirtualMachine::new(&step.configuration, &images)?)
}

/// Runs all at once to their ends; what they printed, one after the other, and how the first ended
/// that did not end as the others, or else all of them.
fn run_all(
    line: &mut Line,
    step: &Step,
    together: &Together,
    vm: &mut VirtualMachine,
    others: &mut [VirtualMachine],
    attendant: Option<&mut (dyn Attendant + 'static)>,
) -> anyhow::Result<(bench::End, Vec<String>)> {
    std::thread::scope(|scope| {
        let begin = |vm| Builder::new().spawn_scoped(scope, || run_quietly(step, together, vm));
        let running: Vec<_> = others.iter_mut().map(begin).collect();
        let (mut end, mut console) = run_guest(line, step, together, vm, attendant)?;
        for one in running {
            let one = one.context("no thread for a guest")?;
            let ended = one.join().map_err(|_| anyhow::anyhow!("a guest's thread failed"))?;
            let (other, lines) = ended?;
            console.extend(lines);
            for (reason, count) in other.process_exits {
                *end.process_exits.entry(reason).or_default() += count;
            }
            if end.outcome == bench::Outcome::PowerOff {
                end.outcome = other.outcome;
            }
        }
        Ok((end, console))
    })
}

/// The same of a guest whose progress nobody is told.
fn run_quietly(
    step: &Step,
    together: &Together,
    vm: &mut VirtualMachine,
) -> anyhow::Result<(bench::End, Vec<String>)> {
    let (mut text, stop) = (Vec::new(), AtomicBool::new(false));
    let mut part = Part::of(together);
    let end = vm.run(Duration::from_secs(step.limit), &stop, |bytes| {
        text.extend(bytes.iter().filter(|(port, _)| *port == 0).map(|(_, byte)| *byte));
        part.look(&text)
    })?;
    let text = String::from_utf8_lossy(&text);
    Ok((end, text.lines().map(|line| line.trim_end().to_owned()).collect()))
}

/// Runs it to its end; what it printed.
fn run_guest(
    line: &mut Line,
    step: &Step,
    together: &Together,
    vm: &mut VirtualMachine,
    mut attendant: Option<&mut (dyn Attendant + 'static)>,
) -> anyhow::Result<(bench::End, Vec<String>)> {
    let mut text = Vec::new();
    let mut told = 0;
    // What the attendant refuses ends the run.
    let mut fault = None;
    let stop = AtomicBool::new(false);
    let mut part = Part::of(together);
    let end = vm.run(Duration::from_secs(step.limit), &stop, |bytes| {
        text.extend(bytes.iter().filter(|(port, _)| *port == 0).map(|(_, byte)| *byte));
        while let Some(length) = text[told..].iter().position(|byte| *byte == b'\n') {
            let line_text = String::from_utf8_lossy(&text[told..told + length]);
            // Progress that cannot be told is not worth ending a run for.
            let _ = line.send(&FromAgent::Progress(line_text.trim_end().to_owned()));
            if let Some(attendant) = &mut attendant {
                fault = fault.take().or(attendant.take(line_text.trim_end()).err());
            }
            told += length + 1;
        }
        match attendant.as_mut().map(|attendant| attendant.look()) {
            Some(Ok(Some(sent))) => text.extend(format!("{sent}\n").into_bytes()),
            Some(Err(error)) => fault = fault.take().or(Some(error)),
            Some(Ok(None)) | None => {}
        }
        stop.store(fault.is_some(), Ordering::Relaxed);
        part.look(&text)
    })?;
    if let Some(fault) = fault {
        return Err(fault);
    }
    let text = String::from_utf8_lossy(&text);
    Ok((end, text.lines().map(|line| line.trim_end().to_owned()).collect()))
}

/// The kernel's messages about KVM, and its warnings, since boot.
fn messages() -> Vec<String> {
    let records = log::all();
    let is_ours = |line: &&String| {
        ["SVM", "VMX", "kvm", "KVM", "AVIC", "WARNING", "BUG:"]
            .iter()
            .any(|word| line.contains(word))
    };
    records.iter().filter(is_ours).cloned().collect()
}
