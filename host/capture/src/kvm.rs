//! A tracepoint's raw record to a [`KvmEvent`], by the field positions its format gives.

use crate::format::{EventFormat, Field};
use trace::kvm::{AccessKind, Exit, KvmEvent, MmioKind};

/// Where a field lies in a raw record; a field the kernel does not have reads as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    offset: u16,
    size: u8,
}

impl Place {
    #[inline]
    fn read(self, raw: &[u8]) -> u64 {
        let offset = usize::from(self.offset);
        match self.size {
            4 => load::<4>(raw, offset).map_or(0, |bytes| u32::from_le_bytes(bytes).into()),
            8 => load::<8>(raw, offset).map_or(0, u64::from_le_bytes),
            1 => raw.get(offset).copied().map_or(0, u64::from),
            2 => load::<2>(raw, offset).map_or(0, |bytes| u16::from_le_bytes(bytes).into()),
            _ => 0,
        }
    }

    #[inline]
    fn word(self, raw: &[u8]) -> u32 {
        self.read(raw) as u32
    }

    #[inline]
    fn flag(self, raw: &[u8]) -> bool {
        self.read(raw) != 0
    }
}

#[inline]
fn load<const N: usize>(raw: &[u8], offset: usize) -> Option<[u8; N]> {
    raw.get(offset..offset + N)?.try_into().ok()
}

/// The tracepoints that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Entry,
    Exit,
    Mmio,
    PortIo,
    Msr,
    Apic,
    Hypercall,
    HypervHypercall,
    Inhibit,
    IncompleteIpi,
    UnacceleratedAccess,
    GuestLog,
    Doorbell,
    KickSlowPath,
    InjectInterrupt,
    AcceptInterrupt,
    PostInterrupt,
    SendIpi,
    Msi,
    Line,
    EndOfInterrupt,
    ParavirtualEndOfInterrupt,
    PostedRoute,
    UserspaceExit,
    Wakeup,
    NestedExit,
}

/// Tracepoint, what it means, and the names of its fields in the order `decode` uses them.
const TRACEPOINTS: &[(&str, Kind, &[&str])] = &[
    ("kvm_entry", Kind::Entry, &["vcpu_id"]),
    ("kvm_exit", Kind::Exit, &["isa", "exit_reason", "info1", "info2", "intr_info"]),
    ("kvm_mmio", Kind::Mmio, &["type", "gpa", "val"]),
    ("kvm_pio", Kind::PortIo, &["rw", "port"]),
    ("kvm_msr", Kind::Msr, &["write", "ecx", "data"]),
    ("kvm_apic", Kind::Apic, &["rw", "reg", "val"]),
    ("kvm_hypercall", Kind::Hypercall, &["nr"]),
    ("kvm_hv_hypercall", Kind::HypervHypercall, &["code"]),
    ("kvm_apicv_inhibit_changed", Kind::Inhibit, &["set", "reason", "inhibits"]),
    ("kvm_avic_incomplete_ipi", Kind::IncompleteIpi, &["vcpu", "icrh", "icrl", "id", "index"]),
    (
        "kvm_avic_unaccelerated_access",
        Kind::UnacceleratedAccess,
        &["vcpu", "offset", "ft", "rw", "vec"],
    ),
    ("kvm_avic_ga_log", Kind::GuestLog, &["vmid", "vcpuid"]),
    ("kvm_avic_doorbell", Kind::Doorbell, &["vcpuid", "apicid"]),
    ("kvm_avic_kick_vcpu_slowpath", Kind::KickSlowPath, &["icrh", "icrl", "index"]),
    ("kvm_inj_virq", Kind::InjectInterrupt, &["vector", "soft", "reinjected"]),
    ("kvm_apic_accept_irq", Kind::AcceptInterrupt, &["apicid", "dm", "tm", "vec"]),
    ("kvm_apicv_accept_irq", Kind::PostInterrupt, &["apicid", "dm", "tm", "vec"]),
    ("kvm_apic_ipi", Kind::SendIpi, &["icr_low", "dest_id"]),
    ("kvm_msi_set_irq", Kind::Msi, &["address", "data"]),
    ("kvm_set_irq", Kind::Line, &["gsi", "level"]),
    ("kvm_eoi", Kind::EndOfInterrupt, &["apicid", "vector"]),
    ("kvm_pv_eoi", Kind::ParavirtualEndOfInterrupt, &["apicid", "vector"]),
    ("kvm_pi_irte_update", Kind::PostedRoute, &["host_irq", "vcpu_id", "gvec", "set"]),
    ("kvm_userspace_exit", Kind::UserspaceExit, &["reason", "errno"]),
    ("kvm_vcpu_wakeup", Kind::Wakeup, &["ns", "waited"]),
    ("kvm_nested_vmexit", Kind::NestedExit, &["exit_reason"]),
];

/// An event of which a recording has millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrequentKind {
    /// `kvm_entry`.
    Entry,
    /// `kvm_exit`.
    Exit,
    /// An access to an MSR or a register of the APIC.
    Access(AccessKind),
}

/// Where such an event has its fields, all of the sizes that every kernel gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequent {
    /// Which of them it is.
    pub what: FrequentKind,
    /// The entry's vCPU; the exit's ISA, reason, information and interruption; the access's
    /// direction, address and value.
    pub fields: [u16; 5],
    /// Bits of the eight bytes at an access's address that are its own.
    pub address_mask: u64,
    /// Length of a record.
    pub bytes: usize,
}

/// Decodes the raw records of one tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    kind: Kind,
    places: [Place; 5],
    /// Length of a record that holds all fields.
    bytes: usize,
}

impl Decoder {
    /// A decoder for a tracepoint by the recording's own description; `None` for one that says
    /// nothing about exits or interrupts.
    pub fn new(format: &EventFormat) -> Option<Self> {
        let &(_, kind, names) = TRACEPOINTS.iter().find(|row| row.0 == format.name)?;
        let mut places = [Place::default(); 5];
        for (place, name) in places.iter_mut().zip(names) {
            *place = format.field(name).map_or_else(Place::default, place_of);
        }
        Some(Self { kind, places, bytes: format.bytes() })
    }

    /// A decoder for a recording that lost its descriptions: the layout of Linux 5.10 and later,
    /// of the five events of `perf kvm stat`.
    pub fn assumed(name: &str) -> Option<Self> {
        let fields: &[(&str, usize, usize)] = match name {
            "kvm_entry" => &[("vcpu_id", 8, 4)],
            "kvm_exit" => &[
                ("exit_reason", 8, 4),
                ("isa", 24, 4),
                ("info1", 32, 8),
                ("info2", 40, 8),
                ("intr_info", 48, 4),
            ],
            "kvm_mmio" => &[("type", 8, 4), ("gpa", 16, 8), ("val", 24, 8)],
            "kvm_pio" => &[("rw", 8, 4), ("port", 12, 4)],
            "kvm_msr" => &[("write", 8, 4), ("ecx", 12, 4), ("data", 16, 8)],
            _ => return None,
        };
        let fields = fields
            .iter()
            .map(|&(name, offset, size)| Field {
                name: name.to_owned(),
                offset,
                size,
                is_signed: false,
            })
            .collect();
        Self::new(&EventFormat { name: name.to_owned(), fields, ..EventFormat::default() })
    }

    /// An event of which only the values of its fields are there, by their names; `None` for a
    /// tracepoint that says nothing about exits or interrupts, and where all fields are missing.
    pub fn decode_fields(event: &str, value: impl Fn(&str) -> Option<u64>) -> Option<KvmEvent> {
        const WORD: usize = size_of::<u64>();
        let &(_, kind, names) = TRACEPOINTS.iter().find(|row| row.0 == event)?;
        let mut decoder = Self { kind, places: [Place::default(); 5], bytes: 0 };
        let mut raw = [0; 5 * WORD];
        for (index, name) in names.iter().enumerate() {
            let Some(value) = value(name) else { continue };
            let offset = index * WORD;
            raw[offset..offset + WORD].copy_from_slice(&value.to_le_bytes());
            decoder.places[index] = Place { offset: offset as u16, size: WORD as u8 };
        }
        let has_some = decoder.places.iter().any(|place| place.size > 0);
        if has_some { decoder.decode(&raw) } else { None }
    }

    /// Offsets of the fields of the most frequent events, if they have the sizes that every
    /// kernel gives them.
    pub fn frequent(&self) -> Option<Frequent> {
        const HALF: u64 = 0xffff_ffff;
        let (what, sizes, address_mask): (_, &[u8], _) = match self.kind {
            Kind::Entry => (FrequentKind::Entry, &[4], 0),
            Kind::Exit => (FrequentKind::Exit, &[4, 4, 8, 8, 4], 0),
            Kind::Msr => (FrequentKind::Access(AccessKind::Msr), &[4, 4, 8], HALF),
            Kind::PortIo => (FrequentKind::Access(AccessKind::PortIo), &[4, 4], HALF),
            Kind::Mmio => (FrequentKind::Access(AccessKind::Mmio), &[4, 8, 8], u64::MAX),
            _ => return None,
        };
        let has_sizes = self.places.iter().zip(sizes).all(|(place, size)| place.size == *size);
        let fields = self.places.map(|place| place.offset);
        has_sizes.then_some(Frequent { what, fields, address_mask, bytes: self.bytes })
    }

    /// `None` where a field has a value that no kernel writes.
    #[inline]
    pub fn decode(&self, raw: &[u8]) -> Option<KvmEvent> {
        let [a, b, c, d, e] = self.places;
        Some(match self.kind {
            Kind::Entry => KvmEvent::Entry { vcpu: a.word(raw) },
            Kind::Exit => KvmEvent::Exit(Exit {
                isa: a.word(raw),
                reason: b.word(raw),
                info1: c.read(raw),
                info2: d.read(raw),
                interruption: e.word(raw),
            }),
            Kind::Mmio => KvmEvent::Mmio {
                kind: MmioKind::from_number(a.word(raw))?,
                address: b.read(raw),
                value: c.read(raw),
            },
            Kind::PortIo => KvmEvent::PortIo { is_write: a.flag(raw), port: b.word(raw) },
            Kind::Msr => {
                KvmEvent::Msr { is_write: a.flag(raw), index: b.word(raw), value: c.read(raw) }
            }
            _ => return self.decode_rare(raw),
        })
    }

    #[cold]
    fn decode_rare(&self, raw: &[u8]) -> Option<KvmEvent> {
        let [a, b, c, d, e] = self.places;
        let icr = |high: Place, low: Place| high.read(raw) << 32 | low.read(raw) & 0xffff_ffff;
        Some(match self.kind {
            Kind::Apic => {
                KvmEvent::Apic { is_write: a.flag(raw), register: b.word(raw), value: c.read(raw) }
            }
            Kind::Hypercall => KvmEvent::Hypercall { number: a.read(raw), is_hyperv: false },
            Kind::HypervHypercall => KvmEvent::Hypercall { number: a.read(raw), is_hyperv: true },
            Kind::Inhibit => {
                KvmEvent::Inhibit { is_set: a.flag(raw), reason: b.word(raw), mask: c.read(raw) }
            }
            Kind::IncompleteIpi => KvmEvent::IncompleteIpi {
                vcpu: a.word(raw),
                icr: icr(b, c),
                cause: d.word(raw),
                index: e.word(raw),
            },
            Kind::UnacceleratedAccess => KvmEvent::UnacceleratedAccess {
                vcpu: a.word(raw),
                register: b.word(raw),
                is_trap: c.flag(raw),
                is_write: d.flag(raw),
                vector: e.word(raw),
            },
            Kind::GuestLog => KvmEvent::GuestLog { vm: a.word(raw), vcpu: b.word(raw) },
            Kind::Doorbell => KvmEvent::Doorbell { vcpu: a.word(raw), apic: b.word(raw) },
            Kind::KickSlowPath => KvmEvent::KickSlowPath { icr: icr(a, b), index: c.word(raw) },
            Kind::InjectInterrupt => KvmEvent::InjectInterrupt {
                vector: a.word(raw),
                is_soft: b.flag(raw),
                is_reinjected: c.flag(raw),
            },
            Kind::AcceptInterrupt | Kind::PostInterrupt => KvmEvent::AcceptInterrupt {
                apic: a.word(raw),
                delivery_mode: (b.word(raw) >> 8 & 7) as u8,
                is_level: c.flag(raw),
                vector: d.word(raw) as u8,
                is_posted: self.kind == Kind::PostInterrupt,
            },
            Kind::SendIpi => KvmEvent::SendIpi { icr_low: a.word(raw), destination: b.word(raw) },
            Kind::Msi => KvmEvent::Msi { address: a.read(raw), data: b.read(raw) },
            Kind::Line => KvmEvent::Line { gsi: a.word(raw), level: b.word(raw) as i32 },
            Kind::EndOfInterrupt | Kind::ParavirtualEndOfInterrupt => KvmEvent::EndOfInterrupt {
                apic: a.word(raw),
                vector: b.word(raw) as i32,
                is_paravirtual: self.kind == Kind::ParavirtualEndOfInterrupt,
            },
            Kind::PostedRoute => KvmEvent::PostedRoute {
                host_irq: a.word(raw),
                vcpu: b.word(raw),
                vector: c.word(raw),
                is_set: d.flag(raw),
            },
            Kind::UserspaceExit => {
                KvmEvent::UserspaceExit { reason: a.word(raw), errno: b.word(raw) as i32 }
            }
            Kind::Wakeup => KvmEvent::Wakeup { halted_ns: a.read(raw), has_waited: b.flag(raw) },
            Kind::NestedExit => KvmEvent::NestedExit { reason: a.word(raw) },
            Kind::Entry | Kind::Exit | Kind::Mmio | Kind::PortIo | Kind::Msr => return None,
        })
    }
}

fn place_of(field: &Field) -> Place {
    match (u16::try_from(field.offset), u8::try_from(field.size)) {
        (Ok(offset), Ok(size @ (1 | 2 | 4 | 8))) => Place { offset, size },
        _ => Place::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exit_record() -> Vec<u8> {
        let mut raw = vec![0; 60];
        raw[8..12].copy_from_slice(&0x7cu32.to_le_bytes());
        raw[24..28].copy_from_slice(&2u32.to_le_bytes());
        raw[32..40].copy_from_slice(&1u64.to_le_bytes());
        raw
    }

    #[test]
    fn an_exit_is_read_by_the_assumed_layout() {
        let decoder = Decoder::assumed("kvm_exit").expect("it is known");
        let event =
            KvmEvent::Exit(Exit { isa: 2, reason: 0x7c, info1: 1, info2: 0, interruption: 0 });
        assert_eq!(decoder.decode(&exit_record()), Some(event));
    }

    #[test]
    fn fields_a_kernel_lacks_read_as_zero() {
        let fields =
            vec![Field { name: "exit_reason".into(), offset: 8, size: 4, is_signed: false }];
        let format = EventFormat { name: "kvm_exit".into(), fields, ..EventFormat::default() };
        let event = KvmEvent::Exit(Exit { reason: 0x7c, ..Exit::default() });
        assert_eq!(Decoder::new(&format).expect("known").decode(&exit_record()), Some(event));
    }

    proptest! {
        #[test]
        fn no_raw_record_panics(
            raw in proptest::collection::vec(any::<u8>(), 0..80),
            row in 0..TRACEPOINTS.len(),
            offsets in proptest::collection::vec((0usize..100, 0usize..10), 5),
        ) {
            let (name, _, names) = TRACEPOINTS[row];
            let fields = names.iter().zip(offsets).map(|(name, (offset, size))| Field {
                name: (*name).to_owned(), offset, size, is_signed: false,
            }).collect();
            let format = EventFormat { name: name.into(), fields, ..EventFormat::default() };
            let _ = Decoder::new(&format).expect("known").decode(&raw);
        }
    }
}
