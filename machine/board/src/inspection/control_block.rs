//! The VMCB and the VMCS.

use super::sheet::{Row, Sheet, parts, parts_of};
use super::{Absent, View, is_amd};
use arch::address::SystemPhysical;
use arch::svm::ExitCode;
use arch::svm::listing::{Listed, control_area, save_area};
use arch::svm::vmcb::{self, control as vmcb_control, save};
use arch::vmx::apicv::GuestInterruptStatus;
use arch::vmx::event::{Interruptibility, InterruptionInfo};
use arch::vmx::exit::ExitReasonField;
use arch::vmx::field::{Field, Row as FieldRow, TABLE, Width, control, exit, guest};
use arch::vmx::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls, TertiaryControls,
};
use cpu::Cpu;
use cpu::vmx::{VMCS_SIZE, Vmcs};

impl View<'_> {
    /// As memory has it: while its guest runs, the processor holds newer values of what it loaded.
    pub(super) fn vmcb(&self, cpu: &Cpu, at: Option<SystemPhysical>) -> Result<Vec<Sheet>, Absent> {
        let name = "VMCB";
        if !is_amd(cpu) {
            return Err(Absent::Vendor { name, instead: "a VMCS is Intel's, `vmcs`" });
        }
        let running = cpu.guest.running.svm().map(|guest| guest.vmcb);
        let at = at.or(running).ok_or(Absent::Guest { cpu: cpu.index, name })?;
        let bytes = self.bytes(name, at, vmcb::SIZE)?;
        let title = match running == Some(at) {
            true => "VMCB in memory, whose guest runs",
            false => "VMCB",
        };
        let sheet = |title: &str, section, fields: &[Listed]| {
            let mut sheet = Sheet::new(title, section).of(cpu.index).at(at);
            sheet.rows.extend(fields.iter().map(|field| vmcb_row(field, bytes)));
            sheet
        };
        Ok(vec![
            sheet(title, vmcb_control::SECTION, control_area()),
            sheet("VMCB, state save area", save::SECTION, save_area()),
        ])
    }

    pub(super) fn vmcs(&self, cpu: &Cpu, at: Option<SystemPhysical>) -> Result<Sheet, Absent> {
        let name = "VMCS";
        let Some(capabilities) = &cpu.guest.vmx.capabilities else {
            return Err(Absent::Vendor { name, instead: "a VMCB is AMD's, `vmcb`" });
        };
        let current = current_vmcs(cpu);
        let at = at.or(current).ok_or(Absent::Guest { cpu: cpu.index, name })?;
        let vmcs = self.read_vmcs(at)?;
        let launched = if vmcs.is_launched() { "launched" } else { "clear" };
        let is_current = if current == Some(at) { ", current" } else { "" };
        let title = format!("VMCS, revision {:#x}, {launched}{is_current}", vmcs.header());
        let mut sheet = Sheet::new(&title, "SDM3 \"Field Encoding in VMCS\"").of(cpu.index).at(at);
        let fields = TABLE.iter().filter(|row| capabilities.satisfies(row.requirement));
        sheet.rows.extend(fields.map(|row| vmcs_row(row, vmcs.get(row.field))));
        Ok(sheet)
    }

    pub(super) fn read_vmcs(&self, at: SystemPhysical) -> Result<Vmcs<&[u8]>, Absent> {
        let bytes = self.bytes("VMCS", at, VMCS_SIZE)?;
        Vmcs::new(bytes).ok_or(Absent::Place { name: "VMCS", at, size: VMCS_SIZE })
    }
}

/// That of the guest that runs, or the one that VMPTRLD made current.
pub(super) fn current_vmcs(cpu: &Cpu) -> Option<SystemPhysical> {
    let running = cpu.guest.running.vmx().map(|guest| guest.vmcs);
    running.or(cpu.guest.vmx.vmcs)
}

fn vmcb_row(field: &Listed, bytes: &[u8]) -> Row {
    let mut raw = [0; 16];
    let own = bytes.get(field.bytes.clone()).unwrap_or_default();
    let is_number = own.len() <= 8;
    if is_number {
        raw[..own.len()].copy_from_slice(own);
    }
    let value = u128::from_le_bytes(raw);
    let meaning = if usize::from(vmcb_control::EXITCODE.offset()) == field.bytes.start {
        format!("{:?}", ExitCode::from_bits(value as u64))
    } else if own.iter().all(|byte| *byte == 0) {
        String::new()
    } else {
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = field.describe(bytes, &mut text);
        parts_of(&text)
    };
    Row {
        place: format!("{:03X}h", field.bytes.start),
        name: field.name.into(),
        value: is_number.then_some(value),
        digits: own.len() * 2,
        meaning,
        section: field.section,
    }
}

fn vmcs_row(row: &FieldRow, value: u64) -> Row {
    let digits = match row.field.width() {
        Width::Bits16 => 4,
        Width::Bits32 => 8,
        Width::Bits64 | Width::Natural => 16,
    };
    Row {
        place: format!("{:04X}H", row.field.encoding()),
        name: row.name.into(),
        value: Some(value.into()),
        digits,
        meaning: vmcs_meaning(row.field, value),
        section: row.field.section(),
    }
}

fn vmcs_meaning(field: Field, value: u64) -> String {
    let low = value as u32;
    if value == 0 && field != exit::REASON {
        // No event, no control: zero has no parts, though its first kind has a name.
        return String::new();
    }
    match field {
        control::PIN => parts(&PinControls::from_bits_retain(low)),
        control::PRIMARY => parts(&PrimaryControls::from_bits_retain(low)),
        control::SECONDARY => parts(&SecondaryControls::from_bits_retain(low)),
        control::TERTIARY => parts(&TertiaryControls::from_bits_retain(value)),
        control::EXIT => parts(&ExitControls::from_bits_retain(low)),
        control::ENTRY => parts(&EntryControls::from_bits_retain(low)),
        control::ENTRY_INTERRUPTION_INFO | exit::INTERRUPTION_INFO | exit::IDT_VECTORING_INFO => {
            parts(&InterruptionInfo::from_bits(low))
        }
        exit::REASON => parts(&ExitReasonField::from_bits(low)),
        guest::INTERRUPT_STATUS => parts(&GuestInterruptStatus::from_bits(value as u16)),
        guest::INTERRUPTIBILITY => parts(&Interruptibility::from_bits(low)),
        _ => String::new(),
    }
}
