//! Interrupt remapping entries, as the IOMMU's registers lead to them.

use super::sheet::{Sheet, parts};
use super::{Absent, View};
use arch::address::SystemPhysical;
use arch::amd_vi::device_table::ENTRY_SIZE as DEVICE_ENTRY;
use arch::amd_vi::register as amd_register;
use arch::amd_vi::register::DeviceTableBase;
use arch::amd_vi::remapping::{LEGACY_SIZE, WIDE_SIZE};
use arch::amd_vi::{
    Control, GuestEntry, InterruptControl, InterruptHalf, LegacyEntry, RemappedEntry as AmdRemapped,
};
use arch::apic::DestinationMode;
use arch::identity::RequesterId;
use arch::pci::FunctionAddress;
use arch::vt_d::register as intel_register;
use arch::vt_d::register::RemappingTableAddress;
use arch::vt_d::remapping::ENTRY_SIZE;
use arch::vt_d::{PostedEntry, RemappedEntry};
use iommu::Iommu;

/// More entries than these are not shown.
const MOST: usize = 4096;

impl View<'_> {
    pub(super) fn remapping(&self) -> Result<Sheet, Absent> {
        match self.state.wiring.iommu.as_ref().ok_or(Absent::Iommu)? {
            iommu @ Iommu::AmdVi(_) => Ok(self.amd_vi(iommu)),
            iommu @ Iommu::VtD(_) => Ok(self.vt_d(iommu)),
        }
    }

    fn quadword(&self, at: SystemPhysical) -> Option<u64> {
        self.memory.read_u64(at).ok()
    }

    fn wide(&self, at: SystemPhysical) -> Option<u128> {
        let high = self.quadword(at.offset(8))?;
        Some(u128::from(high) << 64 | u128::from(self.quadword(at)?))
    }

    /// Enabled entries of every function that has a table. The IOMMU may hold older ones.
    fn amd_vi(&self, iommu: &Iommu) -> Sheet {
        let control = Control::from_bits(iommu.read(amd_register::CONTROL, 8));
        let base = iommu.read(amd_register::DEVICE_TABLE_BASE, 8);
        let is_on = if control.is_enabled() { "on" } else { "off" };
        let title = format!("AMD-Vi interrupt remapping, {is_on}");
        let mut sheet = Sheet::new(&title, "IOMMU \"Interrupt Remapping Tables\"");
        let meaning = parts(&DeviceTableBase::from_bits(base));
        sheet.add("0000h", "Device Table Base Address Register", base, 64, meaning);
        let bits = control.into_bits();
        sheet.add("0018h", "IOMMU Control Register", bits, 64, parts(&control));
        if !control.is_enabled() {
            return sheet;
        }
        let base = DeviceTableBase::from_bits(base);
        for function in 0..base.bytes() / DEVICE_ENTRY {
            let at = base.base().offset(function * DEVICE_ENTRY + 16);
            let Some(half) = self.wide(at).map(InterruptHalf::from_bits) else { break };
            if half.is_valid() && half.control() == InterruptControl::Remap {
                let requester = RequesterId(function as u16);
                self.add_table(&mut sheet, requester, half, control.has_wide_remapping_entries());
            }
        }
        sheet
    }

    fn add_table(
        &self,
        sheet: &mut Sheet,
        requester: RequesterId,
        half: InterruptHalf,
        is_wide: bool,
    ) {
        let function = FunctionAddress::from_requester(requester);
        let entries = 1u64 << half.table_length().min(InterruptHalf::LONGEST);
        for index in 0..entries {
            if sheet.rows.len() >= MOST {
                return;
            }
            let (raw, bits) = if is_wide {
                (self.wide(half.table().offset(index * WIDE_SIZE)), 128)
            } else {
                let at = half.table().offset(index * LEGACY_SIZE);
                (self.memory.read_u32(at).ok().map(u128::from), 32)
            };
            // The first bit enables entries of every form.
            let Some(raw) = raw.filter(|raw| raw & 1 != 0) else { continue };
            let place = format!("{function} {index:03X}h");
            sheet.add(place, "IRTE", raw, bits, amd_meaning(raw, is_wide));
        }
    }

    /// Present entries of the only table.
    fn vt_d(&self, iommu: &Iommu) -> Sheet {
        let status = iommu.read(intel_register::GLOBAL_STATUS, 4);
        let status = arch::vt_d::GlobalCommand::from_bits_retain(status as u32);
        let bits = iommu.read(intel_register::REMAPPING_TABLE_ADDRESS, 8);
        let address = RemappingTableAddress::from_bits(bits);
        let is_on = status.contains(arch::vt_d::GlobalCommand::REMAPPING_ENABLE);
        let title = format!("VT-d interrupt remapping, {}", if is_on { "on" } else { "off" });
        let mut sheet = Sheet::new(&title, "VTD \"Interrupt Remapping\"");
        sheet.add("01Ch", "Global Status Register", status.bits(), 32, parts(&status));
        let meaning = format!("{} entries, {}", address.entries(), parts(&address));
        sheet.add("0B8h", "Interrupt Remapping Table Address Register", bits, 64, meaning);
        for index in (0..u64::from(address.entries())).take_while(|_| is_on) {
            if sheet.rows.len() >= MOST {
                break;
            }
            let Some(raw) = self.wide(address.table().offset(index * ENTRY_SIZE)) else { break };
            if RemappedEntry::from_bits(raw).is_present() {
                sheet.add(format!("{index:04X}h"), "IRTE", raw, 128, intel_meaning(raw));
            }
        }
        sheet
    }
}

fn destination(mode: DestinationMode, destination: u32) -> String {
    format!("{mode:?} {destination:#x}")
}

fn amd_meaning(raw: u128, is_wide: bool) -> String {
    if !is_wide {
        let entry = LegacyEntry::from_bits(raw as u32);
        let to = destination(entry.destination_mode(), entry.destination().into());
        return format!("vector {:#x}, {:?}, to {to}", entry.vector(), entry.kind());
    }
    let (entry, guest) = (AmdRemapped::from_bits(raw), GuestEntry::from_bits(raw));
    if !guest.is_guest() {
        let to = destination(entry.destination_mode(), entry.destination());
        return format!("vector {:#x}, {:?}, to {to}", entry.vector(), entry.kind());
    }
    let (page, tag, core) = (guest.backing_page(), guest.tag(), guest.destination());
    let runs = if guest.is_running() { "IsRun" } else { "not IsRun" };
    let logs = if guest.logs() { ", GALogIntr" } else { "" };
    let vector = guest.vector();
    format!("GuestMode: vector {vector:#x}, page {page}, GATag {tag:#x}, {runs}{logs}, core {core}")
}

fn intel_meaning(raw: u128) -> String {
    let (entry, posted) = (RemappedEntry::from_bits(raw), PostedEntry::from_bits(raw));
    let from =
        format!("SID {}", FunctionAddress::from_requester(RequesterId(entry.check().source())));
    if entry.is_posted() {
        let urgent = if posted.is_urgent() { ", URG" } else { "" };
        let (vector, descriptor) = (posted.vector(), posted.descriptor());
        return format!("posted: vector {vector:#x}, descriptor {descriptor}{urgent}, {from}");
    }
    let to = destination(entry.destination_mode(), entry.destination());
    let level = if entry.is_level() { ", level" } else { "" };
    format!("vector {:#x}, {:?}{level}, to {to}, {from}", entry.vector(), entry.delivery_mode())
}
