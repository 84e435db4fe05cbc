//! Evaluation and delivery of virtual interrupts, priorities and the end of an interrupt.
//! [APM2 "Virtual Interrupt Delivery"] [APM2 "TPR Register"] [APM2 "EOI Register"]

use super::{Avic, PriorityThreshold};
use crate::SharedMemory;
use arch::identity::{ApicId, Vector};
use arch::svm::avic::register;
use interrupt::page::{self, ApicPage, Bank};

/// What the guest's write of EOI comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfInterrupt {
    /// No vector was in service.
    Nothing,
    /// An edge-triggered vector left service: pending interrupts are evaluated.
    Ended(Vector),
    /// A level-triggered vector: exit 402h.
    Exit(Vector),
}

/// What a doorbell does to the core it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellReception {
    /// The core runs a guest under AVIC, whichever it is: it evaluates that guest's interrupts.
    Evaluate,
    /// The core runs a host, or a guest without AVIC. The next VMRUN evaluates in any case.
    Dropped,
}

impl DoorbellReception {
    /// What follows from the guest, if any, that runs there with AVIC.
    pub const fn of(running: Option<&Avic>) -> Self {
        match running {
            Some(_) => Self::Evaluate,
            None => Self::Dropped,
        }
    }
}

impl Avic {
    /// The highest requested vector, if its priority class exceeds the processor's. RFLAGS.IF, the
    /// interrupt shadow and GIF are the processor's to check.
    pub fn deliverable(&self, memory: &mut impl SharedMemory) -> Option<Vector> {
        let vector = self.backing_page.within(memory).highest(Bank::Request)?;
        page::is_deliverable(vector, self.processor_priority(memory)).then_some(vector)
    }

    /// Whether any vector is requested, whatever its priority.
    pub fn has_request(&self, memory: &mut impl SharedMemory) -> bool {
        self.backing_page.within(memory).highest(Bank::Request).is_some()
    }

    /// Takes `vector` into service; the processor delivers it through the IDT.
    pub fn accept(&self, memory: &mut impl SharedMemory, vector: Vector) {
        let mut page = self.backing_page.within(memory);
        page.remove(Bank::Request, vector);
        page.insert(Bank::InService, vector);
        self.update_processor_priority(memory);
    }

    /// Undoes [`Avic::accept`].
    pub fn take_back(&self, memory: &mut impl SharedMemory, vector: Vector) {
        let mut page = self.backing_page.within(memory);
        page.remove(Bank::InService, vector);
        page.insert(Bank::Request, vector);
        self.update_processor_priority(memory);
    }

    /// The guest's write of EOI. The ISR bit of a level-triggered vector is still set at the exit:
    /// the hypervisor looks for the highest one, clears it and tells its I/O APIC.
    pub fn end_of_interrupt(&self, memory: &mut impl SharedMemory) -> EndOfInterrupt {
        let mut page = self.backing_page.within(memory);
        let Some(vector) = page.highest(Bank::InService) else {
            return EndOfInterrupt::Nothing;
        };
        let is_level = page.contains(Bank::TriggerMode, vector);
        if !is_level || self.behaviour.level_eoi_clears_in_service {
            page.remove(Bank::InService, vector);
            self.update_processor_priority(memory);
        }
        if is_level { EndOfInterrupt::Exit(vector) } else { EndOfInterrupt::Ended(vector) }
    }

    /// MOV to CR8 without an intercept: V_TPR and the page's TPR, whose low half becomes zero.
    pub fn write_cr8(&mut self, memory: &mut impl SharedMemory, value: u8) {
        self.write_task_priority(memory, value << 4);
    }

    /// MOV from CR8: V_TPR, whatever the page says.
    pub fn read_cr8(&self) -> u8 {
        self.task_priority
    }

    /// The guest's write of TPR: page, V_TPR and PPR.
    pub fn write_task_priority(&mut self, memory: &mut impl SharedMemory, value: u8) {
        self.backing_page.within(memory).write_u32(register::TASK_PRIORITY, value.into());
        self.task_priority = value >> 4;
        self.update_processor_priority(memory);
    }

    /// The higher of the task's priority and that of the highest vector in service. PPR in the page
    /// shows it but decides nothing.
    pub fn processor_priority(&self, memory: &mut impl SharedMemory) -> u8 {
        let task = self.threshold(memory);
        page::processor_priority(task, self.backing_page.within(memory).highest(Bank::InService))
    }

    fn threshold(&self, memory: &mut impl SharedMemory) -> u8 {
        let page = self.backing_page.within(memory).read_u32(register::TASK_PRIORITY) as u8;
        let virtual_priority = self.task_priority << 4;
        match self.behaviour.priority_threshold {
            PriorityThreshold::Page => page,
            // In step, the page knows the low half too.
            _ if page >> 4 == self.task_priority => page,
            PriorityThreshold::VirtualTaskPriority => virtual_priority,
            PriorityThreshold::Higher => page.max(virtual_priority),
        }
    }

    fn update_processor_priority(&self, memory: &mut impl SharedMemory) {
        let priority = self.processor_priority(memory);
        let mut page = self.backing_page.within(memory);
        page.write_u32(register::PROCESSOR_PRIORITY, priority.into());
    }

    /// The core that a write of the doorbell MSR rings; None for a value that raises #GP.
    /// [APM2 "AVIC Doorbell"]
    pub fn doorbell_target(value: u64, id_bits: u8) -> Option<ApicId> {
        (value >> id_bits == 0).then_some(ApicId(value as u32))
    }
}
