//! Where a hypervisor may look: one function per intercept, called by the instruction after its
//! privilege checks. [APM2 "Instruction Intercepts"]

use crate::memory::Access;
use crate::op::Op;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;

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

macro_rules! intercepts {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        impl Cpu {
            $(
                #[inline]
                pub(crate) fn $name(&mut self $(, $argument: $type)*) -> Result<(), Stop> {
                    $(let _ = &$argument;)*
                    Ok(())
                }
            )*
        }
    };
}

intercepts! {
    intercept_pause(bus: &mut Bus<'_>, op: &Op);
    intercept_pushf();
    intercept_popf();
    intercept_iret();
    intercept_int_n(bus: &mut Bus<'_>, op: &Op);
    intercept_icebp(bus: &mut Bus<'_>, op: &Op);
    intercept_table(bus: &mut Bus<'_>, op: &Op, table: Table, write: bool);
    intercept_io(bus: &mut Bus<'_>, op: &Op, port: u16, size: u8, io: Io);
    intercept_cr(bus: &mut Bus<'_>, op: &Op, number: u8, write: bool);
    intercept_cr0_selective(bus: &mut Bus<'_>, op: &Op, value: u64);
    intercept_read_cr0(bus: &mut Bus<'_>, op: &Op);
    intercept_clts(bus: &mut Bus<'_>, op: &Op);
    intercept_dr(bus: &mut Bus<'_>, op: &Op, number: u8, write: bool);
    intercept_cpuid(bus: &mut Bus<'_>, op: &Op);
    intercept_rdtsc(bus: &mut Bus<'_>, op: &Op);
    intercept_rdtscp(bus: &mut Bus<'_>, op: &Op);
    intercept_rdpmc(bus: &mut Bus<'_>, op: &Op);
    intercept_msr(bus: &mut Bus<'_>, op: &Op, number: u32, write: bool);
    intercept_hlt(bus: &mut Bus<'_>, op: &Op);
    intercept_monitor(bus: &mut Bus<'_>, op: &Op);
    intercept_mwait(bus: &mut Bus<'_>, op: &Op);
    intercept_invlpg(bus: &mut Bus<'_>, op: &Op, linear: u64);
    intercept_invpcid(bus: &mut Bus<'_>, op: &Op);
    intercept_wbinvd(bus: &mut Bus<'_>, op: &Op);
    intercept_invd(bus: &mut Bus<'_>, op: &Op);
    intercept_exception(bus: &mut Bus<'_>, vector: u8, error: Option<u32>);
    intercept_task_switch(selector: u16, by_iret: bool, by_jump: bool, error: Option<u32>);
}

impl Cpu {
    /// A guest's physical address to the machine's; the same where no hypervisor's paging is on.
    #[inline]
    pub(crate) fn guest_to_system(
        &mut self,
        _: &mut Bus<'_>,
        address: SystemPhysical,
        _: Access,
        _is_table_walk: bool,
    ) -> Result<SystemPhysical, Stop> {
        Ok(address)
    }

    /// Whether something other than RAM answers at an address of RAM: the local APIC's page.
    pub(crate) fn overlays_ram(&self, address: SystemPhysical) -> bool {
        self.apic.is_enabled()
            && !self.apic.is_x2apic()
            && self.apic.base() & 0x000F_FFFF_FFFF_F000 == address.0 & !0xFFF
    }

    /// VM_CR.SVMDIS
    pub(crate) fn svm_is_disabled(&self) -> bool {
        false
    }

    /// The time-stamp counter as the running software sees it.
    pub(crate) fn guest_tsc(&self) -> u64 {
        self.tsc()
    }
}
