//! Registers in the guest-state area of a VMCS: a row for each field, with what an entry loads from
//! it and an exit saves there. Segments have a table of their own ([`arch::vmx::field::SEGMENTS`]).
//! [SDM3 "Loading Guest State"] [SDM3 "Saving Guest State"]

use super::vmcs::Vmcs;
use crate::Cpu;
use crate::system::branch_record;
use crate::width::RSP;
use arch::control::{Cr4, Efer, debug};
use arch::vmx::control::{EntryControls, ExitControls};
use arch::vmx::field::{Field, guest};

/// Bits of DR7 that an entry clears.
const DR7_CLEARED: u64 = 0xD000;

struct Row {
    field: Field,
    /// The controls without which an entry leaves the register as it is.
    loads_by: EntryControls,
    load: fn(&mut Cpu, u64),
    /// The controls without which an exit leaves the field as it is.
    saves_by: ExitControls,
    save: fn(&Cpu) -> u64,
}

const fn row(field: Field, load: fn(&mut Cpu, u64), save: fn(&Cpu) -> u64) -> Row {
    let (loads_by, saves_by) = (EntryControls::empty(), ExitControls::empty());
    Row { field, loads_by, load, saves_by, save }
}

impl Row {
    const fn under(self, loads_by: EntryControls, saves_by: ExitControls) -> Self {
        Self { loads_by, saves_by, ..self }
    }
}

const LOAD_DEBUG: EntryControls = EntryControls::LOAD_DEBUG_CONTROLS;
const SAVE_DEBUG: ExitControls = ExitControls::SAVE_DEBUG_CONTROLS;

/// In the order in which they are loaded; CR0 is loaded before them.
const ROWS: &[Row] = &[
    row(
        guest::CR4,
        |cpu, bits| cpu.control.set_cr4(Cr4::from_bits_retain(bits)),
        |cpu| cpu.control.cr4().bits(),
    ),
    row(guest::CR3, |cpu, root| cpu.control.cr3 = root, |cpu| cpu.control.cr3),
    row(
        guest::EFER,
        |cpu, bits| cpu.control.set_efer(Efer::from_bits_retain(bits)),
        |cpu| cpu.control.efer().bits(),
    )
    .under(EntryControls::LOAD_EFER, ExitControls::SAVE_EFER),
    row(
        guest::DR7,
        |cpu, bits| cpu.debug.load_dr7(bits & !DR7_CLEARED | debug::DR7_RESET),
        |cpu| cpu.debug.dr7(),
    )
    .under(LOAD_DEBUG, SAVE_DEBUG),
    row(guest::DEBUGCTL, branch_record::write_debug_control, |cpu| cpu.control.msr.debug_ctl)
        .under(LOAD_DEBUG, SAVE_DEBUG),
    row(guest::PAT, |cpu, types| cpu.control.msr.pat = types, |cpu| cpu.control.msr.pat)
        .under(EntryControls::LOAD_PAT, ExitControls::SAVE_PAT),
    row(
        guest::SYSENTER_CS,
        |cpu, bits| cpu.control.syscall.sysenter_cs = bits,
        |cpu| cpu.control.syscall.sysenter_cs,
    ),
    row(
        guest::SYSENTER_ESP,
        |cpu, sp| cpu.control.syscall.sysenter_esp = sp,
        |cpu| cpu.control.syscall.sysenter_esp,
    ),
    row(
        guest::SYSENTER_EIP,
        |cpu, ip| cpu.control.syscall.sysenter_eip = ip,
        |cpu| cpu.control.syscall.sysenter_eip,
    ),
    row(
        guest::UINV,
        |cpu, vector| cpu.control.uintr.set_notification_vector(vector as u8),
        |cpu| cpu.control.uintr.notification_vector().into(),
    )
    .under(EntryControls::LOAD_UINV, ExitControls::empty()),
    row(guest::GDTR_BASE, |cpu, at| cpu.control.gdtr.base = at, |cpu| cpu.control.gdtr.base),
    row(
        guest::GDTR_LIMIT,
        |cpu, limit| cpu.control.gdtr.limit = limit as u16,
        |cpu| cpu.control.gdtr.limit.into(),
    ),
    row(guest::IDTR_BASE, |cpu, at| cpu.control.idtr.base = at, |cpu| cpu.control.idtr.base),
    row(
        guest::IDTR_LIMIT,
        |cpu, limit| cpu.control.idtr.limit = limit as u16,
        |cpu| cpu.control.idtr.limit.into(),
    ),
    row(guest::RSP, |cpu, sp| cpu.registers.gpr[RSP] = sp, |cpu| cpu.registers.gpr[RSP]),
    row(guest::RIP, |cpu, ip| cpu.registers.ip = ip, |cpu| cpu.registers.ip),
];

/// What an entry loads under these controls.
pub(super) fn load(cpu: &mut Cpu, vmcs: &Vmcs<Vec<u8>>, controls: EntryControls) {
    for row in ROWS.iter().filter(|row| controls.contains(row.loads_by)) {
        (row.load)(cpu, vmcs.get(row.field));
    }
}

/// What an exit saves under these controls.
pub(super) fn save(cpu: &Cpu, vmcs: &mut Vmcs<&mut [u8]>, controls: ExitControls) {
    for row in ROWS.iter().filter(|row| controls.contains(row.saves_by)) {
        vmcs.set(row.field, (row.save)(cpu));
    }
}
