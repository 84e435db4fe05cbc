//! The page itself: registers every 16 bytes, and the three sets of 256 bits. Processors change it
//! under our hands, so every change of a set is one atomic operation.
//! [APM2 "APIC Registers"] [APM2 "Interrupt Priority"]

use arch::address::SystemPhysical;
use arch::apic::{LocalVector, Lvt, Mode, Register, Svr, X2Ldr};
use core::sync::atomic::{AtomicU32, Ordering};

/// Version 10h, six local vectors.
const VERSION: u32 = 0x0005_0010;
const DWORDS: usize = 8;

#[repr(C, align(4096))]
pub struct ApicPage([AtomicU32; 1024]);

impl ApicPage {
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 1024])
    }

    pub fn address(&self) -> SystemPhysical {
        SystemPhysical(core::ptr::from_ref(self) as u64)
    }

    /// Puts the upper half of a command that is 64 bits at its lower half's place where xAPIC mode
    /// has it. [SDM3 "Virtualizing MSR-Based APIC Accesses"]
    pub fn spread_command(&self) {
        let high = &self.0[usize::from(Register::Command.offset()) / 4 + 1];
        self.set(Register::CommandHigh.offset(), high.load(Ordering::SeqCst));
    }

    fn dword(&self, offset: u16) -> &AtomicU32 {
        &self.0[usize::from(offset & 0xFF0) / 4]
    }

    pub fn get(&self, offset: u16) -> u32 {
        self.dword(offset).load(Ordering::SeqCst)
    }

    pub fn set(&self, offset: u16, value: u32) {
        self.dword(offset).store(value, Ordering::SeqCst);
    }

    /// As after reset, in xAPIC mode.
    pub fn reset(&self, id: u32) {
        self.0.iter().for_each(|dword| dword.store(0, Ordering::Relaxed));
        self.set(Register::Id.offset(), id << 24);
        self.set(Register::Version.offset(), VERSION);
        self.set(Register::DestinationFormat.offset(), u32::MAX);
        self.set(Register::SpuriousVector.offset(), Svr::RESET);
        for entry in LocalVector::ALL {
            if entry != LocalVector::CorrectedMachineCheck {
                self.set(entry.offset(), Lvt::RESET);
            }
        }
    }

    /// What the page shows in another mode. [APM2 "x2APIC_ID"]
    /// [APM2 "Logical Destination Register"]
    pub fn enter(&self, mode: Mode, id: u32) {
        match mode {
            Mode::X2Apic => {
                self.set(Register::Id.offset(), id);
                self.set(Register::LogicalDestination.offset(), X2Ldr::of(id).into_bits());
            }
            Mode::Disabled => self.reset(id),
            _ => self.set(Register::Id.offset(), id << 24),
        }
    }

    /// The highest vector of a set of 256 bits.
    fn highest(&self, set: fn(u8) -> Register) -> Option<u8> {
        (0..DWORDS as u8).rev().find_map(|index| {
            let bits = self.get(set(index).offset());
            (bits != 0).then(|| index * 32 + 31 - bits.leading_zeros() as u8)
        })
    }

    fn insert(&self, set: fn(u8) -> Register, vector: u8) {
        let dword = self.dword(set(vector / 32).offset());
        dword.fetch_or(1 << (vector % 32), Ordering::SeqCst);
    }

    fn remove(&self, set: fn(u8) -> Register, vector: u8) {
        let dword = self.dword(set(vector / 32).offset());
        dword.fetch_and(!(1 << (vector % 32)), Ordering::SeqCst);
    }

    /// Requests an interrupt.
    pub fn request(&self, vector: u8) {
        self.remove(Register::TriggerMode, vector);
        self.insert(Register::Request, vector);
    }

    pub fn task_priority(&self) -> u8 {
        self.get(Register::TaskPriority.offset()) as u8
    }

    pub fn set_task_priority(&self, value: u8) {
        self.set(Register::TaskPriority.offset(), u32::from(value));
    }

    /// The highest request, whatever holds it back.
    pub fn highest_request(&self) -> Option<u8> {
        self.highest(Register::Request)
    }

    /// The highest vector in service; zero if there is none.
    pub fn in_service(&self) -> u8 {
        self.highest(Register::InService).unwrap_or(0)
    }

    /// The higher class of task priority and the vector in service.
    pub fn processor_priority(&self) -> u8 {
        let (task, service) = (self.task_priority(), self.in_service() & 0xF0);
        if task & 0xF0 >= service { task } else { service }
    }

    /// The highest request that no interrupt in service holds back; task priority may.
    pub fn requested(&self) -> Option<u8> {
        self.highest(Register::Request).filter(|vector| vector >> 4 > self.in_service() >> 4)
    }

    /// The highest request that nothing of this APIC holds back.
    pub fn deliverable(&self) -> Option<u8> {
        self.requested().filter(|vector| vector >> 4 > self.processor_priority() >> 4)
    }

    /// The guest takes the interrupt.
    pub fn accept(&self, vector: u8) {
        self.remove(Register::Request, vector);
        self.insert(Register::InService, vector);
        self.update_processor_priority();
    }

    /// The highest interrupt in service has been dealt with.
    pub fn end_interrupt(&self) {
        if let Some(vector) = self.highest(Register::InService) {
            self.remove(Register::InService, vector);
        }
        self.update_processor_priority();
    }

    fn update_processor_priority(&self) {
        let value = u32::from(self.processor_priority());
        self.set(Register::ProcessorPriority.offset(), value);
    }

    /// The eight bits that xAPIC mode's logical destinations are compared with.
    pub fn logical_identifier(&self) -> u8 {
        (self.get(Register::LogicalDestination.offset()) >> 24) as u8
    }

    pub fn destination_format(&self) -> u32 {
        self.get(Register::DestinationFormat.offset())
    }
}
