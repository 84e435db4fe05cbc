//! Instruction intercepts and their exit information. [APM2 "Instruction Intercepts"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::svm::exit::{ExitCode, IoPortInfo};
use arch::svm::intercept::{Intercepts, Vector3, Vector4};
use arch::svm::msr::permission_bit;
use arch::svm::vmcb::{control, save};
use iced_x86::code_asm::*;

type Code = fn(&mut CodeAssembler);
type Intercept = fn(&mut Intercepts);

/// The instruction, its intercept, and the exit.
const ROWS: &[(Code, Intercept, ExitCode)] = &[
    (|a| a.cpuid().unwrap(), |i| i.vector3 |= Vector3::CPUID, ExitCode::Cpuid),
    (|a| a.rdtsc().unwrap(), |i| i.vector3 |= Vector3::RDTSC, ExitCode::Rdtsc),
    (|a| a.rdpmc().unwrap(), |i| i.vector3 |= Vector3::RDPMC, ExitCode::Rdpmc),
    (|a| a.pushfd().unwrap(), |i| i.vector3 |= Vector3::PUSHF, ExitCode::Pushf),
    (|a| a.popfd().unwrap(), |i| i.vector3 |= Vector3::POPF, ExitCode::Popf),
    (|a| a.iretd().unwrap(), |i| i.vector3 |= Vector3::IRET, ExitCode::Iret),
    (|a| a.int(0x80).unwrap(), |i| i.vector3 |= Vector3::INT_N, ExitCode::SoftwareInterrupt),
    (|a| a.invd().unwrap(), |i| i.vector3 |= Vector3::INVD, ExitCode::Invd),
    (|a| a.pause().unwrap(), |i| i.vector3 |= Vector3::PAUSE, ExitCode::Pause),
    (|a| a.hlt().unwrap(), |i| i.vector3 |= Vector3::HLT, ExitCode::Hlt),
    (|a| a.sgdt(ptr(0xC000)).unwrap(), |i| i.vector3 |= Vector3::GDTR_READ, ExitCode::GdtrRead),
    (|a| a.sidt(ptr(0xC000)).unwrap(), |i| i.vector3 |= Vector3::IDTR_READ, ExitCode::IdtrRead),
    (|a| a.sldt(ax).unwrap(), |i| i.vector3 |= Vector3::LDTR_READ, ExitCode::LdtrRead),
    (|a| a.str(ax).unwrap(), |i| i.vector3 |= Vector3::TR_READ, ExitCode::TrRead),
    (|a| a.lldt(ax).unwrap(), |i| i.vector3 |= Vector3::LDTR_WRITE, ExitCode::LdtrWrite),
    (|a| a.vmmcall().unwrap(), |i| i.vector4 |= Vector4::VMMCALL, ExitCode::Vmmcall),
    (|a| a.vmload().unwrap(), |i| i.vector4 |= Vector4::VMLOAD, ExitCode::Vmload),
    (|a| a.vmsave().unwrap(), |i| i.vector4 |= Vector4::VMSAVE, ExitCode::Vmsave),
    (|a| a.vmrun().unwrap(), |_| (), ExitCode::Vmrun),
    (|a| a.stgi().unwrap(), |i| i.vector4 |= Vector4::STGI, ExitCode::Stgi),
    (|a| a.clgi().unwrap(), |i| i.vector4 |= Vector4::CLGI, ExitCode::Clgi),
    (|a| a.rdtscp().unwrap(), |i| i.vector4 |= Vector4::RDTSCP, ExitCode::Rdtscp),
    (|a| a.int1().unwrap(), |i| i.vector4 |= Vector4::ICEBP, ExitCode::Icebp),
    (|a| a.wbinvd().unwrap(), |i| i.vector4 |= Vector4::WBINVD, ExitCode::Wbinvd),
    (|a| a.monitor().unwrap(), |i| i.vector4 |= Vector4::MONITOR, ExitCode::Monitor),
    (|a| a.mwait().unwrap(), |i| i.vector4 |= Vector4::MWAIT, ExitCode::Mwait),
    (|a| a.mov(eax, cr3).unwrap(), |i| i.control_registers = 1 << 3, ExitCode::ControlRead(3)),
    (|a| a.mov(cr4, eax).unwrap(), |i| i.control_registers = 1 << 20, ExitCode::ControlWrite(4)),
    (|a| a.clts().unwrap(), |i| i.control_registers = 1 << 16, ExitCode::ControlWrite(0)),
    (|a| a.smsw(ax).unwrap(), |i| i.control_registers = 1, ExitCode::ControlRead(0)),
    (|a| a.mov(eax, dr7).unwrap(), |i| i.debug_registers = 1 << 7, ExitCode::DebugRead(7)),
    (|a| a.mov(dr0, eax).unwrap(), |i| i.debug_registers = 1 << 16, ExitCode::DebugWrite(0)),
    (|a| a.ud2().unwrap(), |i| i.exceptions = 1 << 6, ExitCode::Exception(6)),
    (|a| a.int3().unwrap(), |i| i.exceptions = 1 << 3, ExitCode::Exception(3)),
];

#[test]
fn each_intercepted_instruction_exits_with_its_code_before_it_executes() {
    for (code, intercept, exit) in ROWS {
        let mut lab = Lab::new(|a| {
            a.nop().unwrap();
            code(a);
            a.hlt().unwrap();
        });
        lab.intercept(intercept);
        lab.cpu.registers.gpr[1] = 0;
        assert_eq!(lab.run(), *exit);
        assert_eq!(lab.get(save::RIP), GUEST_CODE + 1, "{exit:?}");
        assert!(!lab.get(control::EXITINTINFO).is_valid(), "{exit:?}");
    }
}

/// What makes an operand refuse.
type Operand = fn(&mut Lab);

/// The instruction, its intercept, what its operand is, and the exception that comes first.
const REFUSED: &[(Code, Intercept, Operand, u8)] = &[
    (|a| a.mov(eax, dr7).unwrap(), |i| i.debug_registers = 1 << 7, guard_debug, 1),
    (|a| a.mov(dr0, eax).unwrap(), |i| i.debug_registers = 1 << 16, guard_debug, 1),
    (
        |a| a.mov(cr0, eax).unwrap(),
        |i| i.control_registers = 1 << 16,
        |lab| eax_is(lab, 1 << 31),
        13,
    ),
    (
        |a| a.mov(cr4, eax).unwrap(),
        |i| i.control_registers = 1 << 20,
        |lab| eax_is(lab, 1 << 31),
        13,
    ),
    (|a| a.rdpmc().unwrap(), |i| i.vector3 |= Vector3::RDPMC, |lab| ecx_is(lab, 1 << 16), 13),
    (|a| a.monitor().unwrap(), |i| i.vector4 |= Vector4::MONITOR, |lab| ecx_is(lab, 1), 13),
    (|a| a.mwait().unwrap(), |i| i.vector4 |= Vector4::MWAIT, |lab| ecx_is(lab, 2), 13),
];

fn guard_debug(lab: &mut Lab) {
    lab.set(save::DR7, arch::control::debug::DR7_RESET | arch::control::debug::DR7_GENERAL_DETECT);
}

fn eax_is(lab: &mut Lab, value: u64) {
    lab.set(save::RAX, value);
}

fn ecx_is(lab: &mut Lab, value: u64) {
    lab.cpu.registers.gpr[1] = value;
}

#[test]
fn what_an_instruction_s_operands_raise_comes_before_its_intercept() {
    for (row, (code, intercept, operand, vector)) in REFUSED.iter().enumerate() {
        let mut lab = Lab::new(|a| {
            code(a);
            a.hlt().unwrap();
        });
        lab.cpu.registers.gpr[1] = 0;
        lab.intercept(|i| {
            i.exceptions = u32::MAX;
            intercept(i);
        });
        operand(&mut lab);
        assert_eq!(lab.run(), ExitCode::Exception(*vector), "row {row}");
        assert_eq!(lab.get(save::RIP), GUEST_CODE, "row {row}");
    }
}

/// It comes also where the operand cannot be read.
#[test]
fn intercept_of_lmsw_comes_before_its_operand_is_read() {
    for (control, selective, expected) in [
        (1 << 16, Vector3::empty(), ExitCode::ControlWrite(0)),
        (0, Vector3::CR0_SELECTIVE_WRITE, ExitCode::Cr0SelectiveWrite),
        (0, Vector3::empty(), ExitCode::NestedPageFault),
    ] {
        let mut lab = Lab::new(|a| {
            a.lmsw(word_ptr(0x4000_0000)).unwrap();
            a.hlt().unwrap();
        });
        lab.intercept(|i| {
            i.control_registers = control;
            i.vector3 |= selective;
        });
        assert_eq!(lab.run(), expected);
        assert_eq!(lab.get(save::RIP), GUEST_CODE);
    }
}

#[test]
fn the_intercept_of_an_armed_mwait_comes_before_the_other() {
    for (arms, expected) in [(true, ExitCode::MwaitArmed), (false, ExitCode::Mwait)] {
        let mut lab = Lab::new(|a| {
            if arms {
                a.monitor().unwrap();
            }
            a.mwait().unwrap();
        });
        lab.cpu.registers.gpr[1] = 0;
        lab.set(save::RAX, GUEST_DATA);
        lab.intercept(|i| i.vector4 |= Vector4::MWAIT | Vector4::MWAIT_ARMED);
        assert_eq!(lab.run(), expected);
    }
}

#[test]
fn instructions_that_are_not_intercepted_execute() {
    for (code, _, exit) in ROWS {
        let raised = match exit {
            // Intercepted always, or a row about exceptions.
            ExitCode::Vmrun | ExitCode::Hlt | ExitCode::Exception(_) => continue,
            // Pops a null code selector.
            ExitCode::Iret => Some(13),
            ExitCode::Vmmcall => Some(6),
            ExitCode::Icebp => Some(1),
            _ => None,
        };
        let mut lab = Lab::new(|a| {
            code(a);
            a.hlt().unwrap();
        });
        lab.intercept(|i| i.exceptions = u32::MAX);
        lab.cpu.registers.gpr[1] = 0;
        assert_eq!(lab.run(), raised.map_or(ExitCode::Hlt, ExitCode::Exception), "{exit:?}");
        let is_behind = (GUEST_CODE + 1..GUEST_CODE + 8).contains(&lab.get(save::RIP));
        let is_call = *exit == ExitCode::SoftwareInterrupt;
        assert!(is_behind || is_call || raised.is_some(), "{exit:?}");
        assert_eq!(lab.get(save::RIP) == GUEST_HANDLER, is_call, "{exit:?}");
    }
}

#[test]
fn rdpid_has_no_intercept() {
    let mut lab = Lab::new(|a| {
        a.rdpid(eax).unwrap();
        a.hlt().unwrap();
    });
    lab.intercept(|i| i.exceptions = u32::MAX);
    assert_eq!(lab.run(), ExitCode::Hlt);
}

#[test]
fn port_accesses_exit_by_the_map_with_their_particulars() {
    let code: Code = |a| {
        a.mov(dx, 0x3F8).unwrap();
        a.in_(al, dx).unwrap();
        a.out(0x80, eax).unwrap();
        a.hlt().unwrap();
    };
    let mut lab = Lab::new(code);
    lab.intercept(|i| i.vector3 |= Vector3::IOIO);
    assert_eq!(lab.run(), ExitCode::Hlt, "clear map");
    let mut lab = Lab::new(code);
    lab.intercept(|i| i.vector3 |= Vector3::IOIO);
    let map = SystemPhysical(IO_MAP);
    lab.memory.write(map.offset(0x3F8 / 8), &[1]).unwrap();
    lab.memory.write(map.offset(0x80 / 8), &[0b1000]).unwrap();
    assert_eq!(lab.run(), ExitCode::IoPort);
    let info = IoPortInfo::from_bits(lab.exit_info()[0]);
    assert!(info.is_input() && info.is_8_bit() && info.is_32_bit_address());
    assert_eq!(info.port(), 0x3F8);
    let next = lab.exit_info()[1];
    assert_eq!(next, lab.get(control::N_RIP));
    lab.set(save::RIP, next);
    assert_eq!(lab.resume(), ExitCode::IoPort, "port 83h is the last byte of the access");
    let info = IoPortInfo::from_bits(lab.exit_info()[0]);
    assert!(!info.is_input() && info.is_32_bit());
    assert_eq!(info.port(), 0x80);
    assert_eq!(lab.platform.ports, [], "nothing reached the port");
}

#[test]
fn string_port_accesses_report_segment_and_repetition() {
    let mut lab = Lab::new(|a| {
        a.mov(ecx, 3).unwrap();
        a.mov(dx, 0x3F8).unwrap();
        a.rep().outsb().unwrap();
        a.hlt().unwrap();
    });
    lab.intercept(|i| i.vector3 |= Vector3::IOIO);
    lab.memory.write(SystemPhysical(IO_MAP + 0x3F8 / 8), &[1]).unwrap();
    assert_eq!(lab.run(), ExitCode::IoPort);
    let info = IoPortInfo::from_bits(lab.exit_info()[0]);
    assert!(info.is_string() && info.is_repeated() && !info.is_input() && info.is_8_bit());
    assert_eq!(info.segment(), 3, "DS");
}

#[test]
fn msr_accesses_exit_by_the_map() {
    let code: Code = |a| {
        a.mov(ecx, 0xC000_0082u32).unwrap();
        a.rdmsr().unwrap();
        a.wrmsr().unwrap();
        a.hlt().unwrap();
    };
    for (offset, exits, info) in [(0, true, 0), (1, true, 1), (2, false, 0)] {
        let mut lab = Lab::new(code);
        lab.intercept(|i| i.vector3 |= Vector3::MSR);
        let bit = permission_bit(0xC000_0082).unwrap() + offset;
        let byte = SystemPhysical(MSR_MAP + u64::from(bit / 8));
        lab.memory.write(byte, &[1 << (bit % 8)]).unwrap();
        let expected = if exits { ExitCode::Msr } else { ExitCode::Hlt };
        assert_eq!(lab.run(), expected, "{offset}");
        assert_eq!(lab.exit_info()[0], info);
    }
    let mut lab = Lab::new(|a| {
        a.mov(ecx, 0x4000_0000).unwrap();
        a.rdmsr().unwrap();
    });
    lab.intercept(|i| i.vector3 |= Vector3::MSR);
    assert_eq!(lab.run(), ExitCode::Msr, "beyond the map");
}

#[test]
fn moves_to_control_registers_report_their_general_register() {
    let mut lab = Lab::new(|a| {
        a.mov(edi, 0x11).unwrap();
        a.mov(cr0, edi).unwrap();
    });
    lab.intercept(|i| i.control_registers = 1 << 16);
    assert_eq!(lab.run(), ExitCode::ControlWrite(0));
    assert_eq!(lab.exit_info()[0], 1 << 63 | 7);
    let mut lab = Lab::new(|a| a.clts().unwrap());
    lab.intercept(|i| i.control_registers = 1 << 16);
    assert_eq!(lab.run(), ExitCode::ControlWrite(0));
    assert_eq!(lab.exit_info()[0], 0, "CLTS is not a MOV");
}

#[test]
fn the_selective_cr0_intercept_lets_ts_and_mp_pass() {
    for (bits, exits) in [(1 << 1 | 1 << 3, false), (1 << 16, true), (1 << 18, true)] {
        let mut lab = Lab::new(|a| {
            a.mov(eax, cr0).unwrap();
            a.xor(eax, bits).unwrap();
            a.mov(cr0, eax).unwrap();
            a.hlt().unwrap();
        });
        lab.intercept(|i| i.vector3 |= Vector3::CR0_SELECTIVE_WRITE);
        let expected = if exits { ExitCode::Cr0SelectiveWrite } else { ExitCode::Hlt };
        assert_eq!(lab.run(), expected, "{bits:#x}");
    }
}

#[test]
fn decode_assists_name_the_vector_and_the_address() {
    let mut lab = Lab::new(|a| a.int(0x41).unwrap());
    lab.intercept(|i| i.vector3 |= Vector3::INT_N);
    assert_eq!(lab.run(), ExitCode::SoftwareInterrupt);
    assert_eq!(lab.exit_info()[0], 0x41);
    let mut lab = Lab::new(|a| a.invlpg(ptr(0x1_2345)).unwrap());
    lab.intercept(|i| i.vector3 |= Vector3::INVLPG);
    assert_eq!(lab.run(), ExitCode::Invlpg);
    assert_eq!(lab.exit_info()[0], 0x1_2345);
}

#[test]
fn the_pause_filter_lets_its_count_pass() {
    for (count, threshold, pauses, exits) in
        [(0, 0, 1, true), (3, 0, 3, false), (3, 0, 4, true), (3, 0xFFFF, 4, true)]
    {
        let mut lab = Lab::new(|a| {
            for _ in 0..pauses {
                a.pause().unwrap();
            }
            a.hlt().unwrap();
        });
        lab.intercept(|i| i.vector3 |= Vector3::PAUSE);
        lab.set(control::PAUSE_FILTER_COUNT, count);
        lab.set(control::PAUSE_FILTER_THRESHOLD, threshold);
        let expected = if exits { ExitCode::Pause } else { ExitCode::Hlt };
        assert_eq!(lab.run(), expected, "{count} {threshold} {pauses}");
    }
}

#[test]
fn pauses_further_apart_than_the_threshold_start_the_count_again() {
    let mut lab = Lab::new(|a| {
        for _ in 0..8 {
            a.pause().unwrap();
            for _ in 0..32 {
                a.nop().unwrap();
            }
        }
        a.hlt().unwrap();
    });
    lab.intercept(|i| i.vector3 |= Vector3::PAUSE);
    lab.set(control::PAUSE_FILTER_COUNT, 2);
    lab.set(control::PAUSE_FILTER_THRESHOLD, 4);
    assert_eq!(lab.run(), ExitCode::Hlt);
}

#[test]
fn a_write_trap_exits_after_the_write_with_the_value() {
    type Check = fn(&Lab) -> bool;
    let rows: &[(Code, Intercept, ExitCode, u64, Check)] = &[
        (
            |a| a.mov(cr3, eax).unwrap(),
            |i| traps(i, 3),
            ExitCode::ControlWriteTrap(3),
            0x5000,
            |l| l.get(save::CR3) == 0x5000,
        ),
        (
            |a| a.mov(cr4, ebx).unwrap(),
            |i| traps(i, 4),
            ExitCode::ControlWriteTrap(4),
            0x10,
            |l| l.get(save::CR4) == 0x10,
        ),
        (
            |a| a.clts().unwrap(),
            |i| traps(i, 0),
            ExitCode::ControlWriteTrap(0),
            0x11,
            |l| l.get(save::CR0) & 8 == 0,
        ),
        (
            |a| a.wrmsr().unwrap(),
            |i| i.vector4 |= Vector4::EFER_WRITE_TRAP,
            ExitCode::EferWriteTrap,
            0x1001,
            |l| l.get(save::EFER) == 0x1001,
        ),
    ];
    for (code, intercept, exit, value, is_written) in rows {
        let mut lab = Lab::new(code);
        lab.intercept(intercept);
        lab.set(save::CR0, 0x19);
        let is_msr = *exit == ExitCode::EferWriteTrap;
        lab.set(save::RAX, if is_msr { 0x1001 } else { 0x5000 });
        lab.cpu.registers.gpr[1] = 0xC000_0080;
        lab.cpu.registers.gpr[2] = 0;
        lab.cpu.registers.gpr[3] = 0x10;
        assert_eq!(lab.run(), *exit);
        assert_eq!(lab.exit_info()[0], *value, "{exit:?}");
        let length = if is_msr || *exit == ExitCode::ControlWriteTrap(0) { 2 } else { 3 };
        assert_eq!(lab.get(save::RIP), GUEST_CODE + length, "{exit:?}");
        assert!(is_written(&lab), "{exit:?}");
    }
}

fn traps(intercepts: &mut Intercepts, register: u32) {
    intercepts.vector4 |= Vector4::from_bits_retain(Vector4::CR0_WRITE_TRAP.bits() << register);
}

#[test]
fn a_write_that_faults_does_not_trap() {
    let mut lab = Lab::new(|a| a.mov(cr4, ebx).unwrap());
    lab.intercept(|i| {
        traps(i, 4);
        i.exceptions = 1 << 13;
    });
    lab.cpu.registers.gpr[3] = 1 << 31;
    assert_eq!(lab.run(), ExitCode::Exception(13));
    assert_eq!(lab.get(save::RIP), GUEST_CODE);
}

#[test]
fn the_msr_map_s_ranges_end_where_the_manual_says() {
    let rows = [
        (0x1FFF_u32, Some(0x7FF)),
        (0x2000, None),
        (0xBFFF_FFFF, None),
        (0xC000_0000, Some(0x800)),
        (0xC000_1FFF, Some(0xFFF)),
        (0xC000_2000, None),
        (0xC001_0000, Some(0x1000)),
        (0xC001_1FFF, Some(0x17FF)),
        (0xC001_2000, None),
    ];
    for (number, byte) in rows {
        // Everything is intercepted, but for the MSR's own two bits.
        let mut lab = Lab::new(|a| a.rdmsr().unwrap());
        lab.intercept(|i| {
            i.vector3 |= Vector3::MSR;
            i.exceptions = 1 << 13;
        });
        lab.memory.write(SystemPhysical(MSR_MAP), &[0xFF; 0x2000]).unwrap();
        if let Some(byte) = byte {
            let free = !(3u8 << (number % 4 * 2));
            lab.memory.write(SystemPhysical(MSR_MAP + byte), &[free]).unwrap();
        }
        lab.cpu.registers.gpr[1] = u64::from(number);
        assert_eq!(lab.run() == ExitCode::Msr, byte.is_none(), "{number:#x}");
    }
}

#[test]
fn skinit_does_not_exist_where_it_is_not_enumerated() {
    let mut lab = Lab::new(|a| a.skinit().unwrap());
    lab.intercept(|i| {
        i.vector4 |= Vector4::SKINIT;
        i.exceptions = 1 << 6;
    });
    assert_eq!(lab.run(), ExitCode::Exception(6));
}
