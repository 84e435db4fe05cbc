//! Exits of kinds seen before: which rows they count in, found without asking what they are.
//!
//! What an exit is about depends on a few bits of what was recorded with it, and which bits, on its
//! reason. Those bits, masked by a table, are compared with the ones of earlier exits.

use crate::key::InterruptCommand;
use crate::pairing::{APIC_PAGE, ICR_OFFSET, X2APIC_ICR};
use trace::exit_reason::{svm, vmx};
use trace::kvm::{Access, Departure, Exit};

/// Positions of the rows of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TripCells {
    pub exit: u32,
    /// [`KnownTrips::NO_CELL`] if there is none.
    pub access: u32,
    /// Not zero for a memory-mapped read, which lasts from the exit to the access. A word, because
    /// what is copied without a gap is copied in one piece.
    pub is_read: u32,
}

/// Bits that decide what an exit is about. Two exits of one reason that agree in them are about
/// the same; a mask may hold more than is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Masks {
    info1: u64,
    info2: u64,
    interruption: u32,
    /// `info2` is an address of which only the page of the local APIC matters.
    has_address: bool,
}

const NOTHING: Masks = Masks { info1: 0, info2: 0, interruption: 0, has_address: false };

/// Slots of [`MASKS`]: SVM's reasons below 80h and from 400h, then VMX's.
const SLOTS: usize = 512;
const SVM_HIGH: usize = 0x80;
const VMX: usize = 0x100;
/// Number of the VMX architecture in `kvm_exit`.
const ISA_VMX: u32 = 1;

/// [APM2 "SVM Intercept Exit Codes"] [SDM3 "Basic VM-Exit Information"]
const MASKS: [Masks; SLOTS] = {
    let mut masks = [NOTHING; SLOTS];
    masks[slot(2, svm::NESTED_PAGE_FAULT)] =
        Masks { info1: 2, info2: 0x1fff, has_address: true, ..NOTHING };
    masks[slot(2, svm::IO)] = Masks { info1: 0xffff_0001, ..NOTHING };
    masks[slot(2, svm::AVIC_INCOMPLETE_IPI)] = Masks { info2: 0xffff_ffff << 32, ..NOTHING };
    masks[slot(2, svm::AVIC_UNACCELERATED_ACCESS)] = Masks { info1: 1 << 32 | 0xff0, ..NOTHING };
    masks[slot(ISA_VMX, vmx::EXTERNAL_INTERRUPT)] =
        Masks { interruption: 1 << 31 | 0xff, ..NOTHING };
    masks[slot(ISA_VMX, vmx::IO_INSTRUCTION)] = Masks { info1: 0xffff_0008, ..NOTHING };
    masks[slot(ISA_VMX, vmx::APIC_WRITE)] = Masks { info1: 0xff0, ..NOTHING };
    masks[slot(ISA_VMX, vmx::APIC_ACCESS)] = Masks { info1: 0xfff0, ..NOTHING };
    masks[slot(ISA_VMX, vmx::EOI_INDUCED)] = Masks { info1: 0xff, ..NOTHING };
    masks
};

/// Reasons that share a slot share masks, which is harmless: the reason itself is compared too.
#[inline(always)]
const fn slot(isa: u32, reason: u32) -> usize {
    let reason = reason as usize;
    let svm = reason & 0x7f | if reason & 0x400 != 0 { SVM_HIGH } else { 0 };
    if isa == ISA_VMX { VMX | reason & 0xff } else { svm }
}

/// All that the rows depend on.
#[derive(Clone, Copy, Debug)]
struct Signature([u64; 4]);

impl Signature {
    #[inline(always)]
    fn new(departure: &Departure) -> Self {
        let Exit { isa, reason, info1, info2, interruption } = departure.exit;
        let masks = &MASKS[slot(isa, reason)];
        // The offset after the last stands for every address elsewhere.
        let register = if info2 & !0xfff == APIC_PAGE { info2 & 0xfff } else { 0x1000 };
        // No reason needs bits of both in the same place.
        let info2 = if masks.has_address { register << 2 } else { info2 & masks.info2 };
        let Access { kind, direction, address, value, .. } = departure.access;
        let is_command =
            (address == X2APIC_ICR as u64) | (address & !0xf == APIC_PAGE | ICR_OFFSET as u64);
        let value = if is_command { value & InterruptCommand::ICR_BITS as u64 } else { 0 };
        // Numbers beyond the known ones are all alike.
        let kinds = (kind as u64) << 4 | u64::from(isa.min(3)) << 2 | u64::from(direction.min(3));
        Self([
            u64::from(reason) << 32 | u64::from(interruption & masks.interruption),
            info1 & masks.info1 | info2,
            address,
            value | kinds << 32,
        ])
    }

    /// Compared without leaving early, which would be a branch per word.
    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        (a ^ e) | (b ^ f) | (c ^ g) | (d ^ h) == 0
    }

    #[inline(always)]
    fn place(&self) -> u8 {
        let [a, b, c, d] = self.0;
        let mixed = a ^ b.rotate_left(17) ^ c.rotate_left(29) ^ d.rotate_left(43);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }
}

/// Signatures are kept in one of 256 places, or the few that follow.
const PROBES: usize = 4;
const PLACES: usize = 256 + PROBES;

#[derive(Clone, Copy, Debug)]
struct Known {
    signature: Signature,
    cells: TripCells,
}

/// No departure has this signature.
const FREE: Known = Known {
    signature: Signature([u64::MAX; 4]),
    cells: TripCells { exit: 0, access: KnownTrips::NO_CELL, is_read: 0 },
};

/// The kinds of exits of one thread.
#[derive(Clone, Debug)]
pub struct KnownTrips {
    /// None until the first is learnt.
    places: Option<Box<[Known; PLACES]>>,
    isa: u32,
}

impl Default for KnownTrips {
    fn default() -> Self {
        Self { places: None, isa: u32::MAX }
    }
}

impl KnownTrips {
    pub const NO_CELL: u32 = u32::MAX;

    #[inline(always)]
    pub fn find(&self, departure: &Departure) -> Option<&TripCells> {
        let places = self.places.as_ref()?;
        let signature = Signature::new(departure);
        let place = usize::from(signature.place());
        let first = &places[place];
        if first.signature.is(&signature) {
            return Some(&first.cells);
        }
        let mut others = places[place + 1..place + PROBES].iter();
        others.find(|known| known.signature.is(&signature)).map(|known| &known.cells)
    }

    /// The smallest ISA number of an exit that was learnt.
    pub const fn isa(&self) -> u32 {
        self.isa
    }

    pub fn insert(&mut self, departure: &Departure, cells: TripCells) {
        self.isa = self.isa.min(departure.exit.isa);
        let places = self.places.get_or_insert_with(|| Box::new([FREE; PLACES]));
        let signature = Signature::new(departure);
        let place = usize::from(signature.place());
        let probed = &mut places[place..place + PROBES];
        let free = probed.iter().position(|known| known.signature.is(&FREE.signature));
        probed[free.unwrap_or(0)] = Known { signature, cells };
    }
}
