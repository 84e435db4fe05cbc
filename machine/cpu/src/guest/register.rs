//! Registers that a guest sees in another form, and the vendor's own.

use crate::{Bus, Cpu, Stop};

impl Cpu {
    /// The time-stamp counter as the running software reads it.
    pub(crate) fn guest_tsc(&self) -> u64 {
        self.svm_guest_tsc()
    }

    /// CR8 of a guest whose task priority is virtual; None where it is the processor's.
    pub(crate) fn read_virtual_cr8(&self) -> Option<u64> {
        self.svm_read_cr8()
    }

    /// True if CR8 was virtual, so that the processor's stays as it is.
    pub(crate) fn write_virtual_cr8(&mut self, bus: &mut Bus<'_>, value: u64) -> bool {
        self.svm_write_cr8(bus, value)
    }

    /// RDMSR of one of the vendor's own MSRs, or of one that the guest sees in another form; None
    /// for any other.
    pub(crate) fn read_virtualization_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
    ) -> Option<Result<u64, Stop>> {
        self.read_svm_msr(bus, number)
    }

    /// As `read_virtualization_msr`, for WRMSR.
    pub(crate) fn write_virtualization_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>> {
        self.write_svm_msr(bus, number, value)
    }

    /// IRET ends the blocking of NMIs, or of those that are virtual.
    pub(crate) fn unblock_nmis(&mut self) {
        self.svm_unblock_nmis();
    }
}
