//! Priorities, evaluation and delivery of virtual interrupts.
//! [SDM3 "Virtual APIC State"] [SDM3 "Evaluation and Delivery of Virtual Interrupts"]

use super::{Apicv, ApicvExit};
use crate::SharedMemory;
use arch::apic::Register;
use arch::identity::Vector;
use interrupt::page::{self, ApicPage, Bank};

const TASK_PRIORITY: u16 = Register::TaskPriority.offset();
const PROCESSOR_PRIORITY: u16 = Register::ProcessorPriority.offset();

impl Apicv {
    /// What VM entry does once guest state is loaded, before it injects an event. The exit for a
    /// task priority below the threshold takes place after the injection.
    /// [SDM3 "Updating Non-Register State"] [SDM3 "VM Exits Induced by the TPR Threshold"]
    pub fn enter(&mut self, memory: &mut impl SharedMemory) -> Option<ApicvExit> {
        self.is_recognized = false;
        self.unfinished_write = None;
        if self.controls.delivers_interrupts {
            self.virtualize_processor_priority(memory);
            self.evaluate(memory);
            return None;
        }
        let looks = self.controls.uses_tpr_shadow && self.controls.virtualizes_accesses;
        (looks && self.is_below_threshold(memory)).then_some(ApicvExit::TprBelowThreshold)
    }

    /// After a guest's write of the task priority. [SDM3 "TPR Virtualization"]
    pub fn virtualize_task_priority(
        &mut self,
        memory: &mut impl SharedMemory,
    ) -> Option<ApicvExit> {
        if self.controls.delivers_interrupts {
            self.virtualize_processor_priority(memory);
            self.evaluate(memory);
            return None;
        }
        self.is_below_threshold(memory).then_some(ApicvExit::TprBelowThreshold)
    }

    /// After a guest's write of EOI. The bitmap is asked about the vector that ended; an exit
    /// leaves the evaluation to the next VM entry. [SDM3 "EOI Virtualization"]
    pub fn virtualize_eoi(&mut self, memory: &mut impl SharedMemory) -> Option<ApicvExit> {
        let ended = self.end_in_service(memory);
        if self.eoi_exits.contains(ended) {
            return Some(ApicvExit::VirtualizedEoi(ended));
        }
        self.evaluate(memory);
        None
    }

    /// The vector that [`Self::deliver`] took into service is a notification of user interrupts:
    /// it ends at once, whatever the bitmap of exits says.
    /// [SDM3 "User-Interrupt Notification Identification"]
    pub fn end_notification(&mut self, memory: &mut impl SharedMemory) {
        self.end_in_service(memory);
        self.evaluate(memory);
    }

    /// The highest vector in service leaves it.
    fn end_in_service(&mut self, memory: &mut impl SharedMemory) -> Vector {
        let ended = Vector(self.status.servicing());
        let mut page = self.page.within(memory);
        page.remove(Bank::InService, ended);
        self.status.set_servicing(or_zero(page.highest(Bank::InService)));
        self.virtualize_processor_priority(memory);
        ended
    }

    /// An IPI of the guest to its own processor. [SDM3 "Self-IPI Virtualization"]
    pub fn virtualize_self_ipi(&mut self, memory: &mut impl SharedMemory, vector: Vector) {
        self.page.within(memory).insert(Bank::Request, vector);
        self.status.set_requesting(self.status.requesting().max(vector.0));
        self.evaluate(memory);
    }

    /// [SDM3 "PPR Virtualization"]
    fn virtualize_processor_priority(&mut self, memory: &mut impl SharedMemory) {
        let mut page = self.page.within(memory);
        let task = page.read_u32(TASK_PRIORITY) as u8;
        let priority = page::processor_priority(task, Some(Vector(self.status.servicing())));
        page.write_u32(PROCESSOR_PRIORITY, priority.into());
    }

    /// The five triggers are VM entry, the virtualization of TPR, of EOI and of an IPI to itself,
    /// and posted-interrupt processing. [SDM3 "Evaluation of Pending Virtual Interrupts"]
    pub(super) fn evaluate(&mut self, memory: &mut impl SharedMemory) {
        let priority = self.page.within(memory).read_u32(PROCESSOR_PRIORITY) as u8;
        let requested = Vector(self.status.requesting());
        self.is_recognized =
            !self.controls.exits_at_interrupt_window && page::is_deliverable(requested, priority);
    }

    /// Whether a virtual interrupt is delivered, and ends HLT or MWAIT, as soon as RFLAGS.IF and
    /// the blocking by STI and MOV SS let it; those are the processor's to check.
    pub const fn has_deliverable(&self) -> bool {
        self.is_recognized && !self.controls.exits_at_interrupt_window
    }

    /// Takes the requested vector into service; the processor delivers it through the IDT.
    /// [SDM3 "Virtual-Interrupt Delivery"]
    pub fn deliver(&mut self, memory: &mut impl SharedMemory) -> Vector {
        let vector = Vector(self.status.requesting());
        let mut page = self.page.within(memory);
        page.insert(Bank::InService, vector);
        page.write_u32(PROCESSOR_PRIORITY, u32::from(vector.0 & 0xF0));
        page.remove(Bank::Request, vector);
        let next = or_zero(page.highest(Bank::Request));
        self.status = self.status.with_servicing(vector.0).with_requesting(next);
        self.is_recognized = false;
        vector
    }

    /// MOV from CR8 with a TPR shadow. [SDM3 "Virtualizing CR8-Based TPR Accesses"]
    pub fn read_cr8(&self, memory: &mut impl SharedMemory) -> u8 {
        self.page.within(memory).read_u32(TASK_PRIORITY) as u8 >> 4
    }

    /// MOV to CR8 with a TPR shadow; the rest of VTPR becomes zero.
    pub fn write_cr8(&mut self, memory: &mut impl SharedMemory, value: u8) -> Option<ApicvExit> {
        self.page.within(memory).write_u32(TASK_PRIORITY, u32::from(value << 4));
        self.virtualize_task_priority(memory)
    }

    fn is_below_threshold(&self, memory: &mut impl SharedMemory) -> bool {
        let task = self.page.within(memory).read_u32(TASK_PRIORITY) as u8;
        task >> 4 < self.tpr_threshold & 15
    }
}

/// RVI and SVI are zero where there is no vector.
fn or_zero(vector: Option<Vector>) -> u8 {
    vector.map_or(0, |vector| vector.0)
}
