//! Random VMCS fields and random instructions: whatever a hypervisor asks for and a guest does, the
//! processor neither panics nor hangs, and what it says afterwards is what the manual allows.
//!
//! A round starts from a guest that runs, changes some fields to legal, nearly legal and random
//! values, and enters again and again. It follows from its seed, which a failure names;
//! `AVICENNA_FUZZ_ROUNDS` sets how many there are.

#[path = "../random_code.rs"]
mod random_code;

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::control::rflags;
use arch::vmx::control::{PrimaryControls, SecondaryControls};
use arch::vmx::field::{Field, Group, TABLE, control, exit, guest};
use arch::vmx::{ExitReason, InstructionError};
use bus::Random;
use cpu::{Activity, RunEnd};
use interrupt::local_apic::Acceptance;
use random_code::{CODE_BYTES, Digest};

#[cfg(test)]
const ROUNDS: u64 = 400;
/// Entries of a round, and instructions of each.
const ENTRIES: usize = 8;
const INSTRUCTIONS: u64 = 200;
/// A place in the table of fields, and a value.
const GIVEN_CHANGE: usize = 9;
const VALID: u64 = 1 << 31;
/// Where pages for every structure that a control may ask for lie.
const PAGES: u64 = 0x80_0000;

/// Instructions of this vendor alone.
const SENSITIVE: &[&[u8]] = &[
    &[0x0F, 0x01, 0xC1],             // VMCALL
    &[0x0F, 0x01, 0xC2],             // VMLAUNCH
    &[0x0F, 0x01, 0xC3],             // VMRESUME
    &[0x0F, 0x01, 0xC4],             // VMXOFF
    &[0x0F, 0x01, 0xD4],             // VMFUNC
    &[0x0F, 0x78, 0xD8],             // VMREAD EAX, EBX
    &[0x0F, 0x79, 0xD8],             // VMWRITE EBX, EAX
    &[0x66, 0x0F, 0x38, 0x80, 0x03], // INVEPT EAX, [EBX]
    &[0x66, 0x0F, 0x38, 0x81, 0x03], // INVVPID EAX, [EBX]
    &[0x66, 0x0F, 0x38, 0x82, 0x03], // INVPCID EAX, [EBX]
    &[0x0F, 0xC7, 0x33],             // VMPTRLD [EBX]
    &[0xF3, 0x0F, 0xC7, 0x33],       // VMXON [EBX]
    &[0x66, 0x0F, 0xC7, 0x33],       // VMCLEAR [EBX]
    &[0x0F, 0xC7, 0x3B],             // VMPTRST [EBX]
];

fn write_code(lab: &mut Lab, random: &mut Random) {
    let code = random_code::code(random, SENSITIVE, |random| random_value(random, 0));
    lab.memory.write(SystemPhysical(GUEST + GUEST_CODE), &code).expect("RAM");
}

fn random_value(random: &mut Random, before: u64) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => random.next(),
        3 => random.below(0x1_0000),
        4 => random.pick(&[GUEST_DATA, GUEST_STACK, GUEST_CODE, VMCS, VMXON, 0xFEE0_0300]),
        5 => TABLE[random.below(TABLE.len() as u64) as usize].field.encoding().into(),
        6 => PAGES + (random.below(16) << 12),
        _ => before ^ 1 << random.below(64),
    }
}

/// A page for everything that a control may ask for, so that most combinations run.
fn give_pages(lab: &mut Lab) {
    let fields: [Field; 10] = [
        control::VIRTUAL_APIC_ADDRESS,
        control::APIC_ACCESS_ADDRESS,
        control::POSTED_INTERRUPT_DESCRIPTOR,
        control::PML_ADDRESS,
        control::VMREAD_BITMAP,
        control::VMWRITE_BITMAP,
        control::EPTP_LIST,
        control::EXCEPTION_AREA,
        control::PID_POINTER_TABLE,
        control::EXIT_MSR_STORE_ADDRESS,
    ];
    for (page, field) in (0..).zip(fields) {
        lab.set(field, PAGES + (page << 12));
    }
    lab.set(control::VPID, 1);
    lab.set(control::TSC_MULTIPLIER, 1 << 48);
    lab.set(control::POSTED_INTERRUPT_VECTOR, 0xF2);
}

/// Some controls that the processor allows.
fn choose_controls(lab: &mut Lab, random: &mut Random) {
    let can = lab.cpu.guest.vmx.capabilities.expect("VMX");
    for (field, allowed) in
        [(control::PIN, can.pin), (control::PRIMARY, can.primary), (control::ENTRY, can.entry)]
    {
        if random.one_in(2) {
            let some = random.next() as u32 & random.next() as u32 & allowed.allowed;
            lab.set_bits(field, u64::from(some));
        }
    }
    lab.primary(PrimaryControls::SECONDARY_CONTROLS);
    let some = random.next() as u32 & random.next() as u32 & can.secondary.bits();
    lab.secondary(SecondaryControls::from_bits_retain(some));
}

fn change_fields(lab: &mut Lab, random: &mut Random) {
    for _ in 0..random.below(4) {
        let field = TABLE[random.below(TABLE.len() as u64) as usize].field;
        // The host has to go on.
        if field.group() != Group::Host {
            let value = random_value(random, lab.get(field));
            lab.set(field, value);
        }
    }
}

/// What an exit may leave in the VMCS. [SDM3 "VM Exits"]
fn check_exit(lab: &Lab) {
    let field = lab.reason();
    let reason = field.basic();
    assert!(!matches!(reason, ExitReason::Unknown(_)), "{reason:?}");
    let fails = matches!(
        reason,
        ExitReason::InvalidGuestState | ExitReason::MsrLoading | ExitReason::MachineCheckOnEntry
    );
    assert_eq!(field.is_entry_failure(), fails, "{reason:?}");
    if fails {
        return;
    }
    assert_eq!(lab.get(control::ENTRY_INTERRUPTION_INFO) & VALID, 0, "{reason:?}");
    let interrupts = lab.get(exit::INTERRUPTION_INFO) & VALID != 0;
    let may_interrupt =
        matches!(reason, ExitReason::ExceptionOrNmi | ExitReason::ExternalInterrupt);
    assert!(may_interrupt || !interrupts, "{reason:?}");
    let vectors = lab.get(exit::IDT_VECTORING_INFO) & VALID != 0;
    let may_vector = matches!(
        reason,
        ExitReason::ExceptionOrNmi
            | ExitReason::TaskSwitch
            | ExitReason::ApicAccess
            | ExitReason::EptViolation
            | ExitReason::EptMisconfiguration
            | ExitReason::PageModificationLogFull
    );
    assert!(may_vector || !vectors, "{reason:?} in delivery");
    assert!(lab.get(exit::INSTRUCTION_LENGTH) <= 15, "{reason:?}");
    let flags = lab.get(guest::RFLAGS);
    assert_eq!(flags & (!rflags::ALL | rflags::FIXED), rflags::FIXED, "{reason:?}");
    assert!(matches!(lab.get(guest::ACTIVITY), 0 | 1 | 3), "{reason:?}");
    let shadow = lab.get(guest::INTERRUPTIBILITY);
    assert!(shadow & !0xB == 0 && shadow & 3 != 3, "{reason:?}: {shadow:#x}");
}

/// One entry and what follows; false when the machine has ended.
fn enter(lab: &mut Lab, random: &mut Random) -> bool {
    for _ in 0..20 {
        match lab.run_for(INSTRUCTIONS) {
            RunEnd::Shutdown => return false,
            RunEnd::Idle if !lab.cpu.is_guest() => break,
            RunEnd::Idle => lab.cpu.accepted(random.pick(&[
                Acceptance::Nmi,
                Acceptance::Init,
                Acceptance::Startup(0x10),
            ])),
            _ if random.one_in(4) => lab.cpu.accepted(Acceptance::Init),
            _ => {}
        }
    }
    if lab.cpu.is_guest() {
        // It runs on: nothing has to stop it.
        return false;
    }
    if lab.cpu.registers.ip == HOST_EXIT + 1 {
        check_exit(lab);
        return true;
    }
    let failed = lab.cpu.registers.flags.bits() & rflags::STATUS;
    assert!(matches!(failed, rflags::CF | rflags::ZF), "VMfail says how: {failed:#x}");
    if let Some(error) = lab.failure() {
        let is_entry = matches!(
            error,
            InstructionError::EntryControls
                | InstructionError::EntryHostState
                | InstructionError::VmlaunchOfNonClear
                | InstructionError::VmresumeOfNonLaunched
        );
        assert!(is_entry, "{error:?}");
    }
    true
}

/// Field and value pairs, then the beginning of the guest's code: what a fuzzer gives in place of
/// random numbers.
fn take_given(lab: &mut Lab, given: &[u8]) {
    let Some((count, given)) = given.split_first() else { return };
    let changes = usize::from(count & 7).min(given.len() / GIVEN_CHANGE);
    let (fields, code) = given.split_at(changes * GIVEN_CHANGE);
    for change in fields.chunks_exact(GIVEN_CHANGE) {
        let field = TABLE[usize::from(change[0]) % TABLE.len()].field;
        let value = u64::from_le_bytes(change[1..].try_into().expect("eight bytes"));
        if field.group() != Group::Host {
            lab.set(field, value);
        }
    }
    let code = &code[..code.len().min(CODE_BYTES)];
    lab.memory.write(SystemPhysical(GUEST + GUEST_CODE), code).expect("RAM");
}

/// What an entry left behind: registers, the VMCS, the guest's stack and data, ports written.
fn digest(lab: &Lab, into: &mut Digest) {
    let registers = &lab.cpu.registers;
    registers.gpr.iter().for_each(|value| into.word(*value));
    into.word(registers.ip);
    into.word(registers.flags.bits());
    for page in [VMCS, GUEST + GUEST_STACK - 0x1000, GUEST + GUEST_DATA] {
        let start = page as usize;
        into.bytes(&lab.memory.ram[start..start + 0x1000]);
    }
    for (port, value) in &lab.platform.ports {
        into.word(u64::from(*port) << 32 | u64::from(*value));
    }
}

/// A round from its seed, a fuzzer gives some of it as bytes; the digest of what it left behind.
pub fn round(seed: u64, given: &[u8]) -> u64 {
    let mut random = Random(seed);
    let mut lab = Lab::on(random.pick(&["skylake-sp", "sapphire-rapids", "ivy-bridge-ep"]));
    give_pages(&mut lab);
    write_code(&mut lab, &mut random);
    if random.one_in(2) {
        lab.use_guest_paging();
    }
    if random.one_in(2) {
        choose_controls(&mut lab, &mut random);
    }
    take_given(&mut lab, given);
    lab.guest_handler(|a| {
        a.vmcall().unwrap();
        a.iretd().unwrap();
    });
    let mut left = Digest::default();
    for _ in 0..ENTRIES {
        change_fields(&mut lab, &mut random);
        let goes_on = enter(&mut lab, &mut random);
        digest(&lab, &mut left);
        if !goes_on {
            break;
        }
        let launches = random.one_in(8);
        lab.host_code(|a| {
            if launches { a.vmlaunch() } else { a.vmresume() }.unwrap();
            a.hlt().unwrap();
        });
        lab.cpu.registers.ip = HOST_CODE;
        lab.cpu.pending.set_activity(Activity::Running);
        lab.memory.note_write(HOST_CODE as usize, 16);
    }
    left.value()
}

#[test]
fn random_fields_and_instructions_leave_what_the_manual_allows() {
    random_code::rounds("clauses-vmx-random", ROUNDS, |seed| round(seed, &[]));
}
