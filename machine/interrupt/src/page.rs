//! The algebra of an APIC register page: sets of vectors and priorities.
//!
//! A local APIC, an AVIC backing page in guest memory and a VMX virtual-APIC page have the same
//! layout, so what [SDM3 "Interrupt Acceptance for Fixed Interrupts"], [APM2 "AVIC Backing Page"]
//! and [SDM3 "Virtual-Interrupt Delivery"] do to it is written once, over [`ApicPage`].

use arch::identity::Vector;
use serde::{Deserialize, Serialize};

/// The three sets of 256 vectors on a page: eight dwords each, 16 bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Bank {
    /// ISR: being handled.
    #[doc(alias = "ISR")]
    InService = 0x100,
    /// TMR: level-triggered, as of the last time they were accepted.
    #[doc(alias = "TMR")]
    TriggerMode = 0x180,
    /// IRR: waiting for their delivery.
    #[doc(alias = "IRR")]
    Request = 0x200,
}

impl Bank {
    /// The offset of the dword that holds `vector`.
    #[inline]
    pub const fn offset(self, vector: Vector) -> u16 {
        self as u16 + (((vector.0 & 0xE0) as u16) >> 1)
    }
}

const fn bit(vector: Vector) -> u32 {
    1 << (vector.0 & 31)
}

const TASK_PRIORITY: u16 = 0x80;
const PROCESSOR_PRIORITY: u16 = 0xA0;

/// A page of 32-bit registers at 16-byte stride. Offsets are multiples of 16 below 1000h.
pub trait ApicPage {
    /// The register at `offset`.
    fn read_u32(&self, offset: u16) -> u32;
    /// The register at `offset`, whatever software could write there.
    fn write_u32(&mut self, offset: u16, value: u32);

    /// Whether `vector` is in `bank`.
    #[inline]
    fn contains(&self, bank: Bank, vector: Vector) -> bool {
        self.read_u32(bank.offset(vector)) & bit(vector) != 0
    }

    /// Adds `vector`; `true` if it was not there.
    #[inline]
    fn insert(&mut self, bank: Bank, vector: Vector) -> bool {
        let offset = bank.offset(vector);
        let before = self.read_u32(offset);
        self.write_u32(offset, before | bit(vector));
        before & bit(vector) == 0
    }

    /// Removes `vector`; `true` if it was there.
    #[inline]
    fn remove(&mut self, bank: Bank, vector: Vector) -> bool {
        let offset = bank.offset(vector);
        let before = self.read_u32(offset);
        self.write_u32(offset, before & !bit(vector));
        before & bit(vector) != 0
    }

    /// The highest vector in `bank`.
    #[inline]
    fn highest(&self, bank: Bank) -> Option<Vector> {
        for index in (0..8u16).rev() {
            let dword = self.read_u32(bank as u16 + index * 16);
            if dword != 0 {
                return Some(Vector((index * 32 + 31 - dword.leading_zeros() as u16) as u8));
            }
        }
        None
    }

    /// All of `bank`.
    fn vectors(&self, bank: Bank) -> VectorSet {
        VectorSet(core::array::from_fn(|index| self.read_u32(bank as u16 + index as u16 * 16)))
    }

    /// Replaces all of `bank`.
    fn set_vectors(&mut self, bank: Bank, set: &VectorSet) {
        for (index, dword) in set.0.iter().enumerate() {
            self.write_u32(bank as u16 + index as u16 * 16, *dword);
        }
    }

    /// Adds every vector of `set` to `bank`, as posted-interrupt processing does.
    fn merge(&mut self, bank: Bank, set: &VectorSet) {
        for (index, dword) in set.0.iter().enumerate() {
            if *dword != 0 {
                let offset = bank as u16 + index as u16 * 16;
                let before = self.read_u32(offset);
                self.write_u32(offset, before | dword);
            }
        }
    }

    /// Recomputes PPR from TPR and ISR, stores and returns it.
    #[inline]
    fn update_processor_priority(&mut self) -> u8 {
        let in_service = self.highest(Bank::InService);
        let priority = processor_priority(self.read_u32(TASK_PRIORITY) as u8, in_service);
        self.write_u32(PROCESSOR_PRIORITY, u32::from(priority));
        priority
    }

    /// Takes a Fixed interrupt: TMR follows its trigger mode, IRR gains the vector. `false` if the
    /// vector was requested already. [SDM3 "Interrupt Acceptance for Fixed Interrupts"]
    #[inline]
    fn request(&mut self, vector: Vector, is_level: bool) -> bool {
        if is_level {
            self.insert(Bank::TriggerMode, vector);
        } else {
            self.remove(Bank::TriggerMode, vector);
        }
        self.insert(Bank::Request, vector)
    }

    /// Moves `vector` from IRR to ISR and recomputes PPR.
    #[inline]
    fn start_service(&mut self, vector: Vector) {
        self.remove(Bank::Request, vector);
        self.insert(Bank::InService, vector);
        self.update_processor_priority();
    }

    /// Ends the highest interrupt in service and recomputes PPR; the vector, and whether it is
    /// level-triggered.
    #[inline]
    fn end_of_interrupt(&mut self) -> Option<(Vector, bool)> {
        let vector = self.highest(Bank::InService)?;
        self.remove(Bank::InService, vector);
        self.update_processor_priority();
        Some((vector, self.contains(Bank::TriggerMode, vector)))
    }
}

/// PPR: TPR where its class is at least that of the highest interrupt in service, else that class.
/// [SDM3 "Task and Processor Priorities"] [APM2 "Processor Priority"]
#[inline]
pub const fn processor_priority(task_priority: u8, in_service: Option<Vector>) -> u8 {
    let in_service = match in_service {
        Some(vector) => vector.0,
        None => 0,
    };
    if task_priority >> 4 >= in_service >> 4 { task_priority } else { in_service & 0xF0 }
}

/// Whether a processor at `processor_priority` takes `vector`: its class must be higher.
#[inline]
pub const fn is_deliverable(vector: Vector, processor_priority: u8) -> bool {
    vector.0 >> 4 > processor_priority >> 4
}

/// 256 bits in a row: the content of a [`Bank`], or a posted-interrupt descriptor's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorSet(pub [u32; 8]);

impl VectorSet {
    /// Whether the vector's bit is set.
    pub const fn contains(&self, vector: Vector) -> bool {
        self.0[(vector.0 >> 5) as usize] & bit(vector) != 0
    }

    /// Sets the vector's bit.
    pub const fn insert(&mut self, vector: Vector) {
        self.0[(vector.0 >> 5) as usize] |= bit(vector);
    }

    /// Clears the vector's bit.
    pub const fn remove(&mut self, vector: Vector) {
        self.0[(vector.0 >> 5) as usize] &= !bit(vector);
    }

    /// Whether no bit is set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }

    /// The highest vector whose bit is set.
    pub fn highest(&self) -> Option<Vector> {
        let index = self.0.iter().rposition(|dword| *dword != 0)?;
        Some(Vector((index as u32 * 32 + 31 - self.0[index].leading_zeros()) as u8))
    }

    /// The vectors that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|index| self.0[index] & other.0[index]))
    }
}

/// The registers of a local APIC: rows of sixteen, up to the end of AMD's extended space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterPage {
    rows: [[u32; 16]; 6],
}

impl ApicPage for RegisterPage {
    #[inline]
    fn read_u32(&self, offset: u16) -> u32 {
        match self.rows.get(usize::from(offset >> 8)) {
            Some(row) => row[usize::from((offset >> 4) & 15)],
            None => 0,
        }
    }

    #[inline]
    fn write_u32(&mut self, offset: u16, value: u32) {
        if let Some(row) = self.rows.get_mut(usize::from(offset >> 8)) {
            row[usize::from((offset >> 4) & 15)] = value;
        }
    }
}

#[cfg(test)]
mod tests;
