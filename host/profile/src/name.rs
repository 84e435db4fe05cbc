//! Names of rows and of what an exit was about, in the words of the kernel and its tools.

use crate::key::{Detail, InterruptCommand, Key, Shorthand, View};
use arch::apic::{DeliveryMode, DestinationMode};
use std::borrow::Cow;
use std::collections::BTreeMap;
use trace::exit_reason::Isa;

/// Names of reasons that have no number, by the number a reader of text gave them.
pub type ExtraNames = BTreeMap<u32, String>;

/// The name of a row as `perf kvm stat` prints it.
pub fn row_name(key: Key, isa: Option<Isa>, extra: &ExtraNames) -> String {
    match key.view() {
        View::Vmexit => reason_name(key.reason(), isa, extra).into_owned(),
        View::Mmio => format!("{:#x}:{}", key.address(), read_or_write(key.is_write())),
        View::Ioport => {
            format!("{:#x}:{}", key.address(), if key.is_write() { "POUT" } else { "PIN" })
        }
        View::Msr => format!("{:#x}:{}", key.address(), read_or_write(key.is_write())),
    }
}

/// The name of an exit reason, or its number where it has none.
pub fn reason_name(reason: u32, isa: Option<Isa>, extra: &ExtraNames) -> Cow<'static, str> {
    if let Some(name) = extra.get(&reason) {
        return name.clone().into();
    }
    match isa.and_then(|isa| isa.reason_name(reason)) {
        Some(name) => name.into(),
        None => format!("UNKNOWN {reason:#x}").into(),
    }
}

const fn read_or_write(is_write: bool) -> &'static str {
    if is_write { "W" } else { "R" }
}

/// The name of an APIC register by its offset. [SDM3 "Local APIC Register Address Map"]
pub const fn register_name(offset: u16) -> Option<&'static str> {
    Some(match offset & 0xff0 {
        0x020 => "ID",
        0x030 => "version",
        0x080 => "TPR",
        0x090 => "APR",
        0x0a0 => "PPR",
        0x0b0 => "EOI",
        0x0c0 => "remote read",
        0x0d0 => "LDR",
        0x0e0 => "DFR",
        0x0f0 => "SVR",
        0x100..=0x170 => "ISR",
        0x180..=0x1f0 => "TMR",
        0x200..=0x270 => "IRR",
        0x280 => "ESR",
        0x2f0 => "LVT CMCI",
        0x300 => "ICR",
        0x310 => "ICR high",
        0x320 => "LVT timer",
        0x330 => "LVT thermal",
        0x340 => "LVT performance",
        0x350 => "LVT LINT0",
        0x360 => "LVT LINT1",
        0x370 => "LVT error",
        0x380 => "timer initial count",
        0x390 => "timer current count",
        0x3e0 => "timer divide",
        0x3f0 => "self IPI",
        _ => return None,
    })
}

/// Well-known MSRs beside those of the x2APIC.
const fn msr_name(index: u32) -> Option<&'static str> {
    Some(match index {
        0x10 => "TSC",
        0x1b => "APIC base",
        0x3a => "feature control",
        0x3b => "TSC adjust",
        0x48 => "speculation control",
        0x49 => "prediction command",
        0x6e0 => "TSC deadline",
        0x1a0 => "misc enable",
        0x277 => "PAT",
        0x4000_0000..=0x4000_00ff => "Hyper-V",
        0x4b56_4d00..=0x4b56_4dff => "KVM paravirtual",
        0xc000_0080 => "EFER",
        0xc000_0100 => "FS base",
        0xc000_0101 => "GS base",
        0xc000_0102 => "kernel GS base",
        _ => return None,
    })
}

/// The x2APIC register an MSR stands for.
pub fn msr_register(index: u32) -> Option<&'static str> {
    let offset = index.checked_sub(0x800).filter(|n| *n <= 0x3f)? << 4;
    register_name(offset as u16)
}

/// A meaning to stand beside a row of the mmio or msr view: the register behind an address.
pub fn access_meaning(key: Key) -> Option<String> {
    match key.view() {
        View::Msr => {
            let index = key.address() as u32;
            let x2apic = msr_register(index).map(|name| format!("x2APIC {name}"));
            x2apic.or_else(|| msr_name(index).map(str::to_owned))
        }
        View::Mmio if key.address() & !0xfff == 0xfee0_0000 => {
            register_name(key.address() as u16).map(|name| format!("APIC {name}"))
        }
        View::Ioport => port_name(key.address()).map(str::to_owned),
        _ => None,
    }
}

const fn port_name(port: u64) -> Option<&'static str> {
    Some(match port {
        0x20 | 0x21 | 0xa0 | 0xa1 => "PIC",
        0x40..=0x43 => "PIT",
        0x60 | 0x64 => "keyboard controller",
        0x61 => "speaker gate",
        0x70 | 0x71 => "RTC",
        0x3f8..=0x3ff => "serial port 1",
        0x2f8..=0x2ff => "serial port 2",
        0x510..=0x51b => "fw_cfg",
        0x608 | 0xb008 => "ACPI PM timer",
        0xcf8 | 0xcfc..=0xcff => "PCI configuration",
        _ => return None,
    })
}

/// What an exit was about, in a few words; empty where it is not known.
pub fn detail_name(detail: Detail) -> String {
    match detail {
        Detail::Unknown => String::new(),
        Detail::Msr { index, is_write } => {
            let name = msr_name(index).map(|name| format!(" {name}")).unwrap_or_default();
            format!("MSR {index:#x}{name} {}", word(is_write))
        }
        Detail::Register { offset, is_write } => match register_name(offset) {
            Some(name) => format!("APIC {name} {}", word(is_write)),
            None => format!("APIC {offset:#x} {}", word(is_write)),
        },
        Detail::Icr(command) => icr_name(command),
        Detail::Port { port, is_write } => {
            let name = port_name(port.into()).map(|name| format!(" {name}")).unwrap_or_default();
            format!("port {port:#x}{name} {}", word(is_write))
        }
        Detail::OtherMmio => "memory-mapped device".into(),
        Detail::IncompleteIpi { cause } => incomplete_ipi_cause(cause).into(),
        Detail::Hypercall { number, is_hyperv } => {
            let (whose, name) = match is_hyperv {
                true => ("Hyper-V call", hyperv_call_name(number)),
                false => ("hypercall", hypercall_name(number)),
            };
            let name = name.map(|name| format!(" {name}")).unwrap_or_default();
            format!("{whose} {number:#x}{name}")
        }
        Detail::Vector { vector } => match host_vector_name(vector.0) {
            Some(name) => format!("vector {vector} {name}"),
            None => format!("vector {vector}"),
        },
    }
}

const fn word(is_write: bool) -> &'static str {
    if is_write { "write" } else { "read" }
}

/// KVM's own calls. [LINUX "Linux KVM Hypercall"]
const fn hypercall_name(number: u32) -> Option<&'static str> {
    Some(match number {
        1 => "VAPIC_POLL_IRQ",
        2 => "MMU_OP",
        3 => "FEATURES",
        5 => "KICK_CPU",
        9 => "CLOCK_PAIRING",
        10 => "SEND_IPI",
        11 => "SCHED_YIELD",
        12 => "MAP_GPA_RANGE",
        _ => return None,
    })
}

/// The calls that guests of KVM make. [LINUX "hyperv-tlfs.h"]
const fn hyperv_call_name(code: u32) -> Option<&'static str> {
    Some(match code {
        0x02 => "flush address space",
        0x03 => "flush address list",
        0x08 => "long spin wait",
        0x0b => "send IPI",
        0x13 => "flush address space (ex)",
        0x14 => "flush address list (ex)",
        0x15 => "send IPI (ex)",
        0x5c => "post message",
        0x5d => "signal event",
        _ => return None,
    })
}

/// Linux's system vectors (`arch/x86/include/asm/irq_vectors.h`).
pub const fn host_vector_name(vector: u8) -> Option<&'static str> {
    Some(match vector {
        0xec => "local timer",
        0xf0 => "posted, nested",
        0xf1 => "posted, wakeup",
        0xf2 => "posted",
        0xf3 => "hypervisor callback",
        0xf6 => "irq work",
        0xf8 => "reboot",
        0xfb => "call function single",
        0xfc => "call function",
        0xfd => "reschedule",
        0xfe => "error",
        0xff => "spurious",
        _ => return None,
    })
}

const fn delivery_mode(mode: DeliveryMode) -> &'static str {
    match mode {
        DeliveryMode::Fixed => "fixed",
        DeliveryMode::LowestPriority => "lowest priority",
        DeliveryMode::Smi => "SMI",
        DeliveryMode::RemoteRead => "remote read",
        DeliveryMode::Nmi => "NMI",
        DeliveryMode::Init => "INIT",
        DeliveryMode::Startup => "SIPI",
        DeliveryMode::ExtInt => "ExtINT",
    }
}

/// What an IPI is that carries no vector, by the lower half of the command; `None` of one that
/// does.
pub fn ipi_name(icr_low: u32) -> Option<&'static str> {
    match InterruptCommand::from_icr(icr_low, true).delivery_mode {
        DeliveryMode::Fixed | DeliveryMode::LowestPriority => None,
        other => Some(delivery_mode(other)),
    }
}

fn icr_name(command: InterruptCommand) -> String {
    let mode = delivery_mode(command.delivery_mode);
    let target = match (command.shorthand, command.destination_mode) {
        (Shorthand::OnlySelf, _) => "self",
        (Shorthand::All, _) => "all",
        (Shorthand::AllButSelf, _) => "all excluding self",
        (Shorthand::None, DestinationMode::Physical) => "physical",
        (Shorthand::None, DestinationMode::Logical) => "logical",
    };
    let level = if command.is_level { ", level" } else { "" };
    format!("APIC ICR write: {mode} to {target}{level}")
}

/// [APM2 "AVIC IPI Delivery Not Completed"]
pub const fn incomplete_ipi_cause(cause: u32) -> &'static str {
    match cause {
        0 => "invalid interrupt type",
        1 => "target not running",
        2 => "invalid target",
        3 => "invalid backing page",
        4 => "invalid vector",
        5 => "IPI not accelerated",
        _ => "unknown cause",
    }
}

/// `KVM_EXIT_…`, why KVM returned to the virtual-machine monitor.
pub const fn userspace_reason(reason: u32) -> Option<&'static str> {
    const NAMES: [&str; 32] = [
        "UNKNOWN",
        "EXCEPTION",
        "IO",
        "HYPERCALL",
        "DEBUG",
        "HLT",
        "MMIO",
        "IRQ_WINDOW_OPEN",
        "SHUTDOWN",
        "FAIL_ENTRY",
        "INTR",
        "SET_TPR",
        "TPR_ACCESS",
        "S390_SIEIC",
        "S390_RESET",
        "DCR",
        "NMI",
        "INTERNAL_ERROR",
        "OSI",
        "PAPR_HCALL",
        "S390_UCONTROL",
        "WATCHDOG",
        "S390_TSCH",
        "EPR",
        "SYSTEM_EVENT",
        "S390_STSI",
        "IOAPIC_EOI",
        "HYPERV",
        "ARM_NISV",
        "X86_RDMSR",
        "X86_WRMSR",
        "DIRTY_RING_FULL",
    ];
    if (reason as usize) < NAMES.len() { Some(NAMES[reason as usize]) } else { None }
}

#[cfg(test)]
mod tests;
