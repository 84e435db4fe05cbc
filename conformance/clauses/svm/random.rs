//! Random VMCB fields and random instructions: whatever a hypervisor asks for and a guest does, the
//! processor neither panics nor hangs, and what it says afterwards is what the manual allows.
//!
//! A round starts from a guest that runs, changes some places of the VMCB to nearly legal and
//! random values, and enters again and again. It follows from its seed, which a failure names;
//! `AVICENNA_FUZZ_ROUNDS` sets how many there are.

#[path = "../random_code.rs"]
mod random_code;

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::control::rflags;
use arch::svm::event::EventType;
use arch::svm::exit::ExitCode;
use arch::svm::intercept::{Vector3, Vector4};
use arch::svm::vmcb::{control, save};
use bus::Random;
use cpu::{Activity, RunEnd};
use interrupt::local_apic::Acceptance;
use random_code::{CODE_BYTES, Digest};

#[cfg(test)]
const ROUNDS: u64 = 400;
/// Entries of a round, and instructions of each turn.
const ENTRIES: usize = 8;
const INSTRUCTIONS: u64 = 200;
/// A place in the VMCB, and a value.
const GIVEN_CHANGE: usize = 10;
/// Where the fields lie: the control area, and what is defined of the state-save area.
const PLACES: [(u64, u64); 2] = [(0, 0x130), (0x400, 0x6E8)];
/// VMRUN is three bytes; the host halts behind it.
const HOST_HALTED: u64 = HOST_CODE + 4;
/// Exit codes below are the numbers of intercept bits.
const INTERCEPT_BITS: u64 = 0xC0;

/// Instructions of this vendor alone.
const SENSITIVE: &[&[u8]] = &[
    &[0xF0, 0x0F, 0x22, 0xC0], // MOV CR8, EAX
    &[0x0F, 0x01, 0xD8],       // VMRUN
    &[0x0F, 0x01, 0xD9],       // VMMCALL
    &[0x0F, 0x01, 0xDA],       // VMLOAD
    &[0x0F, 0x01, 0xDB],       // VMSAVE
    &[0x0F, 0x01, 0xDC],       // STGI
    &[0x0F, 0x01, 0xDD],       // CLGI
    &[0x0F, 0x01, 0xDE],       // SKINIT
    &[0x0F, 0x01, 0xDF],       // INVLPGA
    &[0x9C],                   // PUSHF
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
        4 => random.pick(&[GUEST_DATA, GUEST_STACK, GUEST_CODE, VMCB, APIC + 0x300, APIC]),
        5 => random.pick(&[BACKING_PAGE, LOGICAL_TABLE, PHYSICAL_TABLE, NESTED_TABLES]),
        6 => random.pick(&[0xC000_0080, 0xC001_0114, 0x830, 0x80B, 0x1B, 0x10]),
        _ => before ^ 1 << random.below(64),
    }
}

fn random_place(random: &mut Random) -> u64 {
    let (first, end) = random.pick(&PLACES);
    first + 8 * random.below((end - first) / 8)
}

/// AVIC with tables of its own for the one processor, as a hypervisor sets it up.
fn use_avic(lab: &mut Lab) {
    lab.set(control::AVIC_APIC_BAR, APIC);
    lab.set(control::AVIC_BACKING_PAGE, BACKING_PAGE);
    lab.set(control::AVIC_LOGICAL_TABLE, LOGICAL_TABLE);
    lab.write(VMCB + u64::from(control::AVIC_PHYSICAL_TABLE.offset()), PHYSICAL_TABLE);
    // Valid, running, on this processor.
    lab.write(PHYSICAL_TABLE, BACKING_PAGE | 1 << 63 | 1 << 62);
    let interrupts = lab.get(control::INTERRUPT_CONTROL);
    lab.set(control::INTERRUPT_CONTROL, interrupts.with_avic_enabled(true));
}

fn change_fields(lab: &mut Lab, random: &mut Random) {
    for _ in 0..random.below(4) {
        let at = VMCB + random_place(random);
        let value = random_value(random, lab.read(at));
        lab.write(at, value);
    }
}

/// What was asked for, as the processor sees it when it enters.
struct Asked {
    intercepts: [u64; 3],
    is_all_dirty: bool,
}

impl Asked {
    fn of(lab: &Lab) -> Self {
        let is_all_dirty = lab.get(control::CLEAN_BITS).is_empty();
        Self { intercepts: [0, 8, 16].map(|at| lab.read(VMCB + at)), is_all_dirty }
    }

    fn intercepts(&self, code: u64) -> bool {
        self.intercepts[(code / 64) as usize] >> (code % 64) & 1 != 0
    }
}

/// What an exit may leave in the VMCB, and in the host. [APM2 "#VMEXIT"]
fn check_exit(lab: &Lab, asked: &Asked) {
    let bits = lab.get(control::EXITCODE);
    let code = ExitCode::from_bits(bits);
    assert!(!matches!(code, ExitCode::Unknown(_)), "{code:?}");
    assert!(!lab.cpu.guest.svm.global_interrupts, "{code:?}: GIF is clear in the host");
    assert!(lab.cpu.is_64_bit(), "{code:?}: the host's mode");
    assert_eq!(lab.cpu.translation.tlb.asid(), 0, "{code:?}");
    if code == ExitCode::Invalid {
        return;
    }
    let is_asked = bits >= INTERCEPT_BITS || !asked.is_all_dirty || asked.intercepts(bits);
    assert!(is_asked, "{code:?} was not intercepted");
    assert!(!lab.get(control::EVENTINJ).is_valid(), "{code:?}: the event has been injected");
    let interrupted = lab.get(control::EXITINTINFO);
    // Delivery accesses memory, where the guest's APIC may be as well.
    let may_interrupt = matches!(
        code,
        ExitCode::Exception(_)
            | ExitCode::NestedPageFault
            | ExitCode::AvicNoAcceleration
            | ExitCode::AvicIncompleteIpi
            | ExitCode::TaskSwitch
            | ExitCode::Shutdown
    );
    assert!(may_interrupt || !interrupted.is_valid(), "{code:?} in delivery");
    let kind = interrupted.event_type();
    assert!(!interrupted.is_valid() || !matches!(kind, EventType::Reserved(_)), "{code:?}");
    let flags = lab.get(save::RFLAGS);
    assert_eq!(flags & (!rflags::ALL | rflags::FIXED), rflags::FIXED, "{code:?}: {flags:#x}");
    assert!(lab.get(save::CPL) <= 3, "{code:?}");
}

/// One entry and what follows; false when the machine has ended.
fn enter(lab: &mut Lab, random: &mut Random) -> bool {
    let asked = Asked::of(lab);
    for _ in 0..20 {
        match lab.run_for(INSTRUCTIONS) {
            RunEnd::Shutdown => return false,
            RunEnd::Idle if !lab.cpu.is_guest() => break,
            RunEnd::Idle => lab.cpu.accepted(random.pick(&[
                Acceptance::Nmi,
                Acceptance::Smi,
                Acceptance::Init,
                Acceptance::Startup(0x10),
            ])),
            _ if random.one_in(4) => lab.cpu.accepted(Acceptance::Nmi),
            _ => {}
        }
    }
    // It runs on, since nothing has to stop it, or an INIT has ended all; or, without nested
    // paging, it has changed the host's code.
    if lab.cpu.is_guest() || lab.cpu.registers.ip != HOST_HALTED {
        return false;
    }
    check_exit(lab, &asked);
    true
}

/// Place and value pairs, then the beginning of the guest's code: what a fuzzer gives in place of
/// random numbers.
fn take_given(lab: &mut Lab, given: &[u8]) {
    let Some((count, given)) = given.split_first() else { return };
    let changes = usize::from(count & 7).min(given.len() / GIVEN_CHANGE);
    let (fields, code) = given.split_at(changes * GIVEN_CHANGE);
    for change in fields.chunks_exact(GIVEN_CHANGE) {
        let place = u64::from(u16::from_le_bytes([change[0], change[1]]));
        let value = u64::from_le_bytes(change[2..].try_into().expect("eight bytes"));
        let (first, end) = PLACES[(place & 1) as usize];
        lab.write(VMCB + first + 8 * ((place >> 1) % ((end - first) / 8)), value);
    }
    let code = &code[..code.len().min(CODE_BYTES)];
    lab.memory.write(SystemPhysical(GUEST + GUEST_CODE), code).expect("RAM");
}

/// What an entry left behind: registers, the VMCB, the guest's stack and data, ports written.
fn digest(lab: &Lab, into: &mut Digest) {
    let registers = &lab.cpu.registers;
    registers.gpr.iter().for_each(|value| into.word(*value));
    into.word(registers.ip);
    into.word(registers.flags.bits());
    for page in [VMCB, GUEST + GUEST_STACK - 0x1000, GUEST + GUEST_DATA] {
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
    let model = random.pick(&["zen2", "zen3", "zen4", "zen5"]);
    let mut lab = Lab::with_model(model, |a| a.hlt().unwrap());
    write_code(&mut lab, &mut random);
    match random.below(3) {
        0 => lab.use_guest_paging(),
        1 => lab.make_guest_long(),
        _ => {}
    }
    if random.one_in(2) {
        use_avic(&mut lab);
    }
    if random.one_in(2) {
        let (some, more) = (random.next() as u32, random.next() as u32);
        lab.intercept(|all| {
            all.vector3 |= Vector3::from_bits_retain(some & more);
            all.vector4 |= Vector4::from_bits_retain(more >> 8 & some);
            all.exceptions |= some;
        });
    }
    take_given(&mut lab, given);
    let mut left = Digest::default();
    for _ in 0..ENTRIES {
        change_fields(&mut lab, &mut random);
        let goes_on = enter(&mut lab, &mut random);
        digest(&lab, &mut left);
        if !goes_on {
            break;
        }
        lab.cpu.registers.ip = HOST_CODE;
        lab.cpu.registers.gpr[0] = VMCB;
        lab.cpu.pending.set_activity(Activity::Running);
    }
    left.value()
}

#[test]
fn random_fields_and_instructions_leave_what_the_manual_allows() {
    random_code::rounds("clauses-svm-random", ROUNDS, |seed| round(seed, &[]));
}
