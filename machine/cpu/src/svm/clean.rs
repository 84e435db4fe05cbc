//! The strict mode of VMCB state caching: fields whose clean bit is set come from what the
//! processor saw last, so that software which forgets to clear a bit is found out.
//! [APM2 "VMCB State Caching"]
//!
//! A processor may cache or not; by default this one does not.

use super::EnableCleanBit;
use arch::address::SystemPhysical;
use arch::svm::clean::covered;
use arch::svm::vmcb::{CleanBits, SIZE, Vmcb, control};
use serde::{Deserialize, Serialize};

/// The byte of AVIC's two enable bits, and their place in it.
const AVIC_ENABLE: (usize, u8) = (0x063, 0xC0);

/// The VMCB that the processor saw last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmcbCache {
    held: Option<(SystemPhysical, Vec<u8>)>,
}

impl VmcbCache {
    /// The VMCB at `address` as VMRUN reads it: clean fields from the cache, all others from
    /// `bytes`, what memory holds.
    pub fn effective(
        &self,
        address: SystemPhysical,
        mut bytes: Vec<u8>,
        enable: EnableCleanBit,
    ) -> Vec<u8> {
        let Some((_, held)) = self.held.as_ref().filter(|(cached, _)| *cached == address) else {
            return bytes;
        };
        let Some(clean) = Vmcb::new(&bytes).map(|vmcb| vmcb.get(control::CLEAN_BITS)) else {
            return bytes;
        };
        let (at, mask) = AVIC_ENABLE;
        let enables = match enable {
            EnableCleanBit::InterruptControl => None,
            EnableCleanBit::Avic if clean.contains(CleanBits::AVIC) => Some(held[at] & mask),
            EnableCleanBit::Avic => Some(bytes[at] & mask),
        };
        for field in covered().filter(|field| clean.contains(field.bit)) {
            bytes[field.bytes.clone()].copy_from_slice(&held[field.bytes.clone()]);
        }
        if let Some(enables) = enables {
            bytes[at] = bytes[at] & !mask | enables;
        }
        bytes
    }

    /// Remembers what #VMEXIT left in memory.
    pub fn remember(&mut self, address: SystemPhysical, bytes: &[u8]) {
        if bytes.len() == SIZE {
            self.held = Some((address, bytes.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::svm::vmcb::{InterruptControl, save};

    const HERE: SystemPhysical = SystemPhysical(0x1000);

    fn vmcb(clean: CleanBits, asid: u32, cr3: u64) -> Vec<u8> {
        let mut vmcb = Vmcb::new(vec![0; SIZE]).expect("4 KiB");
        vmcb.set(control::CLEAN_BITS, clean);
        vmcb.set(control::GUEST_ASID, asid);
        vmcb.set(save::CR3, cr3);
        vmcb.into_inner()
    }

    #[test]
    fn clean_fields_come_from_the_cache_and_others_from_memory() {
        let mut cache = VmcbCache::default();
        cache.remember(HERE, &vmcb(CleanBits::empty(), 1, 0x1000));
        let rows = [
            (HERE, CleanBits::empty(), 2, 0x2000),
            (HERE, CleanBits::ASID, 1, 0x2000),
            (HERE, CleanBits::CONTROL_REGISTERS, 2, 0x1000),
            (HERE, CleanBits::all(), 1, 0x1000),
            (SystemPhysical(0x9000), CleanBits::all(), 2, 0x2000),
        ];
        for (address, clean, asid, cr3) in rows {
            let seen = cache.effective(address, vmcb(clean, 2, 0x2000), EnableCleanBit::default());
            let seen = Vmcb::new(seen).expect("4 KiB");
            assert_eq!((seen.get(control::GUEST_ASID), seen.get(save::CR3)), (asid, cr3));
        }
    }

    #[test]
    fn the_enable_bits_of_avic_go_with_the_clean_bit_that_the_switch_names() {
        let with = |is_enabled, clean| {
            let mut vmcb = Vmcb::new(vmcb(clean, 1, 0x1000)).expect("4 KiB");
            let interrupts = InterruptControl::new().with_avic_enabled(is_enabled);
            vmcb.set(control::INTERRUPT_CONTROL, interrupts.with_x2avic_enabled(is_enabled));
            vmcb.into_inner()
        };
        let mut cache = VmcbCache::default();
        cache.remember(HERE, &with(false, CleanBits::empty()));
        let rows = [
            (EnableCleanBit::InterruptControl, CleanBits::INTERRUPT_CONTROL, false),
            (EnableCleanBit::InterruptControl, CleanBits::AVIC, true),
            (EnableCleanBit::Avic, CleanBits::INTERRUPT_CONTROL, true),
            (EnableCleanBit::Avic, CleanBits::AVIC, false),
            (EnableCleanBit::Avic, CleanBits::empty(), true),
        ];
        for (enable, clean, is_enabled) in rows {
            let seen = Vmcb::new(cache.effective(HERE, with(true, clean), enable)).expect("4 KiB");
            let interrupts = seen.get(control::INTERRUPT_CONTROL);
            let enables = (interrupts.avic_enabled(), interrupts.x2avic_enabled());
            assert_eq!(enables, (is_enabled, is_enabled), "{enable:?} {clean:?}");
        }
    }

    #[test]
    fn what_no_bit_covers_is_always_read() {
        let is_covered = |at: usize| covered().any(|field| field.bytes.contains(&at));
        for field in [0x05C, 0x068, 0x0A8, 0x0B8, 0x0C0, 0x0C8, 0x578, 0x5D8, 0x5F8] {
            assert!(!is_covered(field), "{field:#x}");
        }
    }
}
