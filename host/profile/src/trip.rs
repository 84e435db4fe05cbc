//! Exits of kinds seen before: which rows they count in, found without asking what they are.
//!
//! What an exit is about depends on a few bits of what was recorded with it, and which bits, on its
//! reason. Those bits, masked by a table, are compared with the ones of earlier exits.

use crate::key::InterruptCommand;
use crate::pairing::{APIC_PAGE, ICR_OFFSET, X2APIC_ICR};
use trace::exit_reason::{svm, vmx};
use trace::kvm::{Access, Departure, Exit};

/// Positions of the rows of a thread, in one word: what is looked up for each exit should come in a
/// register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TripCells(u64);

impl TripCells {
    const EXIT: u32 = u32::MAX >> 1;

    /// The row of the exit, that of its access, and whether the access is a memory-mapped read,
    /// which lasts from the exit to the access.
    pub fn new(exit: u32, access: Option<u32>, is_read: bool) -> Self {
        // One more, so that zero stands for none: there are fewer rows than events in a recording.
        let access = access.map_or(0, |access| access.wrapping_add(1));
        Self(u64::from(access) << 32 | u64::from(is_read) << 31 | u64::from(exit & Self::EXIT))
    }

    #[inline(always)]
    pub const fn exit(self) -> usize {
        (self.0 as u32 & Self::EXIT) as usize
    }

    #[inline(always)]
    pub const fn access(self) -> Option<usize> {
        ((self.0 >> 32) as usize).checked_sub(1)
    }

    #[inline(always)]
    pub const fn is_read(self) -> bool {
        self.0 as u32 > Self::EXIT
    }
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

/// Number of the VMX architecture in `kvm_exit`.
const ISA_VMX: u32 = 1;

/// Masks by the low byte of the reason. Reasons that share it share masks, which is harmless: the
/// reason itself is compared too.
type MaskTable = [Masks; 256];

const fn slot(reason: u32) -> usize {
    reason as u8 as usize
}

/// [APM2 "SVM Intercept Exit Codes"]
static SVM_MASKS: MaskTable = {
    let mut masks = [NOTHING; 256];
    masks[slot(svm::NESTED_PAGE_FAULT)] =
        Masks { info1: 2, info2: 0x1fff, has_address: true, ..NOTHING };
    masks[slot(svm::IO)] = Masks { info1: 0xffff_0001, ..NOTHING };
    masks[slot(svm::AVIC_INCOMPLETE_IPI)] = Masks { info2: 0xffff_ffff << 32, ..NOTHING };
    masks[slot(svm::AVIC_UNACCELERATED_ACCESS)] = Masks { info1: 1 << 32 | 0xff0, ..NOTHING };
    masks
};

/// [SDM3 "Basic VM-Exit Information"]
static VMX_MASKS: MaskTable = {
    let mut masks = [NOTHING; 256];
    masks[slot(vmx::EXTERNAL_INTERRUPT)] = Masks { interruption: 1 << 31 | 0xff, ..NOTHING };
    masks[slot(vmx::IO_INSTRUCTION)] = Masks { info1: 0xffff_0008, ..NOTHING };
    masks[slot(vmx::APIC_WRITE)] = Masks { info1: 0xff0, ..NOTHING };
    masks[slot(vmx::APIC_ACCESS)] = Masks { info1: 0xfff0, ..NOTHING };
    masks[slot(vmx::EOI_INDUCED)] = Masks { info1: 0xff, ..NOTHING };
    masks
};

/// All that the rows depend on, but for the architecture.
#[derive(Clone, Copy, Debug)]
struct Signature([u64; 4]);

impl Signature {
    #[inline(always)]
    fn new(departure: &Departure, masks: &MaskTable) -> Self {
        let Exit { reason, info1, info2, interruption, .. } = departure.exit;
        let masks = &masks[slot(reason)];
        let info2 = if masks.has_address { apic_register(info2) << 2 } else { info2 & masks.info2 };
        let Access { kind, direction, address, value, .. } = departure.access;
        let is_command =
            (address == X2APIC_ICR as u64) | (address & !0xf == APIC_PAGE | ICR_OFFSET as u64);
        let command = if is_command { value & InterruptCommand::ICR_BITS as u64 } else { 0 };
        Self([
            u64::from(reason) << 32 | u64::from(interruption & masks.interruption),
            // No reason needs bits of both in the same place.
            info1 & masks.info1 | info2,
            address,
            command | (kind as u64) << 28 | u64::from(direction) << 32,
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

/// The register of the local APIC at an address; the offset after the last stands for every address
/// elsewhere.
#[inline(always)]
const fn apic_register(address: u64) -> u64 {
    if address & !0xfff == APIC_PAGE { address & 0xfff } else { 0x1000 }
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
const FREE: Known = Known { signature: Signature([u64::MAX; 4]), cells: TripCells(0) };

/// The kinds of exits of one thread.
#[derive(Clone, Debug)]
pub struct KnownTrips {
    /// None until the first is learnt.
    places: Option<Box<[Known; PLACES]>>,
    masks: &'static MaskTable,
    /// The architecture of the first exit that was learnt; exits of others are not known.
    isa: u32,
    least_isa: u32,
}

impl Default for KnownTrips {
    fn default() -> Self {
        Self { places: None, masks: &SVM_MASKS, isa: u32::MAX, least_isa: u32::MAX }
    }
}

impl KnownTrips {
    #[inline(always)]
    pub fn find(&self, departure: &Departure) -> Option<TripCells> {
        let places = self.places.as_ref().filter(|_| departure.exit.isa == self.isa)?;
        let signature = Signature::new(departure, self.masks);
        let place = usize::from(signature.place());
        let first = &places[place];
        if first.signature.is(&signature) {
            return Some(first.cells);
        }
        let mut others = places[place + 1..place + PROBES].iter();
        others.find(|known| known.signature.is(&signature)).map(|known| known.cells)
    }

    /// The smallest ISA number of an exit that was learnt.
    pub const fn least_isa(&self) -> u32 {
        self.least_isa
    }

    pub fn insert(&mut self, departure: &Departure, cells: TripCells) {
        let isa = departure.exit.isa;
        self.least_isa = self.least_isa.min(isa);
        let places = self.places.get_or_insert_with(|| {
            self.isa = isa;
            self.masks = if isa == ISA_VMX { &VMX_MASKS } else { &SVM_MASKS };
            Box::new([FREE; PLACES])
        });
        if isa != self.isa {
            return;
        }
        let signature = Signature::new(departure, self.masks);
        let place = usize::from(signature.place());
        let probed = &mut places[place..place + PROBES];
        let free = probed.iter().position(|known| known.signature.is(&FREE.signature));
        probed[free.unwrap_or(0)] = Known { signature, cells };
    }
}
