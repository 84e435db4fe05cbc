//! Every so many entries into translated code are repeated in the interpreter, from a copy of the
//! processor and of RAM, and the two results are compared.
//!
//! A repetition must not be seen from outside: an entry during which a handler has reached a
//! device, or has told the board of something, is not repeated. Where the results differ the
//! interpreter's is kept, since it is the definition.

use super::policy::Native;
use super::verification::{Verification, Verified, Witness};
use crate::engine::blocks::{BlockIndex, Blocks};
use crate::engine::dispatch;
use crate::engine::native::session;
use crate::engine::room::{Next, Room};
use crate::{Attention, Bus, Cpu};
use arch::segment::SegmentRegister;
use bus::GuestMemory;
use native::Entry;

impl Native {
    /// As [`crate::CodeCache::verify`].
    pub fn verify(&mut self, every: u64) {
        self.verification.every = every;
    }

    /// As [`crate::CodeCache::verified`].
    pub fn verified(&self) -> Option<&Verified> {
        (self.verification.every != 0).then_some(&self.verification.result)
    }

    /// Whether the entry that comes is to be repeated.
    pub(super) fn is_to_verify(&mut self, blocks: &Blocks) -> bool {
        let Verification { every, result, .. } = &mut self.verification;
        result.entries += 1;
        // Decoding must not start over while places in the cache are held.
        *every != 0 && result.entries.is_multiple_of(*every) && blocks.has_room_for_blocks()
    }
}

/// As `enter`, then once more in the interpreter.
#[inline(never)]
pub(super) fn enter_verified(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    bus: &mut Bus<'_>,
    native: &mut Native,
    (entry, index): (Entry, BlockIndex),
    room: Room,
) -> Option<Next> {
    let mut other = cpu.clone();
    native.verification.before.keep(bus.memory);
    let mut witness = Witness { platform: Some(bus.platform), was_visited: false };
    let mut witnessed = Bus { memory: bus.memory, platform: &mut witness };
    let to = (entry, blocks.mode(index));
    let next = session::enter(cpu, blocks, &mut witnessed, native, to, room)?;
    let Verification { result, before, .. } = &mut native.verification;
    if witness.was_visited {
        result.unrepeatable += 1;
        return Some(next);
    }
    before.exchange(bus.memory);
    let start = start_of(cpu, blocks, index, &other);
    let difference = repeat(&mut other, blocks, bus.memory, cpu, room)
        .or_else(|| difference(cpu, &other))
        .or_else(|| before.difference(bus.memory));
    result.compared += 1;
    let Some(difference) = difference else {
        before.exchange(bus.memory);
        return Some(next);
    };
    result.disagreements += 1;
    result.first.get_or_insert_with(|| format!("{start}: {difference}"));
    *cpu = other;
    Some(Next::Leave)
}

/// Where an entry began, for readers.
fn start_of(cpu: &Cpu, blocks: &Blocks, index: BlockIndex, before: &Cpu) -> String {
    let kinds: Vec<_> = blocks.kinds(blocks.block(index)).map(|kind| kind.code()).collect();
    format!(
        "processor {} from {:#x} on, {} instructions, first {kinds:?}",
        cpu.index.0,
        before.registers.ip,
        cpu.clock.instructions() - before.clock.instructions(),
    )
}

/// Interprets up to where `translated` has come; what is wrong if that is not reached.
fn repeat(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    memory: &mut GuestMemory,
    translated: &Cpu,
    room: Room,
) -> Option<String> {
    /// A handler leaves code at once; what it has delivered takes few more steps.
    const STEPS: usize = 64;
    let mut witness = Witness { platform: None, was_visited: false };
    let mut left = STEPS + (translated.clock.instructions() - cpu.clock.instructions()) as usize;
    // The last may have got no further than to ask to be executed by itself.
    let asks = |cpu: &Cpu| cpu.pending.has(Attention::BY_ITSELF);
    while cpu.clock.instructions() < translated.clock.instructions()
        || cpu.clock.now() < translated.clock.now()
        || asks(translated) && !asks(cpu)
    {
        // One more than completed is the one that has faulted, or asks.
        let last = translated.clock.instructions() + u64::from(asks(translated));
        let instructions = last.max(cpu.clock.instructions() + 1);
        let mut bus = Bus { memory, platform: &mut witness };
        dispatch::run_blocks(cpu, blocks, None, &mut bus, Room { clock: room.clock, instructions });
        left -= 1;
        if left == 0 {
            return Some("the interpreter does not get there".to_owned());
        }
    }
    witness.was_visited.then(|| "the interpreter reaches a device".to_owned())
}

/// What differs from the interpreted processor `other`, which holds at most one thing that code
/// leaves otherwise: what the steps of the interpreter tell each other.
fn difference(cpu: &Cpu, other: &Cpu) -> Option<String> {
    let (a, b) = (described(cpu), described(other));
    let (name, translated, interpreted) = a
        .into_iter()
        .zip(b)
        .find(|((_, a), (_, b))| a != b)
        .map(|((name, a), (_, b))| (name, a, b))?;
    Some(format!("{name}: {translated}, interpreted {interpreted}"))
}

fn described(cpu: &Cpu) -> Vec<(&'static str, String)> {
    let r = &cpu.registers;
    let mut pending = cpu.pending.clone();
    pending.forget_branch();
    let entries = cpu.translation.tlb.entries().iter().fold(0u64, |hash, entry| {
        [entry.read, entry.write, entry.execute, entry.offset]
            .iter()
            .fold(hash, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9))
    });
    vec![
        ("instructions", cpu.clock.instructions().to_string()),
        ("instruction pointer", format!("{:#x}", r.ip)),
        ("general registers", format!("{:x?}", &r.gpr[..16])),
        ("RFLAGS", format!("{:#x}", r.flags.bits())),
        ("clock", format!("{:?}", cpu.clock.now())),
        ("pending", format!("{pending:?}")),
        ("SSE and AVX", format!("{:x?} {:x?} {:#x}", r.xmm, r.ymm_high, r.mxcsr)),
        ("x87", format!("{:?}", r.x87)),
        (
            "segments",
            format!(
                "{:?} {:?} {}",
                SegmentRegister::ALL.map(|at| r.segment(at)),
                r.bases(),
                r.cpl()
            ),
        ),
        ("control", format!("{:?} {:?}", cpu.control, cpu.debug)),
        ("local APIC", format!("{:?}", cpu.apic)),
        ("guest", format!("{:?}", cpu.guest)),
        (
            "TLB",
            format!(
                "{:#x} {:#x} {entries:x}",
                cpu.translation.tlb.context, cpu.translation.tlb.epoch
            ),
        ),
        ("generator", format!("{:#x} {:#x}", cpu.random.0, cpu.clock.tsc_offset())),
    ]
}
