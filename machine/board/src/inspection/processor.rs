//! A processor's registers and cached translations.

use super::sheet::{Sheet, parts};
use arch::control::rflags;
use arch::segment::{Segment, SegmentRegister};
use bus::GuestMemory;
use cpu::{Cpu, Running};

const SYSTEM: &str = "APM2 \"System Resources\"";

/// Numbers of general registers are those of the instruction set.
const GENERAL: [&str; 16] = [
    "RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", "R8", "R9", "R10", "R11", "R12", "R13",
    "R14", "R15",
];

const FLAGS: [(&str, u64); 14] = [
    ("CF", rflags::CF),
    ("PF", rflags::PF),
    ("AF", rflags::AF),
    ("ZF", rflags::ZF),
    ("SF", rflags::SF),
    ("TF", rflags::TF),
    ("IF", rflags::IF),
    ("DF", rflags::DF),
    ("OF", rflags::OF),
    ("NT", rflags::NT),
    ("RF", rflags::RF),
    ("VM", rflags::VM),
    ("AC", rflags::AC),
    ("ID", rflags::ID),
];

/// Of a program, then of a system.
pub(super) fn registers(cpu: &Cpu) -> Vec<Sheet> {
    vec![of_program(cpu), of_system(cpu)]
}

fn of_program(cpu: &Cpu) -> Sheet {
    let activity = cpu.pending.activity();
    let title = format!("registers, {activity:?}, {}, {}", mode(cpu), guest(cpu));
    let section = "APM1 \"Registers\"";
    let mut sheet = Sheet::new(&title, section).of(cpu.index);
    let flags = cpu.registers.flags.bits();
    let set: Vec<&str> =
        FLAGS.iter().filter(|flag| flags & flag.1 != 0).map(|flag| flag.0).collect();
    let cpl = format!("CPL {}", cpu.registers.cpl());
    sheet.add("", "RIP", cpu.registers.ip, 64, cpl);
    sheet.add("", "RFLAGS", flags, 32, set.join(" "));
    for (number, name) in GENERAL.iter().enumerate() {
        sheet.add("", *name, cpu.registers.gpr[number], 64, String::new());
    }
    sheet
}

fn of_system(cpu: &Cpu) -> Sheet {
    let control = &cpu.control;
    let mut sheet = Sheet::new("system registers", SYSTEM).of(cpu.index);
    for register in SegmentRegister::ALL {
        let name = format!("{register:?}").to_uppercase();
        add_segment(&mut sheet, &name, cpu.registers.segment(register));
    }
    add_segment(&mut sheet, "LDTR", control.ldtr);
    add_segment(&mut sheet, "TR", control.tr);
    for (name, table) in [("GDTR", control.gdtr), ("IDTR", control.idtr)] {
        sheet.add("", name, table.base, 64, format!("limit {:#x}", table.limit));
    }
    sheet.add("", "CR0", control.cr0().bits(), 32, parts(&control.cr0()));
    sheet.add("", "CR2", control.cr2, 64, String::new());
    sheet.add("", "CR3", control.cr3, 64, String::new());
    sheet.add("", "CR4", control.cr4().bits(), 32, parts(&control.cr4()));
    sheet.add("", "CR8", cpu.apic.task_priority() >> 4, 4, String::new());
    sheet.add("", "EFER", control.efer().bits(), 32, parts(&control.efer()));
    sheet.add("", "DR6", cpu.debug.dr6(), 32, String::new());
    sheet.add("", "DR7", cpu.debug.dr7(), 32, String::new());
    sheet.add("", "TSC", cpu.clock.tsc(), 64, String::new());
    sheet
}

fn add_segment(sheet: &mut Sheet, name: &str, segment: Segment) {
    let Segment { selector, attributes, limit, base } = segment;
    let meaning = format!("base {base:#x}, limit {limit:#x}, attributes {:#x}", attributes.0);
    sheet.add("", name, selector, 16, meaning);
}

fn mode(cpu: &Cpu) -> &'static str {
    if cpu.is_64_bit() {
        "64-bit mode"
    } else if cpu.control.is_long_mode() {
        "compatibility mode"
    } else if cpu.registers.is_virtual_8086() {
        "virtual-8086 mode"
    } else if cpu.is_protected() {
        "protected mode"
    } else {
        "real mode"
    }
}

fn guest(cpu: &Cpu) -> String {
    match &cpu.guest.running {
        Running::Bare => "no guest".into(),
        Running::Svm(guest) => format!("in the guest of VMCB {}", guest.vmcb),
        Running::Vmx(guest) => format!("in the guest of VMCS {}", guest.vmcs),
    }
}

/// Pages that are held, by address space and address.
pub(super) fn translations(cpu: &Cpu, memory: &GuestMemory) -> Sheet {
    let tlb = &cpu.translation.tlb;
    let title = format!("translation lookaside buffer, ASID {} runs", tlb.asid());
    let mut sheet = Sheet::new(&title, "APM2 \"Translation-Lookaside Buffer (TLB)\"").of(cpu.index);
    let mut held: Vec<_> = tlb.held().collect();
    held.sort_by_key(|one| (one.asid, one.pcid, one.linear.0, one.is_user));
    for one in held {
        let letter = |is_set, letter| if is_set { letter } else { '-' };
        let rights = [(one.reads, 'r'), (one.writes, 'w'), (one.executes, 'x')];
        let rights: String = rights.map(|(is_set, name)| letter(is_set, name)).iter().collect();
        let privilege = if one.is_user { "user" } else { "supervisor" };
        let place = format!("ASID {} PCID {}", one.asid, one.pcid);
        let name = format!("{:#018x}", one.linear.0);
        let target = memory.address(one.offset).map_or(one.offset, |address| address.0);
        sheet.add(place, name, target, 64, format!("{rights} {privilege}"));
    }
    sheet
}
