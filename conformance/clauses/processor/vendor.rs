//! Where the vendors' manuals differ: encodings, MSRs and CPUID.

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject, UNDEFINED, event};
use cpu::CpuModel;
use iced_x86::code_asm::*;

const AMD: &str = "generic";
const INTEL: &str = "generic-intel";

/// [APM3 "JMP (Far)"] [SDM2 "JMP—Jump"]: with REX.W AMD parts read a pointer of six bytes, Intel's
/// one of ten.
#[test]
fn rex_w_makes_far_pointers_longer_on_intel_parts_only() {
    for (model, offset_bytes) in [(AMD, 4), (INTEL, 8)] {
        let mut subject = Subject::with(model, Mode::Long, |a| a.db(&[0x48, 0xFF, 0x2B]));
        let target = CODE + 0x80;
        subject.put(target, 0x80CD);
        subject.put(DATA, target);
        subject.put(DATA + offset_bytes, CODE_64.into());
        subject.cpu.registers.gpr[3] = DATA;
        assert_eq!(subject.run(), Outcome::Done, "{model}");
    }
}

/// [APM3 "JMP (Near)"] [SDM2 "JMP—Jump"]: the prefix 66h in 64-bit mode.
#[test]
fn an_operand_size_prefix_shortens_near_branches_on_amd_parts_only() {
    // 66 E9 with a displacement of two bytes, then UD2; or of four bytes, to the gate behind.
    let code: Code =
        |a| a.db(&[0x66, 0xE9, 0x04, 0x00, 0x00, 0x00, 0x0F, 0x0B, 0xCD, 0x80, 0xCD, 0x80]);
    for (model, behind) in [(AMD, 8 + 2), (INTEL, 10 + 2)] {
        let mut subject = Subject::with(model, Mode::Long, code);
        assert_eq!(subject.run(), Outcome::Done, "{model}");
        assert_eq!(subject.frame(0), CODE + behind, "{model}");
    }
}

/// [APM2 "CR8"]: LOCK MOV CR0 reaches CR8 outside 64-bit mode.
#[test]
fn lock_mov_cr0_is_cr8_on_amd_parts_only() {
    for (model, expected) in [(AMD, Outcome::Done), (INTEL, UNDEFINED)] {
        let mut subject =
            Subject::with(model, Mode::Protected, |a| a.db(&[0xF0, 0x0F, 0x20, 0xC0]));
        subject.cpu.apic.set_task_priority(0x50);
        assert_eq!(subject.run(), expected, "{model}");
        if expected == Outcome::Done {
            assert_eq!(subject.cpu.registers.gpr[0], 5, "CR8 holds the priority's upper half");
        }
    }
}

/// [SDM4 "IA32_MISC_ENABLE"]
#[test]
fn misc_enable_keeps_its_writable_bits_and_hides_features() {
    const LIMIT_CPUID: u64 = 1 << 22;
    const NO_EXECUTE_DISABLE: u64 = 1 << 34;
    let mut subject = Subject::with(INTEL, Mode::Long, |a| {
        a.mov(ecx, arch::msr::MISC_ENABLE)?;
        a.wrmsr()?;
        a.rdmsr()?;
        a.mov(rsi, rax)?;
        a.mov(rdi, rdx)?;
        a.xor(eax, eax)?;
        a.cpuid()?;
        a.mov(r8, rax)?;
        a.mov(eax, 0x8000_0001_u32)?;
        a.cpuid()
    });
    subject.cpu.registers.gpr[0] = LIMIT_CPUID;
    subject.cpu.registers.gpr[2] = NO_EXECUTE_DISABLE >> 32;
    assert_eq!(subject.run(), Outcome::Done);
    let read = subject.cpu.registers.gpr[6] | subject.cpu.registers.gpr[7] << 32;
    assert_eq!(read, LIMIT_CPUID | NO_EXECUTE_DISABLE | 1 << 11 | 1 << 12, "unavailable bits stay");
    assert_eq!(subject.cpu.registers.gpr[8], 2, "the last leaf");
    assert_eq!(subject.cpu.registers.gpr[2] & 1 << 20, 0, "NX is hidden");
}

/// [SDM4 "MSR_PLATFORM_INFO"]
#[test]
fn platform_info_has_the_ratio_of_the_time_stamp_counter_on_intel_parts_only() {
    let read = |a: &mut CodeAssembler| {
        a.mov(ecx, arch::msr::PLATFORM_INFO)?;
        a.rdmsr()
    };
    for (model, ratio) in [("skylake-sp", 21), ("sapphire-rapids", 26)] {
        let mut subject = Subject::with(model, Mode::Long, read);
        assert_eq!(subject.run(), Outcome::Done, "{model}");
        assert_eq!(subject.cpu.registers.gpr[0], ratio << 8, "{model}: no limit can be set");
        assert_eq!(subject.cpu.registers.gpr[2], 10 << 8, "{model}: 1 GHz");
    }
    let mut subject = Subject::with(AMD, Mode::Long, read);
    assert_eq!(subject.run(), event(13, Some(0), 5));
    let mut subject = Subject::with(INTEL, Mode::Long, |a| {
        a.mov(ecx, arch::msr::PLATFORM_INFO)?;
        a.wrmsr()
    });
    assert_eq!(subject.run(), event(13, Some(0), 5), "it is read-only");
}

/// [SDM4 "MSR_CORE_THREAD_COUNT"]
#[test]
fn the_enabled_cores_and_threads_are_those_of_the_package_on_intel_parts_only() {
    let read = |a: &mut CodeAssembler| {
        a.mov(ecx, arch::msr::CORE_THREAD_COUNT)?;
        a.rdmsr()
    };
    for (cpus, thread_bits, expected) in [(1, 0, 0x1_0001), (4, 0, 0x4_0004), (8, 1, 0x4_0008)] {
        let mut subject = Subject::with(INTEL, Mode::Long, read);
        subject.cpu.model.placement.package_cpus = cpus;
        subject.cpu.model.placement.thread_bits = thread_bits;
        assert_eq!(subject.run(), Outcome::Done, "{cpus}");
        assert_eq!(subject.cpu.registers.gpr[0], expected, "{cpus}");
        assert_eq!(subject.cpu.registers.gpr[2], 0, "{cpus}");
    }
    let mut subject = Subject::with(AMD, Mode::Long, read);
    assert_eq!(subject.run(), event(13, Some(0), 5));
    let mut subject = Subject::with(INTEL, Mode::Long, |a| {
        a.mov(ecx, arch::msr::CORE_THREAD_COUNT)?;
        a.wrmsr()
    });
    assert_eq!(subject.run(), event(13, Some(0), 5), "it is read-only");
}

/// [SDM3 "Masking Exceptions and Interrupts When Switching Stacks"]
#[test]
fn a_breakpoint_behind_a_load_of_ss_is_ignored_on_intel_parts_only() {
    for (model, expected) in [(AMD, event(1, None, 4)), (INTEL, Outcome::Done)] {
        let mut subject = Subject::with(model, Mode::Long, |a| {
            a.mov(eax, ss)?;
            a.mov(ss, eax)?;
            a.nop()
        });
        subject.cpu.debug.set_address(0, CODE + 4);
        subject.cpu.debug.load_dr7(0x402);
        subject.refresh();
        assert_eq!(subject.run(), expected, "{model}");
    }
}

/// [SDM3 "IA32_MCi_CTL MSRs"]
#[test]
fn machine_check_banks_are_switched_as_a_whole_on_intel_parts_only() {
    for (model, value, expected) in [
        (AMD, 0x10, Outcome::Done),
        (INTEL, 0x10, PROTECTION),
        (INTEL, 0, Outcome::Done),
        (INTEL, u64::MAX, Outcome::Done),
    ] {
        let mut subject = Subject::with(model, Mode::Long, |a| a.wrmsr());
        subject.cpu.registers.gpr[1] = arch::msr::MC0_CTL.into();
        subject.cpu.registers.gpr[0] = value & 0xFFFF_FFFF;
        subject.cpu.registers.gpr[2] = value >> 32;
        assert_eq!(subject.run(), expected, "{model} {value:#x}");
    }
}

#[test]
fn cpuid_describes_caches_and_topology_in_the_leaves_of_the_vendor() {
    for (model, intel) in [(AMD, false), (INTEL, true)] {
        let model = CpuModel::named(model).expect("the model exists");
        let is_there = |leaf| model.cpuid(leaf, 0).eax != 0;
        assert_eq!(is_there(2), intel);
        assert_eq!(is_there(4), intel);
        assert_eq!(is_there(0x8000_001D), !intel);
        assert_eq!(model.cpuid(0x8000_0000, 0).eax == 0x8000_0008, intel);
        assert_eq!(model.cpuid(0x8000_0001, 0).edx & 1 != 0, !intel, "leaf 1's bits repeated");
    }
}
