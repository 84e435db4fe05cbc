//! Which instructions exit, and with what qualification.
//! [SDM3 "Instructions That Cause VM Exits Conditionally"]

use crate::lab::*;
use arch::control::Cr4;
use arch::vmx::ExitReason;
use arch::vmx::control::{PrimaryControls, SecondaryControls};
use arch::vmx::field::{control, exit, guest};
use iced_x86::code_asm::*;

type Code = fn(&mut CodeAssembler);

/// The exit of a guest that executes `code` and then HLT.
fn exits(lab: impl FnOnce(&mut Lab), code: impl FnOnce(&mut CodeAssembler)) -> (ExitReason, Lab) {
    let mut guest = Lab::new(|a| {
        code(a);
        a.hlt().unwrap();
    });
    lab(&mut guest);
    (guest.run(), guest)
}

#[test]
fn some_instructions_always_exit() {
    let codes: [(ExitReason, Code); 6] = [
        (ExitReason::Cpuid, |a| a.cpuid().unwrap()),
        (ExitReason::Invd, |a| a.invd().unwrap()),
        (ExitReason::Xsetbv, |a| a.xsetbv().unwrap()),
        (ExitReason::Vmcall, |a| a.vmcall().unwrap()),
        (ExitReason::Vmxoff, |a| a.vmxoff().unwrap()),
        (ExitReason::Vmlaunch, |a| a.vmlaunch().unwrap()),
    ];
    for (reason, code) in codes {
        let osxsave = |lab: &mut Lab| lab.set_bits(guest::CR4, 1u64 << 18);
        let (found, lab) = exits(osxsave, code);
        assert_eq!(found, reason);
        assert_eq!(lab.get(guest::RIP), GUEST_CODE, "{reason:?}");
        let length = lab.get(exit::INSTRUCTION_LENGTH);
        assert_eq!(
            length,
            if reason == ExitReason::Cpuid || reason == ExitReason::Invd { 2 } else { 3 }
        );
    }
}

#[test]
fn others_exit_with_their_control() {
    let rows: [(ExitReason, PrimaryControls, Code); 5] = [
        (ExitReason::Rdtsc, PrimaryControls::RDTSC_EXITING, |a| a.rdtsc().unwrap()),
        (ExitReason::Rdpmc, PrimaryControls::RDPMC_EXITING, |a| a.rdpmc().unwrap()),
        (ExitReason::Invlpg, PrimaryControls::INVLPG_EXITING, |a| {
            a.invlpg(byte_ptr(0x5678)).unwrap();
        }),
        (ExitReason::Pause, PrimaryControls::PAUSE_EXITING, |a| a.pause().unwrap()),
        (ExitReason::DebugRegister, PrimaryControls::MOV_DR_EXITING, |a| {
            a.mov(dr7, esi).unwrap();
        }),
    ];
    for (reason, bit, code) in rows {
        let (found, _) = exits(|_| (), code);
        assert_ne!(found, reason, "without the control");
        let (found, lab) = exits(|lab| lab.primary(bit), code);
        assert_eq!(found, reason);
        let qualification = match reason {
            ExitReason::Invlpg => 0x5678,
            ExitReason::DebugRegister => 7 | 6 << 8,
            _ => 0,
        };
        assert_eq!(lab.qualification(), qualification, "{reason:?}");
    }
}

#[test]
fn control_registers_exit_by_mask_and_shadow() {
    // The guest owns all except TS, which it reads as set.
    let masked = |lab: &mut Lab| {
        lab.set(control::CR0_MASK, 8);
        lab.set(control::CR0_SHADOW, 8);
    };
    let (reason, lab) = exits(masked, |a| {
        a.mov(eax, cr0).unwrap();
        a.mov(cr0, eax).unwrap();
        a.clts().unwrap();
    });
    assert_eq!(reason, ExitReason::ControlRegister);
    assert_eq!(lab.qualification(), 2 << 4, "CLTS, after a write that changes nothing");
    assert_eq!(lab.cpu.registers.gpr[0] & 8, 8, "the shadow is read");
    assert_eq!(lab.get(guest::CR0) & 8, 0, "the bit itself is the hypervisor's");
    let (reason, lab) = exits(masked, |a| {
        a.xor(ecx, ecx).unwrap();
        a.lmsw(ecx).unwrap();
    });
    assert_eq!((reason, lab.qualification()), (ExitReason::ControlRegister, 3 << 4));
}

#[test]
fn cr3_exits_unless_the_value_is_a_target() {
    let write = |target: u64| {
        exits(
            |lab| {
                lab.primary(PrimaryControls::CR3_LOAD_EXITING);
                lab.set(control::CR3_TARGET_COUNT, 1);
                lab.set(control::CR3_TARGET_0, target);
            },
            |a| {
                a.mov(ebx, 0x6000).unwrap();
                a.mov(cr3, ebx).unwrap();
            },
        )
    };
    let (reason, lab) = write(0x7000);
    assert_eq!((reason, lab.qualification()), (ExitReason::ControlRegister, 3 | 3 << 8));
    assert_eq!(write(0x6000).0, ExitReason::Hlt);
}

#[test]
fn ports_exit_by_bitmap_or_all() {
    let out = |a: &mut CodeAssembler| a.out(0x80u32, al).unwrap();
    assert_eq!(exits(|_| (), out).0, ExitReason::Hlt);
    let (reason, lab) = exits(|lab| lab.primary(PrimaryControls::UNCONDITIONAL_IO_EXITING), out);
    assert_eq!((reason, lab.qualification()), (ExitReason::IoInstruction, 0x80_0000 | 1 << 6));
    let bitmaps = |bit: u64| {
        move |lab: &mut Lab| {
            lab.primary(PrimaryControls::IO_BITMAPS | PrimaryControls::UNCONDITIONAL_IO_EXITING);
            lab.write(IO_BITMAPS + 0x80 / 8, bit);
        }
    };
    assert_eq!(exits(bitmaps(0), out).0, ExitReason::Hlt, "the bitmaps go first");
    assert_eq!(exits(bitmaps(1), out).0, ExitReason::IoInstruction);
    let (reason, lab) = exits(bitmaps(1 << 2), |a| {
        a.mov(dx, 0x81).unwrap();
        a.in_(ax, dx).unwrap();
    });
    assert_eq!((reason, lab.qualification()), (ExitReason::IoInstruction, 0x81_0000 | 1 << 3 | 1));
    let (reason, _) = exits(bitmaps(0), |a| {
        a.mov(dx, 0xFFFF).unwrap();
        a.in_(ax, dx).unwrap();
    });
    assert_eq!(reason, ExitReason::IoInstruction, "an access that wraps around");
}

#[test]
fn msrs_exit_by_bitmap_and_beyond_it() {
    let read = |number: u32| {
        move |a: &mut CodeAssembler| {
            a.mov(ecx, number).unwrap();
            a.rdmsr().unwrap();
        }
    };
    let bitmaps = |lab: &mut Lab| lab.primary(PrimaryControls::MSR_BITMAPS);
    assert_eq!(exits(|_| (), read(0x174)).0, ExitReason::Rdmsr);
    assert_eq!(exits(bitmaps, read(0x174)).0, ExitReason::Hlt);
    assert_eq!(exits(bitmaps, read(0xC000_0080)).0, ExitReason::Hlt);
    assert_eq!(exits(bitmaps, read(0x4000_0000)).0, ExitReason::Rdmsr);
    let marked = |lab: &mut Lab| {
        bitmaps(lab);
        lab.write(MSR_BITMAPS + 0x400 + 0x80 / 8, 1);
    };
    assert_eq!(exits(marked, read(0xC000_0080)).0, ExitReason::Rdmsr);
}

#[test]
fn instructions_that_are_not_enabled_are_undefined() {
    let codes: [(SecondaryControls, Code); 2] = [
        (SecondaryControls::RDTSCP, |a| a.rdtscp().unwrap()),
        (SecondaryControls::INVPCID, |a| a.invpcid(ecx, xmmword_ptr(GUEST_DATA)).unwrap()),
    ];
    for (bit, code) in codes {
        let undefined = |lab: &mut Lab| lab.set(control::EXCEPTION_BITMAP, 1 << 6);
        let (reason, lab) = exits(undefined, code);
        assert_eq!(reason, ExitReason::ExceptionOrNmi, "{bit:?}");
        assert_eq!(lab.get(exit::INTERRUPTION_INFO) & 0xFF, 6, "{bit:?}");
        let (reason, _) = exits(|lab| lab.secondary(bit), code);
        assert_eq!(reason, ExitReason::Hlt, "{bit:?}");
    }
}

#[test]
fn exits_of_descriptor_tables_describe_the_operand() {
    let exiting = |lab: &mut Lab| lab.secondary(SecondaryControls::DESCRIPTOR_TABLE_EXITING);
    let (reason, lab) = exits(exiting, |a| {
        a.sidt(dword_ptr(ebx + esi * 4 + 0x10)).unwrap();
    });
    assert_eq!((reason, lab.qualification()), (ExitReason::GdtrOrIdtr, 0x10));
    let expected = 2 | 1 << 7 | 1 << 11 | 3 << 15 | 6 << 18 | 3 << 23 | 1 << 28;
    assert_eq!(lab.get(exit::INSTRUCTION_INFORMATION), expected);
    let (reason, lab) = exits(exiting, |a| a.str(edi).unwrap());
    assert_eq!(reason, ExitReason::LdtrOrTr);
    assert_eq!(lab.get(exit::INSTRUCTION_INFORMATION), 7 << 3 | 1 << 10 | 1 << 28);
}

#[test]
fn random_numbers_exit_with_their_control_and_describe_the_register() {
    let rows: [(ExitReason, SecondaryControls, u64, Code); 3] = [
        (ExitReason::Rdrand, SecondaryControls::RDRAND_EXITING, 5 << 3 | 1 << 11, |a| {
            a.rdrand(ebp).unwrap();
        }),
        (ExitReason::Rdseed, SecondaryControls::RDSEED_EXITING, 6 << 3 | 1 << 11, |a| {
            a.rdseed(esi).unwrap();
        }),
        (ExitReason::Rdseed, SecondaryControls::RDSEED_EXITING, 7 << 3, |a| {
            a.rdseed(di).unwrap();
        }),
    ];
    for (reason, bit, information, code) in rows {
        let (found, _) = exits(|lab| lab.secondary(!bit & NUMBERS), code);
        assert_eq!(found, ExitReason::Hlt, "the other control alone");
        let (found, lab) = exits(|lab| lab.secondary(bit), code);
        assert_eq!((found, lab.qualification()), (reason, 0));
        assert_eq!(lab.get(exit::INSTRUCTION_INFORMATION), information, "{reason:?}");
        assert_eq!(lab.get(guest::RIP), GUEST_CODE, "{reason:?}");
    }
}

const NUMBERS: SecondaryControls =
    SecondaryControls::RDRAND_EXITING.union(SecondaryControls::RDSEED_EXITING);

#[test]
fn supervisor_state_exits_by_its_bitmap_and_is_undefined_without_the_control() {
    const COMPONENT: u64 = 1 << 8;
    let rows: [(ExitReason, Code); 2] = [
        (ExitReason::Xsaves, |a| a.xsaves(ptr(ebx + 0x40)).unwrap()),
        (ExitReason::Xrstors, |a| a.xrstors(ptr(ebx + 0x40)).unwrap()),
    ];
    for (reason, code) in rows {
        for (is_enabled, bitmap, xss, expected) in [
            (true, COMPONENT, COMPONENT, reason),
            (true, COMPONENT, 0, ExitReason::Hlt),
            (true, !COMPONENT, COMPONENT, ExitReason::Hlt),
            (false, COMPONENT, COMPONENT, ExitReason::ExceptionOrNmi),
        ] {
            let mut lab = Lab::on("skylake-sp");
            lab.cpu.control.msr.xss = xss;
            lab.set(control::EXCEPTION_BITMAP, 1 << 6);
            lab.set(guest::CR4, lab.get(guest::CR4) | Cr4::OSXSAVE.bits());
            lab.guest_code(|a| {
                a.mov(ebx, GUEST_DATA as u32).unwrap();
                a.mov(eax, COMPONENT as u32).unwrap();
                a.xor(edx, edx).unwrap();
                code(a);
                a.hlt().unwrap();
            });
            if is_enabled {
                lab.secondary(SecondaryControls::XSAVES_XRSTORS);
                lab.set(control::XSS_EXITING_BITMAP, bitmap);
            }
            assert_eq!(lab.run(), expected, "{is_enabled} {bitmap:#x} {xss:#x}");
            if expected == reason {
                assert_eq!(lab.qualification(), 0x40);
                let base_is_ebx = 1 << 7 | 1 << 22 | 3 << 15 | 3 << 23;
                assert_eq!(lab.get(exit::INSTRUCTION_INFORMATION), base_is_ebx);
            }
        }
    }
}

#[test]
fn rdpid_and_rdtscp_are_undefined_without_their_control() {
    let rows: [(&str, Code); 2] =
        [("RDPID", |a| a.rdpid(eax).unwrap()), ("RDTSCP", |a| a.rdtscp().unwrap())];
    for (name, code) in rows {
        for (control, expected) in [(false, GUEST_HANDLER), (true, GUEST_CODE)] {
            let mut lab = Lab::on("sapphire-rapids");
            lab.guest_code(|a| {
                code(a);
                a.hlt().unwrap();
            });
            if control {
                lab.secondary(SecondaryControls::RDTSCP);
            }
            assert_eq!(lab.run(), ExitReason::Hlt, "{name}");
            assert_eq!(lab.get(guest::RIP) & !0xF, expected, "{name}, control {control}");
        }
    }
}

#[test]
fn what_the_manual_does_not_explain_of_the_basic_capabilities_reads_zero() {
    for model in ["ivy-bridge-ep", "haswell-ep", "skylake-sp", "ice-lake-sp", "sapphire-rapids"] {
        let can = Lab::on(model).cpu.guest.vmx.capabilities.expect("VMX");
        assert_eq!(can.basic.into_bits() >> 57, 0, "{model}");
    }
}
