//! A [`Debuggee`] as the protocol's library wants it.

use super::registers::X86_64;
use super::{Backwards, DebugRegisters, Debuggee, Others, Stop, StopPoint, WatchedAccess};
use arch::address::Linear;
use arch::identity::CpuIndex;
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use std::convert::Infallible;
use std::ops::Range;

/// A processor told to step, on until its instruction pointer leaves a range.
#[derive(Clone, Debug)]
pub(super) struct Stepping {
    pub cpu: CpuIndex,
    pub range: Range<u64>,
}

/// A debuggee and what the debugger told it to do next.
pub(super) struct Session<'a, D: Debuggee> {
    pub debuggee: &'a mut D,
    pub stepping: Option<Stepping>,
    /// The only processor that was told to go on.
    pub continued: Option<CpuIndex>,
    /// Whether processors that were told nothing stand still.
    pub is_locked: bool,
    /// All go backwards.
    pub backwards: Option<Backwards>,
}

/// Thread numbers start at one.
fn thread(cpu: CpuIndex) -> Tid {
    Tid::MIN.saturating_add(cpu.0.into())
}

impl<D: Debuggee> Session<'_, D> {
    /// The processor that a thread stands for, if there is one.
    fn cpu(&self, thread: Tid) -> TargetResult<CpuIndex, Self> {
        let index = thread.get() - 1;
        if index < usize::from(self.debuggee.cpu_count()) {
            Ok(CpuIndex(index as u16))
        } else {
            Err(TargetError::NonFatal)
        }
    }

    /// What the processors do that are not told to step.
    pub fn others(&self) -> Others {
        if self.is_locked && self.continued.is_none() { Others::Stand } else { Others::Run }
    }

    /// The processor that alone is to go on.
    pub fn only(&self) -> Option<CpuIndex> {
        self.continued.filter(|_| self.is_locked)
    }

    /// Whether a step is not over because the processor is still in the range to be left.
    pub fn is_in_range(&self, stop: Stop) -> bool {
        let Some(stepping) = &self.stepping else { return false };
        stop == (Stop::Stepped { cpu: stepping.cpu })
            && stepping.range.contains(&self.debuggee.registers(stepping.cpu).rip)
    }
}

/// A stop in the protocol's terms.
pub(super) fn stop_reason(stop: Stop) -> MultiThreadStopReason<u64> {
    match stop {
        Stop::Execute { cpu } => MultiThreadStopReason::HwBreak(thread(cpu)),
        Stop::Watch { cpu, address, access } => MultiThreadStopReason::Watch {
            tid: thread(cpu),
            kind: match access {
                WatchedAccess::Read => WatchKind::Read,
                WatchedAccess::Write => WatchKind::Write,
                WatchedAccess::Either => WatchKind::ReadWrite,
            },
            addr: address.0,
        },
        Stop::Stepped { cpu } | Stop::Event { cpu } => {
            MultiThreadStopReason::SignalWithThread { tid: thread(cpu), signal: Signal::SIGTRAP }
        }
        Stop::Shutdown { cpu } => {
            MultiThreadStopReason::SignalWithThread { tid: thread(cpu), signal: Signal::SIGABRT }
        }
        Stop::Beginning => {
            let (tid, pos) = (Some(Tid::MIN), ReplayLogPosition::Begin);
            MultiThreadStopReason::ReplayLog { tid, pos }
        }
        Stop::Off { status } => MultiThreadStopReason::Exited(status),
    }
}

impl<D: Debuggee> Target for Session<'_, D> {
    type Arch = X86_64;
    type Error = Infallible;

    fn base_ops(&mut self) -> BaseOps<'_, X86_64, Infallible> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
}

impl<D: Debuggee> MultiThreadBase for Session<'_, D> {
    fn read_registers(
        &mut self,
        registers: &mut DebugRegisters,
        thread: Tid,
    ) -> TargetResult<(), Self> {
        *registers = self.debuggee.registers(self.cpu(thread)?);
        Ok(())
    }

    fn write_registers(
        &mut self,
        registers: &DebugRegisters,
        thread: Tid,
    ) -> TargetResult<(), Self> {
        let cpu = self.cpu(thread)?;
        let is_set = self.debuggee.set_registers(cpu, registers);
        if is_set { Ok(()) } else { Err(TargetError::NonFatal) }
    }

    fn read_addrs(
        &mut self,
        start: u64,
        data: &mut [u8],
        thread: Tid,
    ) -> TargetResult<usize, Self> {
        let cpu = self.cpu(thread)?;
        match self.debuggee.read_memory(cpu, Linear(start), data) {
            0 if !data.is_empty() => Err(TargetError::NonFatal),
            read => Ok(read.min(data.len())),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], thread: Tid) -> TargetResult<(), Self> {
        let cpu = self.cpu(thread)?;
        let is_written = self.debuggee.write_memory(cpu, Linear(start), data);
        if is_written { Ok(()) } else { Err(TargetError::NonFatal) }
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), Infallible> {
        (0..self.debuggee.cpu_count()).for_each(|cpu| is_active(thread(CpuIndex(cpu))));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl<D: Debuggee> ThreadExtraInfo for Session<'_, D> {
    fn thread_extra_info(&self, thread: Tid, buffer: &mut [u8]) -> Result<usize, Infallible> {
        let Ok(cpu) = self.cpu(thread) else { return Ok(0) };
        let text = format!("cpu{cpu}: {}", self.debuggee.describe(cpu));
        let length = text.len().min(buffer.len());
        buffer[..length].copy_from_slice(&text.as_bytes()[..length]);
        Ok(length)
    }
}

/// All processors share one time, so "continue" of one is "continue" of all, unless the debugger
/// locks the others.
impl<D: Debuggee> MultiThreadResume for Session<'_, D> {
    fn resume(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Infallible> {
        self.stepping = None;
        self.continued = None;
        self.is_locked = false;
        self.backwards = None;
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        thread: Tid,
        _: Option<Signal>,
    ) -> Result<(), Infallible> {
        self.continued = self.cpu(thread).ok();
        Ok(())
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        if self.debuggee.goes_back() { Some(self) } else { None }
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        if self.debuggee.goes_back() { Some(self) } else { None }
    }
}

impl<D: Debuggee> ReverseCont<Tid> for Session<'_, D> {
    fn reverse_cont(&mut self) -> Result<(), Infallible> {
        self.backwards = Some(Backwards::Continue);
        Ok(())
    }
}

impl<D: Debuggee> ReverseStep<Tid> for Session<'_, D> {
    fn reverse_step(&mut self, thread: Tid) -> Result<(), Infallible> {
        self.backwards = self.cpu(thread).ok().map(Backwards::Step);
        Ok(())
    }
}

impl<D: Debuggee> MultiThreadSingleStep for Session<'_, D> {
    fn set_resume_action_step(&mut self, thread: Tid, _: Option<Signal>) -> Result<(), Infallible> {
        self.set_resume_action_range_step(thread, 0, 0)
    }
}

impl<D: Debuggee> MultiThreadRangeStepping for Session<'_, D> {
    fn set_resume_action_range_step(
        &mut self,
        thread: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Infallible> {
        if let Ok(cpu) = self.cpu(thread) {
            self.stepping = Some(Stepping { cpu, range: start..end });
        }
        Ok(())
    }
}

impl<D: Debuggee> MultiThreadSchedulerLocking for Session<'_, D> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Infallible> {
        self.is_locked = true;
        Ok(())
    }
}

impl<D: Debuggee> Breakpoints for Session<'_, D> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl<D: Debuggee> SwBreakpoint for Session<'_, D> {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.debuggee.insert(StopPoint::Execute(Linear(address))))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.debuggee.remove(StopPoint::Execute(Linear(address))))
    }
}

impl<D: Debuggee> HwBreakpoint for Session<'_, D> {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.debuggee.insert(StopPoint::Execute(Linear(address))))
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.debuggee.remove(StopPoint::Execute(Linear(address))))
    }
}

fn watch(start: u64, length: u64, kind: WatchKind) -> StopPoint {
    let access = match kind {
        WatchKind::Write => WatchedAccess::Write,
        WatchKind::Read => WatchedAccess::Read,
        WatchKind::ReadWrite => WatchedAccess::Either,
    };
    StopPoint::Watch { start: Linear(start), length, access }
}

impl<D: Debuggee> HwWatchpoint for Session<'_, D> {
    fn add_hw_watchpoint(
        &mut self,
        start: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.debuggee.insert(watch(start, length, kind)))
    }

    fn remove_hw_watchpoint(
        &mut self,
        start: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.debuggee.remove(watch(start, length, kind)))
    }
}

impl<D: Debuggee> MonitorCmd for Session<'_, D> {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Infallible> {
        let answer = self.debuggee.command(String::from_utf8_lossy(command).trim());
        answer.lines().for_each(|line| outputln!(out, "{line}"));
        Ok(())
    }
}
