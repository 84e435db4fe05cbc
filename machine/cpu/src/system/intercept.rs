//! Where a hypervisor may look: one function per intercept, called by the instruction after its
//! privilege checks. [APM2 "Instruction Intercepts"]
//!
//! Outside a guest each is one test of a pointer.

use super::event::{Event, Origin};
use crate::operation::Op;
use crate::stop::SoftwareSource;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::svm::ExitCode;
use arch::svm::intercept::{Vector3, Vector4, Vector5};

/// A descriptor-table register, as the table intercepts name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Idtr,
    Gdtr,
    Ldtr,
    Tr,
}

/// The direction and kind of a port access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    In,
    Out,
    InString,
    OutString,
}

/// Instructions whose exit tells nothing but its code.
macro_rules! plain {
    ($($name:ident: $check:ident $vector:ident::$bit:ident $code:ident $(, $info:expr)?;)*) => {
        impl Cpu {
            $(
                #[inline]
                pub(crate) fn $name(&mut self, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
                    if self.svm.guest.is_none() {
                        return Ok(());
                    }
                    self.$check(op, $vector::$bit, ExitCode::$code $(, $info)?)
                }
            )*
        }
    };
}

plain! {
    intercept_pushf: svm_intercept3 Vector3::PUSHF Pushf, [0, 0];
    intercept_popf: svm_intercept3 Vector3::POPF Popf, [0, 0];
    intercept_rsm: svm_intercept3 Vector3::RSM Rsm, [0, 0];
    intercept_iret: svm_intercept3 Vector3::IRET Iret, [0, 0];
    intercept_icebp: svm_intercept4 Vector4::ICEBP Icebp;
    intercept_cpuid: svm_intercept3 Vector3::CPUID Cpuid, [0, 0];
    intercept_rdtsc: svm_intercept3 Vector3::RDTSC Rdtsc, [0, 0];
    intercept_rdtscp: svm_intercept4 Vector4::RDTSCP Rdtscp;
    intercept_rdpmc: svm_intercept3 Vector3::RDPMC Rdpmc, [0, 0];
    intercept_hlt: svm_intercept3 Vector3::HLT Hlt, [0, 0];
    intercept_monitor: svm_intercept4 Vector4::MONITOR Monitor;
    intercept_invpcid: svm_intercept5 Vector5::INVPCID Invpcid;
    intercept_wbinvd: svm_intercept4 Vector4::WBINVD Wbinvd;
    intercept_xsetbv: svm_intercept4 Vector4::XSETBV Xsetbv;
    intercept_invd: svm_intercept3 Vector3::INVD Invd, [0, 0];
}

/// Intercepts with particulars of their own.
macro_rules! particular {
    ($($name:ident => $check:ident($($argument:ident: $type:ty),*);)*) => {
        impl Cpu {
            $(
                #[inline]
                pub(crate) fn $name(&mut self $(, $argument: $type)*) -> Result<(), Stop> {
                    if self.svm.guest.is_none() {
                        return Ok(());
                    }
                    self.$check($($argument),*)
                }
            )*
        }
    };
}

particular! {
    intercept_idle_hlt => svm_intercept_idle_hlt(bus: &mut Bus<'_>, op: &Op);
    intercept_pause => svm_intercept_pause(op: &Op);
    intercept_int_n => svm_intercept_int_n(op: &Op);
    intercept_table => svm_intercept_table(op: &Op, table: Table, write: bool);
    intercept_io => svm_intercept_io(bus: &mut Bus<'_>, op: &Op, port: u16, size: u8, io: Io);
    intercept_cr => svm_intercept_cr(op: &Op, number: u8, write: bool, is_move: bool);
    intercept_cr0_selective => svm_intercept_cr0_selective(op: &Op, value: u64, is_move: bool);
    intercept_dr => svm_intercept_dr(op: &Op, number: u8, write: bool);
    intercept_msr => svm_intercept_msr(bus: &mut Bus<'_>, op: &Op, number: u32, write: bool);
    intercept_mwait => svm_intercept_mwait(bus: &mut Bus<'_>, op: &Op);
    intercept_invlpg => svm_intercept_invlpg(op: &Op, linear: u64);
    intercept_task_switch => svm_intercept_task_switch(
        selector: u16, by_iret: bool, by_jump: bool, error: Option<u32>
    );
}

impl Cpu {
    /// An exception about to be delivered; `next_ip` only where a software interrupt raised it.
    #[inline]
    pub(crate) fn intercept_exception(
        &mut self,
        vector: u8,
        error: Option<u32>,
        next_ip: u64,
    ) -> Result<(), Stop> {
        if self.svm.guest.is_none() {
            return Ok(());
        }
        self.svm_intercept_exception(vector, error, next_ip)
    }

    /// INT3 and INTO are intercepted as the exceptions they raise, at the instruction.
    #[inline]
    pub(crate) fn intercept_software(&mut self, event: Event, this: u64) -> Result<(), Stop> {
        let raises = Origin::Software(SoftwareSource::Int) != event.origin;
        if self.svm.guest.is_none() || !raises {
            return Ok(());
        }
        let next = self.registers.ip;
        self.intercept_exception(event.vector, None, next).inspect_err(|_| self.registers.ip = this)
    }

    /// A control register has been written; a hypervisor may look after the instruction.
    #[inline]
    pub(crate) fn trap_cr_write(&mut self, number: u8, value: u64) {
        if self.svm.guest.is_some() {
            self.svm_trap_cr(number, value);
        }
    }

    #[inline]
    pub(crate) fn trap_efer_write(&mut self) {
        if self.svm.guest.is_some() {
            self.svm_trap_efer();
        }
    }

    /// A VM exit interrupted the delivery of a software interrupt that returns to `next`.
    pub(crate) fn report_next_ip(&mut self, next: u64) {
        if let Some(exit) = self.svm.guest.as_mut().and_then(|guest| guest.exit.as_mut()) {
            exit.next_rip = next;
        }
    }

    /// Leaves the guest for the reason recorded.
    pub(crate) fn leave_virtual_machine(&mut self, bus: &mut Bus<'_>) {
        self.leave_guest(bus);
    }

    /// Whether something other than RAM answers at an address of RAM: the local APIC's page.
    pub(crate) fn overlays_ram(&self, address: SystemPhysical) -> bool {
        self.apic.is_enabled()
            && !self.apic.is_x2apic()
            && self.apic.base() & 0x000F_FFFF_FFFF_F000 == address.0 & !0xFFF
    }
}
