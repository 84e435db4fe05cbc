//! User interrupts. [SDM3 "User Interrupts"] [SDM2 "SENDUIPI"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject, UNDEFINED, event};
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage, Register};
use arch::control::{Cr4, rflags};
use arch::identity::Vector;
use arch::msr;
use arch::time::Picoseconds;
use cpu::UserInterrupts;
use iced_x86::code_asm::*;

const MODEL: &str = "sapphire-rapids";
/// The ordinary vector of notifications.
const UINV: u8 = 0xEC;
/// Supervisor's pages, as a kernel would have them.
const TABLE: u64 = SPARE;
const DESCRIPTOR: u64 = SPARE + 0x1000;
const AREA: u64 = SPARE + 0x2000;
/// The users' handler, in their view.
const HANDLER: u64 = CODE + 0x200;
const USER_VECTOR: u8 = 5;
const STATE: u64 = 1 << 14;

/// A subject with user interrupts enabled, about to execute `code`, with a target at index 1.
fn subject(mode: Mode, code: Code) -> Subject {
    let mut subject = Subject::with(MODEL, mode, code);
    // RBX tells the test which vector came; the frame goes back as UIRET wants it.
    subject.assemble(HANDLER, |a| {
        a.pop(rbx)?;
        a.uiret()
    });
    subject.cpu.control.switch_cr4(Cr4::UINTR, true);
    subject.cpu.control.uintr = UserInterrupts {
        flag: true,
        handler: USER + HANDLER,
        stack_adjustment: 128,
        misc: u64::from(UINV) << 32 | 2,
        descriptor: DESCRIPTOR,
        targets: TABLE | 1,
        ..UserInterrupts::default()
    };
    subject.put(TABLE + 16, 1 | u64::from(USER_VECTOR) << 8);
    subject.put(TABLE + 24, DESCRIPTOR);
    subject.put(DESCRIPTOR, u64::from(UINV) << 16 | 3 << 40);
    subject
}

/// As [`subject`], with requests that nobody has notified of.
fn requested(requests: u64, code: Code) -> Subject {
    let mut subject = subject(Mode::User, code);
    subject.cpu.control.uintr.requests = requests;
    // As the hypervisor or kernel that wrote the register has raised it.
    subject.cpu.pending.raise(cpu::Attention::USER_INTERRUPT);
    subject
}

/// An interrupt comes to the local APIC.
fn interrupt(subject: &mut Subject, vector: u8) {
    let (apic, mut effects) = (&mut subject.cpu.apic, Vec::new());
    apic.write_mmio(Register::SpuriousVector.offset(), 4, 0x1FF, Picoseconds::ZERO, &mut effects);
    let acceptance = apic.accept(&InterruptMessage {
        destination: 0,
        destination_mode: DestinationMode::Physical,
        delivery_mode: DeliveryMode::Fixed,
        vector: Vector(vector),
        is_level: false,
        is_asserted: true,
        is_x2apic: false,
    });
    subject.cpu.accepted(acceptance);
}

const INSTRUCTIONS: [(&str, Code); 5] = [
    ("CLUI", |a| a.db(&[0xF3, 0x0F, 0x01, 0xEE])),
    ("STUI", |a| a.db(&[0xF3, 0x0F, 0x01, 0xEF])),
    ("TESTUI", |a| a.db(&[0xF3, 0x0F, 0x01, 0xED])),
    ("UIRET", |a| a.db(&[0xF3, 0x0F, 0x01, 0xEC])),
    ("SENDUIPI", |a| a.db(&[0xF3, 0x0F, 0xC7, 0xF0])),
];

#[test]
fn instructions_are_undefined_without_feature_or_cr4_uintr_or_64_bit_mode() {
    for (name, code) in INSTRUCTIONS {
        let without = Subject::with("ice-lake-sp", Mode::User, code).run();
        assert_eq!(without, UNDEFINED, "{name} on a part without");
        let mut disabled = subject(Mode::User, code);
        disabled.cpu.control.switch_cr4(Cr4::UINTR, false);
        assert_eq!(disabled.run(), UNDEFINED, "{name} with CR4.UINTR clear");
    }
    for (name, code) in &INSTRUCTIONS[..4] {
        let mut compatible = Subject::with(MODEL, Mode::Compatibility, *code);
        compatible.cpu.control.switch_cr4(Cr4::UINTR, true);
        assert_eq!(compatible.run(), UNDEFINED, "{name} in compatibility mode");
    }
    let mut refused = subject(Mode::User, INSTRUCTIONS[4].1);
    refused.cpu.control.uintr.targets = TABLE;
    assert_eq!(refused.run(), UNDEFINED, "SENDUIPI with IA32_UINTR_TT[0] clear");
}

#[test]
fn cr4_uintr_is_reserved_on_parts_without() {
    let code: Code = |a| a.mov(cr4, rax);
    for (model, expected) in [(MODEL, Outcome::Done), ("ice-lake-sp", PROTECTION)] {
        let mut subject = Subject::with(model, Mode::Long, code);
        subject.cpu.registers.gpr[0] = (subject.cpu.control.cr4() | Cr4::UINTR).bits();
        assert_eq!(subject.run(), expected, "{model}");
    }
}

#[test]
fn the_flag_is_set_cleared_and_tested_at_every_privilege() {
    for mode in [Mode::Long, Mode::User] {
        let mut subject = subject(mode, |a| {
            a.stui()?;
            a.testui()?;
            a.setc(al)?;
            a.clui()?;
            a.stc()?;
            a.testui()?;
            a.setc(cl)
        });
        subject.cpu.control.uintr.flag = false;
        assert_eq!(subject.run(), Outcome::Done, "{mode:?}");
        let gpr = &subject.cpu.registers.gpr;
        assert_eq!((gpr[0], gpr[1]), (1, 0), "{mode:?}");
    }
}

#[test]
fn msrs_refuse_reserved_bits_and_addresses_that_are_not_canonical() {
    const FAR: u64 = 1 << 47;
    let rows = [
        (msr::UINTR_REQUESTS, u64::MAX, true),
        (msr::UINTR_HANDLER, 0xFFFF_8000_0000_0001, true),
        (msr::UINTR_HANDLER, FAR, false),
        (msr::UINTR_STACK_ADJUSTMENT, 0x7FFF_FFFF_FFFF, true),
        (msr::UINTR_STACK_ADJUSTMENT, FAR, false),
        (msr::UINTR_MISC, 0xFF_FFFF_FFFF, true),
        (msr::UINTR_MISC, 1 << 40, false),
        (msr::UINTR_MISC, 1 << 63, false),
        (msr::UINTR_DESCRIPTOR, 0x1240, true),
        (msr::UINTR_DESCRIPTOR, 0x1241, false),
        (msr::UINTR_DESCRIPTOR, 0x1260, false),
        (msr::UINTR_DESCRIPTOR, FAR, false),
        (msr::UINTR_TARGETS, 0x1251, true),
        (msr::UINTR_TARGETS, 0x1252, false),
        (msr::UINTR_TARGETS, 0x1258, false),
        (msr::UINTR_TARGETS, FAR, false),
    ];
    for (number, value, is_legal) in rows {
        for (model, is_there) in [(MODEL, true), ("ice-lake-sp", false)] {
            let mut subject = Subject::with(model, Mode::Long, |a| {
                a.wrmsr()?;
                a.rdmsr()
            });
            subject.cpu.registers.gpr[1] = number.into();
            subject.cpu.registers.gpr[0] = value & 0xFFFF_FFFF;
            subject.cpu.registers.gpr[2] = value >> 32;
            let expected = if is_legal && is_there { Outcome::Done } else { PROTECTION };
            assert_eq!(subject.run(), expected, "{model} {number:#x} {value:#x}");
            let read = subject.cpu.registers.gpr[0] | subject.cpu.registers.gpr[2] << 32;
            assert_eq!(read, value, "{model} {number:#x}");
        }
    }
}

#[test]
fn senduipi_refuses_entries_and_descriptors_by_their_bits() {
    const ENTRY: u64 = 1 | (USER_VECTOR as u64) << 8;
    let rows = [
        ("a legal target", 1, ENTRY, DESCRIPTOR, 0, Outcome::Done),
        ("beyond the table", 3, ENTRY, DESCRIPTOR, 0, PROTECTION),
        ("an index of 64 bits", 1 << 32 | 1, ENTRY, DESCRIPTOR, 0, PROTECTION),
        ("not valid", 1, ENTRY & !1, DESCRIPTOR, 0, PROTECTION),
        ("a reserved bit", 1, ENTRY | 2, DESCRIPTOR, 0, PROTECTION),
        ("a reserved bit above", 1, ENTRY | 1 << 63, DESCRIPTOR, 0, PROTECTION),
        ("vector 64", 1, 0x4001, DESCRIPTOR, 0, PROTECTION),
        ("not aligned", 1, ENTRY, DESCRIPTOR + 16, 0, PROTECTION),
        ("not canonical", 1, ENTRY, 1 << 47, 0, PROTECTION),
        ("a descriptor's reserved bit", 1, ENTRY, DESCRIPTOR, 4, PROTECTION),
        ("a descriptor's reserved bit above", 1, ENTRY, DESCRIPTOR, 1 << 24, PROTECTION),
    ];
    for (rule, index, entry, descriptor, bits, expected) in rows {
        let mut subject = subject(Mode::User, |a| a.senduipi(rax));
        subject.cpu.registers.gpr[0] = index;
        subject.put(TABLE + 16, entry);
        subject.put(TABLE + 24, descriptor);
        subject.put(DESCRIPTOR, subject.get(DESCRIPTOR) | bits);
        let before = subject.get(DESCRIPTOR);
        assert_eq!(subject.run(), expected, "{rule}");
        if expected != Outcome::Done {
            let now = (subject.get(DESCRIPTOR), subject.get(DESCRIPTOR + 8));
            assert_eq!(now, (before, 0), "{rule}");
        }
    }
}

#[test]
fn senduipi_posts_and_notifies_unless_outstanding_or_suppressed() {
    for (status, notifies) in [(0, true), (1, false), (2, false), (3, false)] {
        let mut subject = subject(Mode::User, |a| a.senduipi(rax));
        subject.cpu.registers.gpr[0] = 1;
        subject.put(DESCRIPTOR, subject.get(DESCRIPTOR) | status);
        assert_eq!(subject.run(), Outcome::Done);
        assert_eq!(subject.get(DESCRIPTOR + 8), 1 << USER_VECTOR, "{status}");
        assert_eq!(subject.get(DESCRIPTOR) & 3, if notifies { 1 } else { status });
        let (apic, now) = (&mut subject.cpu.apic, Picoseconds::ZERO);
        let command = [0x300, 0x310].map(|offset| apic.read_mmio(offset, 4, now) as u32);
        let sent = if notifies { [u32::from(UINV), 3 << 24] } else { [0, 0] };
        assert_eq!(command, sent, "{status}: the APIC ID is in NDST[15:8]");
    }
}

#[test]
fn senduipi_reads_its_structures_as_the_supervisor() {
    let mut subject = subject(Mode::User, |a| a.senduipi(rax));
    subject.cpu.registers.gpr[0] = 1;
    // A page of neither view.
    subject.cpu.control.uintr.targets = (4 << 20) + 1;
    assert_eq!(subject.run(), event(14, Some(0), 0), "no user's access in the error code");
    assert_eq!(subject.cpu.control.cr2, (4 << 20) + 16);
}

#[test]
fn a_notification_moves_requests_without_a_handler_at_any_privilege() {
    for mode in [Mode::Long, Mode::User] {
        let mut subject = subject(mode, |a| a.nop());
        subject.cpu.control.uintr.flag = false;
        subject.cpu.control.uintr.requests = 2;
        subject.put(DESCRIPTOR, subject.get(DESCRIPTOR) | 1);
        subject.put(DESCRIPTOR + 8, 0x8000_0000_0000_0010);
        subject.cpu.registers.flags.set_bits(2 | rflags::IF);
        interrupt(&mut subject, UINV);
        assert_eq!(subject.run(), Outcome::Done, "{mode:?}");
        assert_eq!(subject.cpu.control.uintr.requests, 0x8000_0000_0000_0012, "{mode:?}");
        assert_eq!(subject.get(DESCRIPTOR) & 1, 0, "ON is clear");
        assert_eq!(subject.get(DESCRIPTOR + 8), 0, "PIR is clear");
        let in_service = Register::InService(UINV / 32).offset();
        assert_eq!(subject.cpu.apic.read_mmio(in_service, 4, Picoseconds::ZERO), 0, "EOI");
    }
}

#[test]
fn only_the_enabled_vector_of_notifications_is_one() {
    let rows = [
        ("another vector", true, UINV, UINV - 1, true),
        ("CR4.UINTR clear", false, UINV, UINV, true),
        ("IF clear", true, UINV, UINV, false),
    ];
    for (rule, is_enabled, notification, vector, has_if) in rows {
        let mut subject = subject(Mode::Long, |a| a.nop());
        subject.cpu.control.switch_cr4(Cr4::UINTR, is_enabled);
        subject.cpu.control.uintr.misc = u64::from(notification) << 32;
        subject.put(DESCRIPTOR + 8, 1);
        let flags = if has_if { 2 | rflags::IF } else { 2 };
        subject.cpu.registers.flags.set_bits(flags);
        interrupt(&mut subject, vector);
        let expected = if has_if { event(vector, None, 0) } else { Outcome::Done };
        assert_eq!(subject.run(), expected, "{rule}");
        assert_eq!(subject.cpu.control.uintr.requests, 0, "{rule}");
    }
}

#[test]
fn a_notification_whose_descriptor_is_not_mapped_faults_as_the_supervisor() {
    let mut subject = subject(Mode::User, |a| a.nop());
    subject.cpu.control.uintr.descriptor = 4 << 20;
    subject.cpu.registers.flags.set_bits(2 | rflags::IF);
    interrupt(&mut subject, UINV);
    assert_eq!(subject.run(), event(14, Some(2), 0));
}

#[test]
fn requests_are_delivered_from_the_highest_down_with_if_clear() {
    let mut subject = requested(1 << 63 | 1 << 7, |a| {
        a.mov(rcx, rbx)?;
        a.nop()
    });
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.registers.gpr[3], 7, "the lower came last");
    assert_eq!(subject.cpu.control.uintr.requests, 0);
    assert!(subject.cpu.control.uintr.flag, "UIRET sets it");
}

#[test]
fn delivery_waits_for_the_flag_the_privilege_and_cr4() {
    type Hold = fn(&mut Subject);
    let rows: [(&str, Mode, Hold); 3] = [
        ("UIF clear", Mode::User, |s| s.cpu.control.uintr.flag = false),
        ("CPL 0", Mode::Long, |_| {}),
        ("CR4.UINTR clear", Mode::User, |s| s.cpu.control.switch_cr4(Cr4::UINTR, false)),
    ];
    for (rule, mode, hold) in rows {
        let mut subject = subject(mode, |a| a.nop());
        subject.cpu.control.uintr.requests = 1;
        subject.cpu.pending.raise(cpu::Attention::USER_INTERRUPT);
        hold(&mut subject);
        assert_eq!(subject.run(), Outcome::Done, "{rule}");
        assert_eq!(subject.cpu.control.uintr.requests, 1, "{rule}");
    }
}

#[test]
fn stui_and_a_return_to_users_let_what_waits_in_at_once() {
    let mut opened = requested(1 << 9, |a| {
        a.stui()?;
        a.mov(rcx, rbx)?;
        a.nop()
    });
    opened.cpu.control.uintr.flag = false;
    assert_eq!(opened.run(), Outcome::Done);
    assert_eq!(opened.cpu.registers.gpr[1], 9, "behind STUI");

    let mut returned = subject(Mode::Long, |a| {
        a.wrmsr()?;
        a.push(i32::from(USER_DATA))?;
        a.push(rdi)?;
        a.push(0x2)?;
        a.push(i32::from(USER_CODE_64))?;
        a.push(rsi)?;
        a.iretq()
    });
    returned.cpu.registers.gpr[0] = 1 << 4;
    returned.cpu.registers.gpr[1] = msr::UINTR_REQUESTS.into();
    returned.cpu.registers.gpr[7] = USER_STACK;
    returned.cpu.registers.gpr[6] = USER + CODE + 0x300;
    returned.memory.write(arch::address::SystemPhysical(CODE + 0x300), &[0xCD, 0x80]).expect("RAM");
    assert_eq!(returned.run(), Outcome::Done);
    assert_eq!(returned.cpu.registers.gpr[3], 4, "behind IRET");
}

#[test]
fn the_frame_has_stack_flags_place_and_vector_below_the_adjusted_stack() {
    const OTHER: u64 = USER + 0xA800;
    for (adjustment, top) in [
        (0, USER_STACK),
        (128, USER_STACK - 128),
        (136, (USER_STACK - 136) & !15),
        (OTHER | 1, OTHER),
    ] {
        let mut subject = requested(1 << USER_VECTOR, |a| a.nop());
        subject.assemble(HANDLER, |a| a.nop());
        subject.cpu.control.uintr.stack_adjustment = adjustment;
        subject.cpu.registers.flags.set_bits(2 | rflags::CF | rflags::TF);
        subject.cpu.pending.raise(cpu::Attention::SINGLE_STEP);
        assert_eq!(subject.run(), Outcome::Done, "{adjustment:#x}");
        assert_eq!(subject.frame(3), top - 32, "{adjustment:#x}: RSP in the handler");
        let frame = [8, 16, 24, 32].map(|below| subject.get((top - below) % USER));
        let flags = 2 | rflags::CF | rflags::TF;
        assert_eq!(frame, [USER_STACK, flags, USER + CODE, USER_VECTOR.into()], "{adjustment:#x}");
        assert_eq!(subject.frame(2) & rflags::TF, 0, "TF is clear in the handler");
        assert!(!subject.cpu.control.uintr.flag, "and so is UIF");
    }
}

#[test]
fn a_delivery_that_faults_changes_nothing() {
    let rows = [
        ("a handler that is not canonical", 1 << 47, 128, event(13, Some(0), 0)),
        ("a stack that is the supervisor's", USER + HANDLER, 0x9001, event(14, Some(7), 0)),
        ("a stack that is not canonical", USER + HANDLER, 1 << 47 | 0x101, event(12, Some(0), 0)),
    ];
    for (rule, handler, adjustment, expected) in rows {
        let mut subject = requested(1 << USER_VECTOR, |a| a.nop());
        subject.cpu.control.uintr.handler = handler;
        subject.cpu.control.uintr.stack_adjustment = adjustment;
        assert_eq!(subject.run(), expected, "{rule}");
        assert_eq!(subject.cpu.control.uintr.requests, 1 << USER_VECTOR, "{rule}");
        assert!(subject.cpu.control.uintr.flag, "{rule}");
    }
}

#[test]
fn uiret_returns_what_users_may_set() {
    let mut subject = subject(Mode::User, |a| a.uiret());
    subject.cpu.control.uintr.flag = false;
    let target = USER + CODE + 0x300;
    subject.memory.write(arch::address::SystemPhysical(CODE + 0x300), &[0xCD, 0x80]).expect("RAM");
    let stack = USER_STACK % USER;
    subject.put(stack, target);
    subject.put(stack + 8, rflags::ALL & !rflags::TF & !rflags::RF & !rflags::VM);
    subject.put(stack + 16, USER_STACK - 0x100);
    assert_eq!(subject.run(), Outcome::Done);
    assert!(subject.cpu.control.uintr.flag);
    assert_eq!(subject.frame(3), USER_STACK - 0x100);
    let expected =
        rflags::STATUS | rflags::FIXED | rflags::DF | rflags::NT | rflags::AC | rflags::ID;
    assert_eq!(subject.frame(2), expected, "neither IF, IOPL, VIF nor VIP");

    let mut far = self::subject(Mode::User, |a| a.uiret());
    far.put(stack, 1 << 47);
    assert_eq!(far.run(), PROTECTION);
}

#[test]
fn xsaves_stores_the_state_and_stops_notifications_until_xrstors() {
    let code: Code = |a| {
        a.xsaves(ptr(rbx))?;
        a.xrstors(ptr(rbx))
    };
    for pkru in [0, 1 << 9] {
        let mut subject = subject(Mode::Long, code);
        subject.cpu.control.switch_cr4(Cr4::OSXSAVE, true);
        subject.cpu.control.xcr0 = 3 | pkru;
        subject.cpu.control.msr.xss = STATE;
        subject.cpu.registers.gpr[0] = STATE | pkru;
        subject.cpu.registers.gpr[3] = AREA;
        let before = UserInterrupts { requests: 0x55, ..subject.cpu.control.uintr };
        subject.cpu.control.uintr = before;
        assert_eq!(subject.run(), Outcome::Done);
        assert_eq!(subject.cpu.control.uintr, before, "it comes back whole");
        let at = AREA + 576 + if pkru != 0 { 8 } else { 0 };
        assert_eq!(subject.get(AREA + 520), 1 << 63 | STATE | pkru, "XCOMP_BV");
        assert_eq!(subject.get(at), before.handler);
        assert_eq!(subject.get(at + 16), 1 << 63 | before.misc, "UIF beside UINV and UITTSZ");
        assert_eq!(subject.get(at + 32), 0x55);
    }
}

#[test]
fn xrstors_refuses_the_state_while_notifications_are_taken_or_it_is_illegal() {
    let rows = [
        ("UINV is zero", 0, 0, 0, Outcome::Done),
        ("UINV is not", u64::from(UINV) << 32, 0, 0, PROTECTION),
        ("a reserved bit of MISC", 0, 16, 1 << 40, PROTECTION),
        ("a handler that is not canonical", 0, 0, 1 << 47, PROTECTION),
        ("a descriptor that is not aligned", 0, 24, 0x20, PROTECTION),
    ];
    for (rule, misc, offset, value, expected) in rows {
        let mut subject = subject(Mode::Long, |a| a.xrstors(ptr(rbx)));
        subject.cpu.control.switch_cr4(Cr4::OSXSAVE, true);
        subject.cpu.control.msr.xss = STATE;
        subject.cpu.control.uintr.misc = misc;
        subject.cpu.registers.gpr[0] = STATE;
        subject.cpu.registers.gpr[3] = AREA;
        subject.put(AREA + 512, STATE);
        subject.put(AREA + 520, 1 << 63 | STATE);
        subject.put(AREA + 576 + offset, value);
        assert_eq!(subject.run(), expected, "{rule}");
    }
}
