//! The text of an event, as `print fmt` of the kernel or a plugin of trace-cmd wrote it.

use crate::kvm::Decoder;
use std::collections::BTreeMap;
use trace::exit_reason::Isa;
use trace::kvm::{Exit, KvmEvent, MmioKind};

/// Numbers given to reasons that no table knows, from here on.
const EXTRA_REASONS: u32 = 0xf000_0000;
const MOST_EXTRA_REASONS: usize = 4096;

/// `KVM_EXIT_INTR`
const INTERRUPTED: u32 = 10;

/// What is learnt from line to line.
#[derive(Debug, Default)]
pub struct Words {
    pub extra_names: BTreeMap<u32, String>,
    pub inhibit_names: BTreeMap<u32, String>,
    latest_vcpu: u32,
    /// Raw fields are written as the kernel's own text has them, some in hexadecimal without a
    /// mark.
    has_kernels_radix: bool,
}

/// Fields that the kernel's text has in hexadecimal without `0x`.
const UNMARKED: [(&str, &str); 8] = [
    ("kvm_msr", "ecx"),
    ("kvm_apic_accept_irq", "apicid"),
    ("kvm_apicv_accept_irq", "apicid"),
    ("kvm_eoi", "apicid"),
    ("kvm_pv_eoi", "apicid"),
    ("kvm_avic_incomplete_ipi", "icrl"),
    ("kvm_avic_kick_vcpu_slowpath", "icrl"),
    ("kvm_hv_hypercall", "code"),
];

/// `exit_reason=124 guest_rip=0xf isa=2 …`: fields instead of text, as `trace-cmd report -R` has
/// them.
fn is_raw(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    // Bytes of an instruction have spaces and commas, and belong to no event that is read.
    words.peek().is_some() && words.all(|word| word.contains('=') && !word.contains(','))
}

/// Events that are understood.
pub fn is_known(name: &str) -> bool {
    matches!(
        name,
        "kvm_entry"
            | "kvm_exit"
            | "kvm_mmio"
            | "kvm_pio"
            | "kvm_msr"
            | "kvm_apic"
            | "kvm_hypercall"
            | "kvm_hv_hypercall"
            | "kvm_apicv_inhibit_changed"
            | "kvm_avic_incomplete_ipi"
            | "kvm_avic_unaccelerated_access"
            | "kvm_avic_ga_log"
            | "kvm_avic_doorbell"
            | "kvm_avic_kick_vcpu_slowpath"
            | "kvm_inj_virq"
            | "kvm_apic_accept_irq"
            | "kvm_apicv_accept_irq"
            | "kvm_apic_ipi"
            | "kvm_msi_set_irq"
            | "kvm_set_irq"
            | "kvm_eoi"
            | "kvm_pv_eoi"
            | "kvm_pi_irte_update"
            | "kvm_userspace_exit"
            | "kvm_vcpu_wakeup"
            | "kvm_nested_vmexit"
    )
}

/// A number in decimal, or in hexadecimal with `0x`.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_end_matches([',', ')', ':']);
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    let text = text.trim_end_matches([',', ')', ':']);
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The word behind a keyword, which is followed by a space, `=` or `: `.
fn after<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find(keyword) {
        let start = from + at;
        let end = start + keyword.len();
        let begins = start == 0 || matches!(text.as_bytes()[start - 1], b' ' | b',' | b'(');
        let rest = &text[end..];
        let value = rest.strip_prefix([' ', '=']).or_else(|| rest.strip_prefix(": "));
        if let Some(value) = value.filter(|_| begins) {
            return Some(value.trim_start().split([' ', ',']).next().unwrap_or_default());
        }
        from = end;
    }
    None
}

fn value(text: &str, keyword: &str) -> Option<u64> {
    number(after(text, keyword)?)
}

impl Words {
    /// A stand-in for the thread of a line that names none: its vCPU.
    pub const fn vcpu_as_thread(&self) -> u32 {
        self.latest_vcpu.saturating_add(1)
    }

    /// Reads an event from its fields.
    fn raw_event(&mut self, name: &str, text: &str) -> Option<KvmEvent> {
        let word = |field: &str| {
            let mut pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
            pairs.find(|pair| pair.0 == field).map(|pair| pair.1)
        };
        if name == "kvm_exit" {
            // Newer recorders write each field as the kernel's text does, older ones in decimal.
            self.has_kernels_radix = word("intr_info").is_some_and(|word| word.starts_with("0x"));
        }
        if let Some(vcpu) = word("vcpu_id").and_then(number) {
            self.latest_vcpu = vcpu as u32;
        }
        let is_unmarked = |field: &str| self.has_kernels_radix && UNMARKED.contains(&(name, field));
        Decoder::decode_fields(name, |field| {
            let word = word(field)?;
            match word.strip_prefix('-') {
                Some(digits) => Some(number(digits)?.wrapping_neg()),
                None if is_unmarked(field) => hexadecimal(word),
                None => number(word),
            }
        })
    }

    /// Reads an event; `None` if it is not known or not understood.
    pub fn event(&mut self, name: &str, text: &str) -> Option<KvmEvent> {
        if is_raw(text) {
            return self.raw_event(name, text);
        }
        Some(match name {
            "kvm_entry" => {
                self.latest_vcpu = value(text, "vcpu")? as u32;
                KvmEvent::Entry { vcpu: self.latest_vcpu }
            }
            "kvm_exit" => KvmEvent::Exit(self.exit(text)?),
            "kvm_nested_vmexit" => KvmEvent::NestedExit { reason: self.exit(text)?.reason },
            "kvm_mmio" => KvmEvent::Mmio {
                kind: match after(text, "mmio")? {
                    "unsatisfied-read" => MmioKind::UnsatisfiedRead,
                    "read" => MmioKind::Read,
                    "write" => MmioKind::Write,
                    _ => return None,
                },
                address: hexadecimal(after(text, "gpa")?)?,
                value: after(text, "val").and_then(hexadecimal).unwrap_or(0),
            },
            "kvm_pio" => KvmEvent::PortIo {
                is_write: text.starts_with("pio_write"),
                port: hexadecimal(after(text, "at")?)? as u32,
            },
            "kvm_msr" => {
                let is_write = text.starts_with("msr_write");
                let keyword = if is_write { "msr_write" } else { "msr_read" };
                KvmEvent::Msr {
                    is_write,
                    index: hexadecimal(after(text, keyword)?)? as u32,
                    value: after(text, "=").and_then(hexadecimal).unwrap_or(0),
                }
            }
            "kvm_apic" => apic(text)?,
            "kvm_hypercall" => {
                KvmEvent::Hypercall { number: hexadecimal(after(text, "nr")?)?, is_hyperv: false }
            }
            "kvm_hv_hypercall" => {
                KvmEvent::Hypercall { number: hexadecimal(after(text, "code")?)?, is_hyperv: true }
            }
            "kvm_apicv_inhibit_changed" => self.inhibit(text)?,
            _ => return interrupt(name, text),
        })
    }

    /// `[vcpu N] reason NAME [FLAGS] rip X …`
    fn exit(&mut self, text: &str) -> Option<Exit> {
        if let Some(vcpu) = value(text, "vcpu") {
            self.latest_vcpu = vcpu as u32;
        }
        let start = text.find("reason ")? + "reason ".len();
        let end = text[start..].find(" rip ").map_or(text.len(), |at| start + at);
        let (isa, reason) = self.reason(text[start..end].trim());
        let rest = &text[end..];
        // Before 5.10 two bare numbers follow `info`, of which the second is 32 bits wide.
        let (info1, info2) = match after(rest, "info1") {
            Some(first) => (hexadecimal(first), after(rest, "info2").and_then(hexadecimal)),
            None => {
                let mut both = rest.split(" info ").nth(1).unwrap_or_default().split(' ');
                (both.next().and_then(hexadecimal), both.next().and_then(hexadecimal))
            }
        };
        let interruption = after(rest, "intr_info").and_then(hexadecimal).unwrap_or(0) as u32;
        Some(Exit {
            isa,
            reason,
            info1: info1.unwrap_or(0),
            info2: info2.unwrap_or(0),
            interruption,
        })
    }

    /// The vendor and number of a reason's name.
    fn reason(&mut self, name: &str) -> (u32, u32) {
        let name = name.strip_suffix(" FAILED_VMENTRY").unwrap_or(name);
        let known = |isa: Isa, name: &str| Some((isa as u32, isa.reason_named(name)?));
        let exactly = |isa: Isa| {
            let (number, reason) = known(isa, name)?;
            (isa.reason_name(reason) == Some(name)).then_some((number, reason))
        };
        // A plugin of trace-cmd has names of its own for AMD's.
        let of_plugin = || {
            let name = name.strip_prefix("EXIT_")?;
            let renamed = PLUGIN_NAMES.iter().find(|row| row.0 == name).map_or(name, |row| row.1);
            known(Isa::Svm, renamed)
        };
        exactly(Isa::Svm)
            .or_else(|| exactly(Isa::Vmx))
            .or_else(of_plugin)
            .or_else(|| known(Isa::Vmx, name))
            .or_else(|| known(Isa::Svm, name))
            .or_else(|| Some((0, hexadecimal(name.strip_prefix("0x")?)? as u32)))
            .unwrap_or_else(|| (0, self.extra(name)))
    }

    fn extra(&mut self, name: &str) -> u32 {
        let found = self.extra_names.iter().find(|row| row.1 == name).map(|row| *row.0);
        found.unwrap_or_else(|| {
            let count = self.extra_names.len().min(MOST_EXTRA_REASONS) as u32;
            self.extra_names.entry(EXTRA_REASONS + count).or_insert_with(|| name.to_owned());
            EXTRA_REASONS + count
        })
    }

    /// `set reason=8, inhibits=0x300 IRQWIN|PIT_REINJ`, the names from 6.11 on.
    fn inhibit(&mut self, text: &str) -> Option<KvmEvent> {
        let mask = hexadecimal(after(text, "inhibits")?)?;
        let names = text.rsplit(' ').next().filter(|word| !word.contains('='));
        let bits = (0..64u32).filter(|bit| mask >> bit & 1 != 0);
        for (bit, name) in bits.zip(names.unwrap_or_default().split('|')) {
            if !name.is_empty()
                && names.is_some_and(|all| all.split('|').count() as u32 == mask.count_ones())
            {
                self.inhibit_names.insert(bit, name.to_owned());
            }
        }
        Some(KvmEvent::Inhibit {
            is_set: text.starts_with("set"),
            reason: value(text, "reason")? as u32,
            mask,
        })
    }
}

/// Names of trace-cmd's plugin that are not the kernel's in capitals.
const PLUGIN_NAMES: &[(&str, &str)] = &[
    ("INTR", "interrupt"),
    ("IOIO", "io"),
    ("VMMCALL", "hypercall"),
    ("IDTR_READ", "read_idtr"),
    ("SWINT", "swint"),
    ("ERR", "invalid_guest_state"),
    ("AVIC_UNACCELERATED_ACCESS", "avic_unaccelerated_access"),
];

/// Names behind `APIC_` as the kernel prints them.
const APIC_NAMES: &[(&str, u32)] = &[
    ("ID", 0x20),
    ("LVR", 0x30),
    ("TASKPRI", 0x80),
    ("ARBPRI", 0x90),
    ("PROCPRI", 0xa0),
    ("EOI", 0xb0),
    ("RRR", 0xc0),
    ("LDR", 0xd0),
    ("DFR", 0xe0),
    ("SPIV", 0xf0),
    ("ISR", 0x100),
    ("TMR", 0x180),
    ("IRR", 0x200),
    ("ESR", 0x280),
    ("ICR", 0x300),
    ("ICR2", 0x310),
    ("LVTT", 0x320),
    ("LVTTHMR", 0x330),
    ("LVTPC", 0x340),
    ("LVT0", 0x350),
    ("LVT1", 0x360),
    ("LVTERR", 0x370),
    ("TMICT", 0x380),
    ("TMCCT", 0x390),
    ("TDCR", 0x3e0),
    ("SELF_IPI", 0x3f0),
];

/// `apic_write APIC_ICR = 0x8fb`
fn apic(text: &str) -> Option<KvmEvent> {
    let is_write = text.starts_with("apic_write");
    let keyword = if is_write { "apic_write" } else { "apic_read" };
    let name = after(text, keyword)?;
    let register = match name.strip_prefix("APIC_") {
        Some(name) => APIC_NAMES.iter().find(|row| row.0 == name)?.1,
        None => hexadecimal(name)? as u32,
    };
    let value = after(text, "=").and_then(hexadecimal).unwrap_or(0);
    Some(KvmEvent::Apic { is_write, register, value })
}

fn delivery_mode(text: &str) -> u32 {
    const NAMES: [&str; 8] = ["Fixed", "LowPrio", "SMI", "Res3", "NMI", "INIT", "SIPI", "ExtINT"];
    let mode = text.split(['(', '|', ')']).nth(1).unwrap_or_default();
    NAMES.iter().position(|name| *name == mode).unwrap_or(0) as u32
}

fn interrupt(name: &str, text: &str) -> Option<KvmEvent> {
    let vcpu = |keyword| value(text, keyword).map(|number| number as u32);
    Some(match name {
        "kvm_inj_virq" => {
            let vector = text.split(' ').find_map(|word| {
                word.starts_with(|c: char| c.is_ascii_digit()).then(|| number(word)).flatten()
            })?;
            KvmEvent::InjectInterrupt {
                vector: vector as u32,
                is_soft: text.starts_with("Soft"),
                is_reinjected: text.contains("[reinjected]"),
            }
        }
        "kvm_apic_accept_irq" | "kvm_apicv_accept_irq" => KvmEvent::AcceptInterrupt {
            apic: hexadecimal(after(text, "apicid")?)? as u32,
            vector: value(text, "vec")? as u8,
            delivery_mode: delivery_mode(text) as u8,
            is_level: text.contains("|level"),
            is_posted: name == "kvm_apicv_accept_irq",
        },
        "kvm_apic_ipi" => {
            let shorthand = if text.contains("|self)") {
                1
            } else if text.contains("|all)") {
                2
            } else if text.contains("|all-but-self)") {
                3
            } else {
                0
            };
            let flag = |word: &str, bit: u32| u32::from(text.contains(word)) << bit;
            KvmEvent::SendIpi {
                icr_low: value(text, "vec")? as u32 & 0xff
                    | delivery_mode(text) << 8
                    | flag("|logical", 11)
                    | flag("|assert", 14)
                    | flag("|level", 15)
                    | shorthand << 18,
                destination: hexadecimal(after(text, "dst")?)? as u32,
            }
        }
        "kvm_msi_set_irq" => KvmEvent::Msi {
            address: hexadecimal(after(text, "dst")?)? << 12,
            data: value(text, "vec")?,
        },
        "kvm_set_irq" => KvmEvent::Line { gsi: vcpu("gsi")?, level: value(text, "level")? as i32 },
        "kvm_eoi" | "kvm_pv_eoi" => KvmEvent::EndOfInterrupt {
            apic: hexadecimal(after(text, "apicid")?)? as u32,
            vector: after(text, "vector")?.parse().ok()?,
            is_paravirtual: name == "kvm_pv_eoi",
        },
        "kvm_avic_incomplete_ipi" | "kvm_avic_kick_vcpu_slowpath" => {
            let (high, low) = after(text, "icrh:icrl")?.split_once(':')?;
            let icr = hexadecimal(high)? << 32 | hexadecimal(low)? & 0xffff_ffff;
            let index = vcpu("index")?;
            if name == "kvm_avic_kick_vcpu_slowpath" {
                return Some(KvmEvent::KickSlowPath { icr, index });
            }
            KvmEvent::IncompleteIpi { vcpu: vcpu("vcpu")?, icr, cause: vcpu("id")?, index }
        }
        "kvm_avic_unaccelerated_access" => KvmEvent::UnacceleratedAccess {
            vcpu: vcpu("vcpu")?,
            register: hexadecimal(after(text, "offset")?.split('(').next()?)? as u32,
            is_trap: text.contains("trap"),
            is_write: text.contains("write"),
            vector: after(text, "vec").and_then(hexadecimal).unwrap_or(0) as u32,
        },
        "kvm_avic_ga_log" => KvmEvent::GuestLog { vm: vcpu("vmid")?, vcpu: vcpu("vcpuid")? },
        "kvm_avic_doorbell" => KvmEvent::Doorbell { vcpu: vcpu("vcpuid")?, apic: vcpu("apicid")? },
        "kvm_pi_irte_update" => KvmEvent::PostedRoute {
            host_irq: vcpu("irq")?,
            vcpu: vcpu("vcpu").unwrap_or(0),
            vector: after(text, "gvec").and_then(hexadecimal)? as u32,
            is_set: text.contains("PI is enabled"),
        },
        "kvm_userspace_exit" => {
            // Of a failure the text has the error in place of the reason.
            let code = text.rsplit('(').next()?.trim_end_matches(')').parse::<u32>().ok()?;
            let (reason, errno) = match after(text, "reason")? {
                "restart" => (INTERRUPTED, -(code as i32 & 0xfff)),
                "error" => (0, -(code as i32 & 0xfff)),
                _ => (code, 0),
            };
            KvmEvent::UserspaceExit { reason, errno }
        }
        "kvm_vcpu_wakeup" => KvmEvent::Wakeup {
            halted_ns: value(text, "time").unwrap_or(0),
            has_waited: text.starts_with("wait"),
        },
        _ => return None,
    })
}
