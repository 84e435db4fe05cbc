//! The local APIC of the processor this runs on, through its page or through MSRs, as its mode
//! says. [APM2 "Advanced Programmable Interrupt Controller"] [APM2 "x2APIC Mode"]

use crate::vector::{SPURIOUS_VECTOR, WAKE_VECTOR};
use crate::{instruction, processor};
use arch::apic::{
    ApicBase, DeliveryMode, DestinationMode, Icr, LocalVector, Lvt, MSR_FIRST, Mode, Register,
    Scope, Svr, TimerMode,
};
use core::sync::atomic::{AtomicU64, Ordering};

/// Where the page is; the runtime does not move it.
pub const PAGE: u64 = 0xFEE0_0000;

/// CPUID 1: what the processor has.
const CPUID_ECX_X2APIC: u32 = 1 << 21;
const CPUID_ECX_TSC_DEADLINE: u32 = 1 << 24;

/// Flat mode's logical identifiers reach this many processors.
pub const FLAT_CPUS: usize = 8;
/// Cluster mode's logical identifiers reach this many: fifteen clusters of four.
pub const CLUSTERED_CPUS: usize = 60;
const CLUSTER_SIZE: usize = 4;
const DFR_FLAT: u32 = 0xFFFF_FFFF;
const DFR_CLUSTER: u32 = 0x0FFF_FFFF;

/// The largest identifier of xAPIC mode; FFh is everyone.
pub const LAST_XAPIC_ID: u32 = 0xFE;

/// Whether stores are fenced before the MSR write that sends an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// None: the sender relies on nothing stored before.
    None,
    /// MFENCE; LFENCE.
    Full,
}

#[inline(always)]
fn register_address(register: Register) -> *mut u32 {
    (PAGE + u64::from(register.offset())) as *mut u32
}

const fn msr_of(register: Register) -> u32 {
    MSR_FIRST + register.offset() as u32 / 16
}

/// Reads a register, by the page or by its MSR.
#[inline(always)]
pub fn read(register: Register) -> u32 {
    if processor::current().is_x2apic() {
        return instruction::read_msr(msr_of(register)) as u32;
    }
    // SAFETY: the page is mapped, uncached, and holds 32-bit registers at these offsets.
    unsafe { register_address(register).read_volatile() }
}

/// Writes a register, by the page or by its MSR.
#[inline(always)]
pub fn write(register: Register, value: u32) {
    if processor::current().is_x2apic() {
        // SAFETY: the APIC's registers decide which interrupts come, and each vector has a gate.
        return unsafe { instruction::write_msr(msr_of(register), u64::from(value)) };
    }
    // SAFETY: as in `read`; and as above.
    unsafe { register_address(register).write_volatile(value) }
}

/// Writes the EOI register of this processor's mode.
#[inline(always)]
pub fn end_of_interrupt() {
    write(Register::EndOfInterrupt, 0);
}

/// Whether the processor has x2APIC mode.
pub fn has_x2apic() -> bool {
    instruction::cpuid(1, 0).ecx & CPUID_ECX_X2APIC != 0
}

/// Whether the timer has TSC-deadline mode.
pub fn has_tsc_deadline() -> bool {
    instruction::cpuid(1, 0).ecx & CPUID_ECX_TSC_DEADLINE != 0
}

fn base() -> ApicBase {
    ApicBase::from_bits(instruction::read_msr(ApicBase::MSR))
}

fn set_base(base: ApicBase) {
    // SAFETY: the page stays where it is; only the mode changes.
    unsafe { instruction::write_msr(ApicBase::MSR, base.into_bits()) };
}

/// The mode of this processor's APIC.
pub fn mode() -> Mode {
    base().mode()
}

/// Brings this processor's APIC into `mode` and its registers into a known state: enabled, nothing
/// masked by priority, local interrupts masked. There is no direct way from x2APIC to xAPIC mode.
/// [APM2 "x2APIC Mode Transitions"]
pub fn enter(mode: Mode) {
    // A handler in between would end its interrupt in the mode that is no more, and none of its
    // vector would come again.
    instruction::without_interrupts(|| switch(mode));
}

fn switch(mode: Mode) {
    let (wants_x2apic, here) = (mode == Mode::X2Apic, base());
    if here.is_x2apic() && !wants_x2apic || !here.is_enabled() {
        set_base(here.with_is_enabled(false).with_is_x2apic(false));
        set_base(here.with_is_enabled(true).with_is_x2apic(false));
    }
    set_base(here.with_is_enabled(true).with_is_x2apic(wants_x2apic));

    let own = processor::current();
    own.set_apic(own.apic_id(), wants_x2apic);
    let id = read(Register::Id);
    own.set_apic(if wants_x2apic { id } else { id >> 24 }, wants_x2apic);
    write(Register::TaskPriority, 0);
    for entry in [LocalVector::Timer, LocalVector::Lint0, LocalVector::Lint1, LocalVector::Error] {
        write(Register::LocalVector(entry), Lvt::MASK);
    }
    if !wants_x2apic {
        set_logical_identifier(own.index());
    }
    let spurious = Svr::new().with_vector(SPURIOUS_VECTOR).with_is_enabled(true);
    write(Register::SpuriousVector, spurious.into_bits());
}

/// xAPIC logical identifiers: flat while eight bits suffice, clusters of four after that. Of more
/// processors than those reach, none has one: KVM inhibits AVIC and APICv where two have the same.
fn set_logical_identifier(index: usize) {
    let (format, identifier) = match processor::expected_count() {
        ..=FLAT_CPUS => (DFR_FLAT, 1 << (index % FLAT_CPUS)),
        count if count <= CLUSTERED_CPUS => {
            (DFR_CLUSTER, ((index / CLUSTER_SIZE) << 4 | 1 << (index % CLUSTER_SIZE)) as u32)
        }
        _ => return,
    };
    write(Register::DestinationFormat, format);
    write(Register::LogicalDestination, identifier << 24);
}

/// Sends a command as its high and low halves say.
#[inline(always)]
pub fn command(icr: Icr, fence: Fence) {
    if processor::current().is_x2apic() {
        if fence == Fence::Full {
            instruction::fence_before_msr();
        }
        // SAFETY: as in `write`.
        return unsafe { instruction::write_msr(msr_of(Register::Command), icr.into_bits()) };
    }
    if matches!(icr.shorthand(), Scope::Destination) {
        write(Register::CommandHigh, icr.high());
    }
    write(Register::Command, icr.low());
}

/// The command that sends `vector` to `destination`, an APIC ID or a logical mask.
pub fn fixed(destination: u32, mode: DestinationMode, vector: u8) -> Icr {
    let field = if processor::current().is_x2apic() { destination } else { destination << 24 };
    Icr::new()
        .with_vector(vector)
        .with_destination_mode(mode)
        .with_is_asserted(true)
        .with_destination(field)
}

/// The command that sends `vector` to a shorthand.
pub fn shorthand(scope: Scope, vector: u8) -> Icr {
    Icr::new().with_vector(vector).with_shorthand(scope).with_is_asserted(true)
}

/// Sends `vector` to the processor with an APIC ID.
#[inline]
pub fn send(apic_id: u32, vector: u8) {
    command(fixed(apic_id, DestinationMode::Physical, vector), Fence::None);
}

/// The mask that logical addressing knows `target` by, in the caller's mode; None where it has
/// none.
pub fn logical_identifier(target: &processor::Processor) -> Option<u32> {
    if processor::current().is_x2apic() {
        let id = target.apic_id();
        return Some(id >> 4 << 16 | 1 << (id & 15));
    }
    let index = target.index();
    match processor::expected_count() {
        ..=FLAT_CPUS => Some(1 << index),
        count if count <= CLUSTERED_CPUS => {
            Some(((index / CLUSTER_SIZE) << 4 | 1 << (index % CLUSTER_SIZE)) as u32)
        }
        _ => None,
    }
}

/// Sends INIT or a startup IPI to every other processor.
pub(crate) fn start_others(mode: DeliveryMode, vector: u8) {
    let icr = shorthand(Scope::AllButSelf, vector).with_delivery_mode(mode);
    command(icr, Fence::None);
}

/// Sends INIT or a startup IPI to one processor.
pub(crate) fn send_start(apic_id: u32, mode: DeliveryMode, vector: u8) {
    let icr = fixed(apic_id, DestinationMode::Physical, vector).with_delivery_mode(mode);
    command(icr, Fence::None);
}

/// Starts a count that interrupts with `vector` at its end, undivided.
pub fn start_timer(vector: u8, mode: TimerMode, count: u32) {
    const UNDIVIDED: u32 = 0xB;
    let entry = Lvt::new().with_vector(vector).with_timer_mode(mode);
    write(Register::LocalVector(LocalVector::Timer), entry.into_bits());
    write(Register::DivideConfiguration, UNDIVIDED);
    write(Register::InitialCount, count);
}

/// Interrupts with `vector` once the time stamp counter reaches `time`.
pub fn start_deadline(vector: u8, time: u64) {
    take_deadlines(vector);
    arm_deadline(time, Fence::Full);
}

/// Makes the timer one of deadlines, which interrupts with `vector`.
pub fn take_deadlines(vector: u8) {
    let entry = Lvt::new().with_vector(vector).with_timer_mode(TimerMode::TscDeadline);
    write(Register::LocalVector(LocalVector::Timer), entry.into_bits());
}

/// Sets the deadline; the first one after [`take_deadlines`] needs the fence.
#[inline(always)]
pub fn arm_deadline(time: u64, fence: Fence) {
    if fence == Fence::Full {
        instruction::fence_before_msr();
    }
    // SAFETY: as in `write`.
    unsafe { instruction::write_msr(arch::msr::TSC_DEADLINE, time) };
}

/// Ticks of the undivided timer in 2^20 cycles of the time stamp counter, once measured.
static TIMER_RATE: AtomicU64 = AtomicU64::new(0);
const RATE_SHIFT: u32 = 20;
const RATE_CYCLES: u64 = 1 << 21;

/// Measures the timer's rate, on the first processor; the others are alike.
pub fn measure_timer_rate() {
    start_timer(WAKE_VECTOR, TimerMode::OneShot, u32::MAX);
    write(Register::LocalVector(LocalVector::Timer), Lvt::MASK);
    let (start, first) = (instruction::time_stamp(), read(Register::CurrentCount));
    crate::clock::wait_cycles(RATE_CYCLES, || true);
    let (end, last) = (instruction::time_stamp(), read(Register::CurrentCount));
    stop_timer();
    let ticks = u64::from(first.wrapping_sub(last));
    TIMER_RATE.store((ticks << RATE_SHIFT) / (end - start).max(1), Ordering::Relaxed);
}

/// How many ticks of the timer `cycles` are, by the rate that was measured; 0 if it does not run.
pub fn timer_ticks(cycles: u64) -> u32 {
    let rate = u128::from(TIMER_RATE.load(Ordering::Relaxed));
    u32::try_from((u128::from(cycles) * rate) >> RATE_SHIFT).unwrap_or(u32::MAX)
}

/// How many cycles `ticks` of the timer are.
pub fn timer_cycles(ticks: u32) -> u64 {
    (u64::from(ticks) << RATE_SHIFT) / TIMER_RATE.load(Ordering::Relaxed).max(1)
}

/// Masks the timer and stops its count.
pub fn stop_timer() {
    write(Register::LocalVector(LocalVector::Timer), Lvt::MASK);
    write(Register::InitialCount, 0);
}
