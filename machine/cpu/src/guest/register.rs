//! Registers that a guest sees in another form, and the vendor's own.

use crate::{Bus, Cpu, Stop};
use arch::control::Cr4;

impl Cpu {
    /// The time-stamp counter as the running software reads it.
    pub(crate) fn guest_tsc(&self) -> u64 {
        if self.guest.vmx.current.is_some() { self.vmx_guest_tsc() } else { self.svm_guest_tsc() }
    }

    /// CR8 of a guest whose task priority is virtual; None where it is the processor's.
    pub(crate) fn read_virtual_cr8(&mut self, bus: &mut Bus<'_>) -> Option<u64> {
        if self.guest.vmx.current.is_some() {
            return self.vmx_read_cr8(bus);
        }
        self.svm_read_cr8()
    }

    /// True if CR8 was virtual, so that the processor's stays as it is.
    pub(crate) fn write_virtual_cr8(&mut self, bus: &mut Bus<'_>, value: u64) -> bool {
        if self.guest.vmx.current.is_some() {
            return self.vmx_write_cr8(bus, value);
        }
        self.svm_write_cr8(bus, value)
    }

    /// RDMSR of one of the vendor's own MSRs, or of one that the guest sees in another form; None
    /// for any other.
    pub(crate) fn read_virtualization_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
    ) -> Option<Result<u64, Stop>> {
        self.read_vmx_msr(bus, number).or_else(|| self.read_svm_msr(bus, number))
    }

    /// As `read_virtualization_msr`, for WRMSR.
    pub(crate) fn write_virtualization_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>> {
        match self.write_vmx_msr(bus, number, value) {
            None => self.write_svm_msr(bus, number, value),
            written => written,
        }
    }

    /// IRET ends the blocking of NMIs, or of those that are virtual.
    pub(crate) fn unblock_nmis(&mut self) {
        if self.guest.vmx.current.is_some() {
            self.vmx_unblock_nmis();
        } else {
            self.svm_unblock_nmis();
        }
    }

    /// CR0 as the running software reads it.
    pub(crate) fn shown_cr0(&self) -> u64 {
        let actual = self.control.cr0.bits();
        self.guest.vmx.current.as_ref().map_or(actual, |guest| guest.cr0.shown(actual))
    }

    /// CR4 as the running software reads it.
    pub(crate) fn shown_cr4(&self) -> u64 {
        let actual = self.control.cr4.bits();
        self.guest.vmx.current.as_ref().map_or(actual, |guest| guest.cr4.shown(actual))
    }

    /// What the running software's write of `value` makes of CR0.
    pub(crate) fn resulting_cr0(&self, value: u64) -> u64 {
        let actual = self.control.cr0.bits();
        self.guest.vmx.current.as_ref().map_or(value, |guest| guest.cr0.written(actual, value))
    }

    /// What the running software's write of `value` makes of CR4.
    pub(crate) fn resulting_cr4(&self, value: u64) -> u64 {
        let actual = self.control.cr4.bits();
        self.guest.vmx.current.as_ref().map_or(value, |guest| guest.cr4.written(actual, value))
    }

    /// Whether CR0 may become `value`: VMX operation fixes some bits.
    pub(crate) fn permits_cr0(&self, value: u64) -> bool {
        self.vmx_permits_cr0(value)
    }

    /// Whether CR4 may become `value`.
    pub(crate) fn permits_cr4(&self, value: Cr4) -> bool {
        self.guest.vmx.vmxon.is_none() || value.contains(Cr4::VMXE)
    }
}
