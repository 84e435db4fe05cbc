//! Posted-interrupt descriptors, and guests' APIC pages.

use super::interrupt_controller::{add_virtual_page, vectors};
use super::sheet::{Sheet, parts};
use super::{Absent, View, is_amd};
use arch::address::SystemPhysical;
use arch::vmx::PinControls;
use arch::vmx::apicv::{NotificationControl, POSTED_CONTROL_OFFSET, POSTED_DESCRIPTOR_SIZE};
use arch::vmx::field::control;
use cpu::Cpu;

const PAGE: usize = 0x1000;
const DESCRIPTOR: &str = "SDM3 \"Posted-Interrupt Processing\"";

impl View<'_> {
    pub(super) fn posted_descriptor(
        &self,
        cpu: &Cpu,
        at: Option<SystemPhysical>,
    ) -> Result<Sheet, Absent> {
        let (at, words) = self.descriptor("posted-interrupt descriptor", cpu, at)?;
        let mut sheet = Sheet::new("posted-interrupt descriptor", DESCRIPTOR).of(cpu.index).at(at);
        add_requests(&mut sheet, &words);
        let control = words[POSTED_CONTROL_OFFSET as usize / 8];
        let meaning = parts(&NotificationControl::from_bits(control));
        sheet.add("319:256", "ON, SN, NV, NDST", control, 64, meaning);
        Ok(sheet)
    }

    pub(super) fn posted_requests(
        &self,
        cpu: &Cpu,
        at: Option<SystemPhysical>,
    ) -> Result<Sheet, Absent> {
        let (at, words) = self.descriptor("posted-interrupt descriptor", cpu, at)?;
        let mut sheet = Sheet::new("posted-interrupt requests", DESCRIPTOR).of(cpu.index).at(at);
        add_requests(&mut sheet, &words);
        Ok(sheet)
    }

    fn descriptor(
        &self,
        name: &'static str,
        cpu: &Cpu,
        at: Option<SystemPhysical>,
    ) -> Result<(SystemPhysical, [u64; 8]), Absent> {
        if at.is_none() && is_amd(cpu) {
            let instead = "they post into the guest's APIC page, which is `vapic`";
            return Err(Absent::Vendor { name, instead });
        }
        let at = match at {
            Some(at) => at,
            None => self.own_descriptor(cpu).ok_or(Absent::Guest { cpu: cpu.index, name })?,
        };
        let bytes = self.bytes(name, at, POSTED_DESCRIPTOR_SIZE as usize)?;
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok((at, words))
    }

    /// The one that the current VMCS names, whether its guest runs or not.
    fn own_descriptor(&self, cpu: &Cpu) -> Option<SystemPhysical> {
        let at = super::control_block::current_vmcs(cpu)?;
        let vmcs = self.read_vmcs(at).ok()?;
        let pin = PinControls::from_bits_retain(vmcs.get(control::PIN) as u32);
        let place = vmcs.get(control::POSTED_INTERRUPT_DESCRIPTOR);
        pin.contains(PinControls::POSTED_INTERRUPTS).then_some(SystemPhysical(place))
    }

    pub(super) fn virtual_apic(
        &self,
        cpu: &Cpu,
        at: Option<SystemPhysical>,
    ) -> Result<Sheet, Absent> {
        let name = "virtual APIC page";
        let own = running_page(cpu);
        let (at, is_x2apic) = match (at, own) {
            (Some(at), own) => (at, own.is_some_and(|own| own.1)),
            (None, Some(own)) => own,
            (None, None) => return Err(Absent::Guest { cpu: cpu.index, name }),
        };
        let (title, section) = match is_amd(cpu) {
            true => ("vAPIC backing page", "APM2 \"AVIC Backing Page\""),
            false => ("virtual-APIC page", "SDM3 \"Virtual APIC State\""),
        };
        let mut sheet = Sheet::new(title, section).of(cpu.index).at(at);
        add_virtual_page(&mut sheet, self.bytes(name, at, PAGE)?, is_x2apic);
        Ok(sheet)
    }
}

/// The 256 requests of a descriptor.
fn add_requests(sheet: &mut Sheet, words: &[u64; 8]) {
    let halves: Vec<u32> =
        words[..4].iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect();
    sheet.add("255:0", "PIR", 0u8, 0, vectors(&halves));
    if let Some(row) = sheet.rows.last_mut() {
        row.value = None;
    }
}

/// The APIC page of the guest that runs, and whether it reaches it by MSR.
fn running_page(cpu: &Cpu) -> Option<(SystemPhysical, bool)> {
    let avic = cpu.guest.running.svm().and_then(|guest| guest.avic.as_ref());
    let apicv = cpu.guest.running.vmx().and_then(|guest| guest.apicv.as_ref());
    let of_avic = avic.map(|avic| (avic.backing_page.0, avic.is_x2apic()));
    let apicv = apicv.filter(|apicv| apicv.controls.uses_tpr_shadow);
    of_avic.or(apicv.map(|apicv| (apicv.page.0, apicv.controls.virtualizes_x2apic)))
}
