//! Which debug traps come, and with what in DR6: single step beside loads of SS, software
//! interrupts and SYSCALL; watchpoints beside INT1; how many NMIs wait; and what a page fault says
//! of protection keys.
//! [APM2 "Debug Registers"] [SDM3 "Masking Exceptions and Interrupts When Switching Stacks"]

use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::identity::{ApicId, CpuIndex};
use arch::segment::{Attributes, Segment};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use cpu::cache::InstructionCosts;
use cpu::decode::Cost;
use cpu::{Bus, CodeCache, Cpu, CpuModel, RunEnd};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use interrupt::LocalApic;
use interrupt::local_apic::{Acceptance, LocalApicModel};

const TABLES: u64 = 0x1000;
const IDT: u64 = 0x4000;
const GDT: u64 = 0x5000;
const STACK: u64 = 0x7000;
const CODE: u64 = 0x8000;
const DEBUG_HANDLER: u64 = 0x9000;
const PLAIN_HANDLER: u64 = 0xA000;
const SYSCALL_TARGET: u64 = 0xB000;
const DATA: u64 = 0xC000;

/// What the handlers report to.
const DR6_PORT: u16 = 0xD6;
const COUNT_PORT: u16 = 0xD8;

/// DR6 without a cause.
const NOTHING: u32 = 0xFFFF_0FF0;
const STEP: u32 = NOTHING | 1 << 14;
const GENERAL_DETECT: u32 = NOTHING | 1 << 13;

#[derive(Default)]
struct Ports(Vec<(u16, u32)>);

impl Platform for Ports {
    fn read(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8) -> u64 {
        0
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8) -> u32 {
        0
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, port: u16, _: u8, value: u32) {
        self.0.push((port, value));
    }
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        0
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, _: Happening) {}
}

type Code = fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// A processor in 64-bit mode whose handlers say that they were called.
struct Lab {
    cpu: Cpu,
    memory: GuestMemory,
    ports: Ports,
    cache: CodeCache,
}

impl Lab {
    fn new(code: Code) -> Self {
        let model = CpuModel::named("zen4").expect("the model exists");
        let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
        let mut lab = Self {
            cpu: Cpu::new(CpuIndex(0), model, apic, 1),
            memory: GuestMemory::new(4 << 20),
            ports: Ports::default(),
            cache: CodeCache::new(InstructionCosts([1000; Cost::COUNT])),
        };
        lab.write(TABLES, TABLES + 0x1000 | 7);
        lab.write(TABLES + 0x1000, TABLES + 0x2000 | 7);
        for page in 0..2 {
            lab.write(TABLES + 0x2000 + 8 * page, page << 21 | 0x87);
        }
        for vector in 0..256 {
            let handler = if vector == 1 { DEBUG_HANDLER } else { PLAIN_HANDLER };
            lab.write(IDT + 16 * vector, handler & 0xFFFF | 0x08 << 16 | 0x8E00 << 32);
        }
        lab.write(GDT + 8, 0x00AF_9B00_0000_FFFF);
        lab.write(GDT + 16, 0x00CF_9300_0000_FFFF);
        lab.assemble(CODE, code);
        lab.assemble(DEBUG_HANDLER, |a| {
            a.push(rax)?;
            a.mov(rax, dr6)?;
            a.out(i32::from(DR6_PORT), eax)?;
            a.xor(eax, eax)?;
            a.mov(dr6, rax)?;
            a.pop(rax)?;
            a.iretq()
        });
        lab.assemble(PLAIN_HANDLER, |a| {
            a.out(i32::from(COUNT_PORT), eax)?;
            a.iretq()
        });
        lab.assemble(SYSCALL_TARGET, |a| {
            a.nop()?;
            a.hlt()
        });
        lab.write(DATA, 0x10);
        lab.start();
        lab
    }

    fn start(&mut self) {
        let cpu = &mut self.cpu;
        cpu.cr0 = Cr0::PROTECTION_ENABLE | Cr0::PAGING;
        cpu.cr4 = Cr4::PAE;
        cpu.cr3 = TABLES;
        cpu.efer = Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE | Efer::SYSCALL;
        let flat = |selector, attributes| Segment {
            selector,
            attributes: Attributes(attributes),
            limit: 0xFFFF_FFFF,
            base: 0,
        };
        let data = flat(0x10, 0xC93);
        cpu.segments = [data, flat(0x08, 0xA9B), data, data, data, data];
        cpu.idtr.base = IDT;
        cpu.idtr.limit = 0xFFF;
        cpu.gdtr.base = GDT;
        cpu.gdtr.limit = 0x17;
        cpu.syscall.star = 0x08 << 32;
        cpu.syscall.lstar = SYSCALL_TARGET;
        cpu.gpr[4] = STACK;
        cpu.ip = CODE;
        cpu.refresh_segments();
        cpu.tlb.flush_all();
        cpu.update_access_mode();
    }

    fn assemble(&mut self, at: u64, code: Code) {
        let mut assembler = CodeAssembler::new(64).expect("a code size");
        code(&mut assembler).expect("the code is well-formed");
        let bytes = assembler.assemble(at).expect("the code assembles");
        self.memory.write(SystemPhysical(at), &bytes).expect("RAM");
    }

    fn write(&mut self, at: u64, value: u64) {
        self.memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
    }

    /// Runs until HLT; what was written to a port.
    fn run(&mut self, port: u16) -> Vec<u32> {
        let mut bus = Bus { memory: &mut self.memory, platform: &mut self.ports };
        for _ in 0..1000 {
            let until = Picoseconds(self.cpu.clock.0 + 1_000_000_000);
            match self.cpu.run(&mut self.cache, &mut bus, until, 10_000) {
                RunEnd::Yield => {}
                RunEnd::Idle => {
                    let written = self.ports.0.iter().filter(|(other, _)| *other == port);
                    return written.map(|(_, value)| *value).collect();
                }
                end => panic!("{end:?}"),
            }
        }
        panic!("does not halt");
    }
}

/// POPF with TF set: the next instruction is the first that is stepped.
fn step(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.pushfq()?;
    a.or(qword_ptr(rsp), 0x100)?;
    a.popfq()
}

/// POPF with TF clear, two stepped instructions before it and stepped itself: three traps.
fn stop_stepping(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.pushfq()?;
    a.and(qword_ptr(rsp), !0x100)?;
    a.popfq()?;
    a.hlt()
}

#[test]
fn debug_traps_come_as_often_as_the_manual_says_and_name_their_cause() {
    let rows: [(&str, Code, &[u32]); 9] = [
        (
            "every instruction is stepped, the one that clears TF too",
            |a| {
                step(a)?;
                a.nop()?;
                stop_stepping(a)
            },
            &[STEP; 4],
        ),
        (
            "a load of SS is not stepped, now or later",
            |a| {
                a.mov(ax, ss)?;
                step(a)?;
                a.mov(ss, ax)?;
                a.nop()?;
                stop_stepping(a)
            },
            &[STEP; 4],
        ),
        (
            "INT1 behind a load of SS reports no step",
            |a| {
                a.mov(ax, ss)?;
                step(a)?;
                a.mov(ss, ax)?;
                a.int1()?;
                stop_stepping(a)
            },
            &[NOTHING, STEP, STEP, STEP],
        ),
        (
            "INT1 is not stepped",
            |a| {
                step(a)?;
                a.int1()?;
                stop_stepping(a)
            },
            &[NOTHING, STEP, STEP, STEP],
        ),
        (
            "a software interrupt is not stepped, nor is its handler",
            |a| {
                step(a)?;
                a.int(0x40)?;
                stop_stepping(a)
            },
            &[STEP; 3],
        ),
        (
            "general detect behind a load of SS reports no step",
            |a| {
                a.mov(ebx, 0x2400)?;
                a.mov(ax, ss)?;
                a.xor(ecx, ecx)?;
                a.pushfq()?;
                a.or(qword_ptr(rsp), 0x100)?;
                a.mov(dr7, rbx)?;
                a.popfq()?;
                a.mov(ss, ax)?;
                a.mov(dr6, rcx)?;
                stop_stepping(a)
            },
            &[GENERAL_DETECT, STEP, STEP, STEP, STEP],
        ),
        (
            "a watchpoint hit by a load of SS waits for the next instruction",
            |a| {
                watch(a)?;
                a.mov(ss, word_ptr(DATA))?;
                a.nop()?;
                a.hlt()
            },
            &[NOTHING | 2],
        ),
        (
            "INT1 takes a waiting watchpoint with it",
            |a| {
                watch(a)?;
                a.mov(ss, word_ptr(DATA))?;
                a.int1()?;
                a.hlt()
            },
            &[NOTHING | 2],
        ),
        (
            "INT 1 does not",
            |a| {
                watch(a)?;
                a.mov(ss, word_ptr(DATA))?;
                a.int(1)?;
                a.hlt()
            },
            &[NOTHING | 2, NOTHING],
        ),
    ];
    for (rule, code, expected) in rows {
        let seen = Lab::new(code).run(DR6_PORT);
        let hex = |values: &[u32]| format!("{values:x?}");
        assert_eq!(hex(&seen), hex(expected), "{rule}");
    }
}

/// Four bytes, read or written, by DR1.
fn watch(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(ecx, DATA as u32)?;
    a.mov(dr1, rcx)?;
    a.mov(ecx, 0x00F0_0408)?;
    a.mov(dr7, rcx)
}

#[test]
fn syscall_is_stepped_by_the_flag_that_it_leaves() {
    for (mask, expected) in [(0x100, 0), (0, 2)] {
        let mut lab = Lab::new(|a| {
            step(a)?;
            a.syscall()
        });
        lab.cpu.syscall.sfmask = mask;
        assert_eq!(lab.run(DR6_PORT).len(), expected, "mask {mask:#x}");
    }
}

#[test]
fn one_nmi_waits_behind_the_one_that_is_handled() {
    for (arriving, taken) in [(1, 1), (2, 2), (3, 2), (9, 2)] {
        let mut lab = Lab::new(|a| {
            a.nop()?;
            a.hlt()
        });
        (0..arriving).for_each(|_| lab.cpu.accepted(Acceptance::Nmi));
        assert_eq!(lab.run(COUNT_PORT).len(), taken, "{arriving} at once");
        lab.cpu.nmi_blocked = true;
        (0..arriving).for_each(|_| lab.cpu.accepted(Acceptance::Nmi));
        assert!(!lab.cpu.second_nmi, "{arriving} while one is handled: one waits");
    }
}

#[test]
fn a_page_fault_names_the_protection_key_whatever_else_forbids_the_access() {
    const KEY_1: u64 = 1 << 59;
    const WRITABLE: u64 = 2;
    // The page is the user's; the access is the supervisor's write, with CR0.WP set.
    for (entry, pkru, expected) in [
        (KEY_1 | WRITABLE, 0b01 << 2, 0x23),
        (KEY_1, 0b01 << 2, 0x23),
        (KEY_1, 0b10 << 2, 0x23),
        (KEY_1, 0, 0x03),
        (KEY_1, 0b01 << 4, 0x03),
    ] {
        let mut lab = Lab::new(|a| {
            a.mov(ebx, 0x20_0000)?;
            a.mov(dword_ptr(rbx), eax)?;
            a.hlt()
        });
        lab.assemble(PLAIN_HANDLER, |a| {
            a.pop(rax)?;
            a.out(i32::from(COUNT_PORT), eax)?;
            a.hlt()
        });
        lab.write(TABLES + 0x2008, 0x20_0000 | 0x85 | entry);
        lab.cpu.cr0 |= Cr0::WRITE_PROTECT;
        lab.cpu.cr4 |= Cr4::PKE;
        lab.cpu.pkru = pkru;
        lab.cpu.tlb.flush_all();
        assert_eq!(lab.run(COUNT_PORT), [expected], "entry {entry:#x}, PKRU {pkru:#x}");
    }
}
