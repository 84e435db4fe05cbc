//! What happens to a guest between two instructions: the injected event, the monitor trap flag, the
//! preemption timer, the windows. [SDM3 "Event Injection"] [SDM3 "Special Features of VM Entry"]

use super::state::{Exit, Injection, MonitorTrap};
use crate::state::{Event, Origin};
use crate::stop::{Kind, SoftwareSource};
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::rflags;
use arch::time::Picoseconds;
use arch::vmx::control::{PinControls, PrimaryControls};
use arch::vmx::{ExitReason, InterruptionType};

impl Cpu {
    /// First of all at a boundary: what the last instruction, or the entry, left to be done.
    pub(crate) fn vmx_finish_instruction(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        self.apicv_complete_operation(bus);
        let Some(guest) = self.guest.vmx.current.as_mut() else {
            self.pending.attention.remove(Attention::GUEST_BOUNDARY);
            return Ok(());
        };
        if guest.exit.is_some() {
            return Err(Stop::VM_EXIT);
        }
        self.pending.attention.remove(Attention::GUEST_BOUNDARY);
        if guest.monitor_trap == Some(MonitorTrap::Entry) {
            guest.monitor_trap = Some(MonitorTrap::Instruction(self.instructions));
        }
        let due = guest.due_after_injection.take();
        if let Some(injection) = guest.injection.take() {
            self.vmx_inject(bus, injection)?;
        }
        match due {
            Some(exit) => {
                let exit = Exit::qualified(exit.reason(), exit.qualification());
                Err(self.vmx_exit(exit))
            }
            None => Ok(()),
        }
    }

    /// Unconditional, whatever IF and the shadow say.
    fn vmx_inject(&mut self, bus: &mut Bus<'_>, injection: Injection) -> Result<(), Stop> {
        let vector = injection.event.vector();
        let error = injection.event.has_error_code().then_some(injection.error_code);
        let Some(guest) = self.guest.vmx.current.as_mut() else { return Ok(()) };
        let virtual_nmis = guest.controls.pin.contains(PinControls::VIRTUAL_NMIS);
        guest.monitor_trap = guest.monitor_trap.map(|_| MonitorTrap::Due);
        let origin = match injection.event.kind() {
            InterruptionType::Other => {
                guest.monitor_trap = Some(MonitorTrap::Due);
                self.pending.attention |= Attention::WINDOW;
                return Ok(());
            }
            InterruptionType::Nmi => {
                guest.blocks_virtual_nmis |= virtual_nmis;
                self.pending.nmi_blocked |= !virtual_nmis;
                Origin::External
            }
            InterruptionType::External | InterruptionType::Reserved => Origin::External,
            InterruptionType::HardwareException => Origin::Exception,
            InterruptionType::SoftwareInterrupt => Origin::Software(SoftwareSource::Int),
            InterruptionType::PrivilegedSoftwareException => Origin::Software(SoftwareSource::Int1),
            InterruptionType::SoftwareException => Origin::Software(SoftwareSource::Int3),
        };
        self.pending.attention.remove(Attention::SHADOW | Attention::STACK_SHADOW);
        let event = Event { vector, error, origin };
        match origin {
            Origin::Software(_) => self.inject_software(bus, event, injection.length.into()),
            _ => self.raise_injected(bus, event),
        }
    }

    /// Returns behind the instruction that would have raised it; a fault on the way is reported at
    /// the instruction itself.
    fn inject_software(
        &mut self,
        bus: &mut Bus<'_>,
        event: Event,
        length: u64,
    ) -> Result<(), Stop> {
        let this = self.registers.ip;
        self.registers.ip = this.wrapping_add(length);
        self.pending.software_length = length;
        self.pending.delivering = Some(event);
        let Err(stop) = self.deliver(bus, event) else {
            self.pending.delivering = None;
            return Ok(());
        };
        self.registers.ip = this;
        match stop.kind() {
            Kind::Exception { vector, error, .. } => self.raise_exception(bus, vector, error),
            _ => Err(stop),
        }
    }

    /// An instruction has completed under the monitor trap flag, an event was delivered in the
    /// place of one, or a pending exit was injected.
    pub(crate) fn vmx_monitor_trap(&mut self) -> Result<(), Stop> {
        let is_due = match self.guest.vmx.current.as_ref().and_then(|guest| guest.monitor_trap) {
            None | Some(MonitorTrap::Entry) => false,
            Some(MonitorTrap::Instruction(start)) => start != self.instructions,
            Some(MonitorTrap::Due) => true,
        };
        if is_due {
            return Err(self.vmx_exit(Exit::new(ExitReason::MonitorTrapFlag)));
        }
        Ok(())
    }

    /// An event has been delivered: its handler's first instruction comes after the exit of the
    /// monitor trap flag. [SDM3 "Monitor Trap Flag"]
    pub(crate) fn vmx_note_delivery(&mut self) {
        if let Some(guest) = self.guest.vmx.current.as_mut() {
            guest.monitor_trap = guest.monitor_trap.map(|_| MonitorTrap::Due);
        }
    }

    /// Whether an event was delivered at this boundary under the monitor trap flag.
    pub(crate) fn vmx_monitor_trap_is_due(&self) -> bool {
        let guest = self.guest.vmx.current.as_ref();
        guest.is_some_and(|guest| guest.monitor_trap == Some(MonitorTrap::Due))
    }

    /// [SDM3 "VMX-Preemption Timer"]
    pub(crate) fn vmx_timer(&mut self) -> Result<(), Stop> {
        if self.timer_has_expired() {
            return Err(self.vmx_exit(Exit::new(ExitReason::PreemptionTimer)));
        }
        Ok(())
    }

    fn timer_has_expired(&self) -> bool {
        let end = self.guest.vmx.current.as_ref().and_then(|guest| guest.timer);
        end.is_some_and(|end| self.tsc() >> self.timer_rate() >= end)
    }

    /// A SIPI has come: only a guest that waits for it leaves.
    pub(crate) fn vmx_startup(&mut self, vector: u8) {
        if let Some(guest) = self.guest.vmx.current.as_mut() {
            guest.exit = Some(Exit::qualified(ExitReason::Sipi, vector.into()));
            self.pending.attention |= Attention::GUEST_BOUNDARY;
            self.pending.set_activity(crate::Activity::Running);
        }
    }

    /// When the preemption timer is going to expire; a guest that waits for a SIPI does not see it.
    pub fn guest_deadline(&self) -> Option<Picoseconds> {
        if self.pending.activity == crate::Activity::WaitForStartup {
            return None;
        }
        let end = self.guest.vmx.current.as_ref()?.timer?;
        let ticks = (end << self.timer_rate()).wrapping_sub(self.tsc_offset);
        Some(Picoseconds::at_tick(ticks, self.model.tsc_hertz()))
    }

    fn nmi_window_is_open(&self) -> bool {
        self.guest.vmx.current.as_ref().is_some_and(|guest| {
            guest.controls.primary.contains(PrimaryControls::NMI_WINDOW_EXITING)
                && !guest.blocks_virtual_nmis
        })
    }

    fn interrupt_window_is_open(&self) -> bool {
        let window = PrimaryControls::INTERRUPT_WINDOW_EXITING;
        let guest = self.guest.vmx.current.as_ref();
        guest.is_some_and(|guest| guest.controls.primary.contains(window))
            && self.registers.flags.has(rflags::IF)
    }

    /// Both windows are closed in an interrupt shadow.
    pub(crate) fn vmx_nmi_window(&mut self) -> Result<(), Stop> {
        if self.nmi_window_is_open() {
            return Err(self.vmx_exit(Exit::new(ExitReason::NmiWindow)));
        }
        Ok(())
    }

    /// The window, or the virtual interrupt that there is without it.
    pub(crate) fn vmx_interrupt_window(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        if self.interrupt_window_is_open() {
            return Err(self.vmx_exit(Exit::new(ExitReason::InterruptWindow)));
        }
        self.vmx_virtual_interrupt(bus)
    }

    /// Whether a guest that waits in HLT or MWAIT leaves.
    pub(crate) fn vmx_wakes(&self) -> bool {
        self.timer_has_expired()
            || self.nmi_window_is_open()
            || self.interrupt_window_is_open()
            || self.apicv_has_interrupt()
    }

    /// A guest is woken: an exit that follows at once says that it was halted.
    pub(crate) fn vmx_note_wake(&mut self) {
        let now = self.instructions;
        self.pending.attention |= Attention::VIRTUAL_INTERRUPT;
        let was_halted = self.pending.activity == crate::Activity::Halted;
        if let Some(guest) = self.guest.vmx.current.as_mut().filter(|_| was_halted) {
            guest.halted_at = Some(now);
        }
    }

    /// Whether a maskable interrupt is taken: one that exits does not look at IF.
    pub(crate) fn vmx_accepts_interrupts(&self, own: bool) -> bool {
        let exits = self.guest.vmx.current.as_ref().is_some_and(|guest| {
            guest.controls.pin.contains(PinControls::EXTERNAL_INTERRUPT_EXITING)
        });
        if exits { !self.pending.attention.contains(Attention::SHADOW) } else { own }
    }

    /// Whether an interrupt that exits is acknowledged on the way.
    pub(crate) fn vmx_acknowledges(&self) -> bool {
        use arch::vmx::ExitControls;
        self.guest.vmx.current.as_ref().is_some_and(|guest| {
            guest.controls.pin.contains(PinControls::EXTERNAL_INTERRUPT_EXITING)
                && guest.controls.exit.contains(ExitControls::ACKNOWLEDGE_INTERRUPT)
        })
    }

    /// IRET ends the blocking of virtual NMIs; with NMI exiting alone it ends none.
    pub(crate) fn vmx_unblock_nmis(&mut self) {
        let Some(guest) = self.guest.vmx.current.as_mut() else { return };
        let pin = guest.controls.pin;
        if pin.contains(PinControls::VIRTUAL_NMIS) {
            guest.blocks_virtual_nmis = false;
        } else if !pin.contains(PinControls::NMI_EXITING) {
            self.pending.nmi_blocked = false;
        }
    }
}
