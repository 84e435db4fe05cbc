//! The flow: what needs attention → run blocks → deliver what stopped them.

use super::blocks::Blocks;
use super::cache::CodeCache;
use super::room::Room;
use crate::engine::dispatch;
use crate::engine::ending;
use crate::engine::native::skip;
use crate::system::branch_record;
use crate::system::debug;
use crate::system::local_apic;
use crate::{Attention, Bus, Cpu, RunEnd};
use arch::control::rflags;
use arch::time::Picoseconds;

/// An attribute that keeps a processor from running blocks freely.
const ONE_AT_A_TIME: Attention = Attention::SINGLE_STEP
    .union(Attention::SHADOW)
    .union(Attention::BREAKPOINTS)
    .union(Attention::BRANCH_RECORDS)
    .union(Attention::BY_ITSELF)
    .union(Attention::ONE_INSTRUCTION);

impl Cpu {
    /// Devices and other processors have had their turn, and this one begins its own.
    pub fn begin_turn(&mut self) {
        self.pending.clear(Attention::YIELD);
    }

    /// After a write to its own APIC, which ends the turn; if nobody else has anything to do before
    /// the next would end as well, that begins here.
    fn end_own_turn(&mut self, goes_on: bool) {
        const OWN: Attention =
            Attention::OWN_APIC.union(Attention::INTERRUPT).union(Attention::TIMER);
        if goes_on && self.is_only && self.pending.has_nothing_but(OWN) {
            self.turned_at = self.clock.now();
        } else {
            self.pending.raise(Attention::YIELD);
        }
        self.pending.clear(Attention::OWN_APIC);
    }

    /// Runs until the clock reaches `until`, `instructions` more have completed, or there is reason
    /// to stop before. No instruction begins at or after `until`.
    ///
    /// Where a limit cuts a turn short, the next call goes on as if there had been one: what this
    /// one owes to others at its next boundary ([`RunEnd::Yield`]) it still does.
    pub fn run(
        &mut self,
        cache: &mut CodeCache,
        bus: &mut Bus<'_>,
        until: Picoseconds,
        instructions: u64,
    ) -> RunEnd {
        let last = self.clock.instructions().saturating_add(instructions);
        let mut limit = first_deadline(self, until);
        loop {
            if !self.pending.is_quiet() {
                if self.pending.has(Attention::OWN_APIC) {
                    let goes_on = self.clock.now() < until && self.clock.instructions() < last;
                    self.end_own_turn(goes_on);
                }
                if self.pending.has(Attention::TIMER) {
                    self.pending.clear(Attention::TIMER);
                    limit = first_deadline(self, until);
                }
                note_place(self);
                match self.attend(bus) {
                    Ok(()) => {}
                    Err(end) => {
                        self.pending.clear(Attention::YIELD);
                        return end;
                    }
                }
                if self.pending.has(Attention::INACTIVE) {
                    // What was attended to has shut the processor down.
                    continue;
                }
                if self.pending.has(Attention::YIELD) {
                    // What was attended to is something that others may see: no block comes first,
                    // however long it is, translated or not.
                    continue;
                }
            }
            if self.clock.now() >= limit {
                local_apic::advance_apic(self, bus);
                limit = first_deadline(self, until);
                if self.clock.now() >= until {
                    return RunEnd::Time;
                }
                continue;
            }
            if self.clock.instructions() >= last {
                return RunEnd::Instructions;
            }
            if self.observation.stops() && stands_at_point(self) {
                return RunEnd::Point;
            }
            if self.pending.has(ONE_AT_A_TIME) {
                // What a shadow suspends for one instruction holds again for the next.
                let others = self.clock.others();
                run_one(self, &mut cache.blocks, bus);
                self.clock.set_others(others);
            } else if bus.memory.keeps_stores() {
                let room = Room { clock: limit, instructions: last };
                dispatch::run_part(self, &mut cache.blocks, bus, room);
            } else {
                let room = Room { clock: limit, instructions: last };
                let CodeCache { blocks, native } = cache;
                let asked = dispatch::run_blocks(self, blocks, native.as_deref_mut(), bus, room);
                if let Some(native) = native {
                    skip::skip_rounds(self, blocks, native, bus, room);
                }
                if let Some(place) = asked {
                    dispatch::run_asked(self, blocks, bus, room, place);
                }
            }
        }
    }
}

fn first_deadline(cpu: &Cpu, until: Picoseconds) -> Picoseconds {
    cpu.next_deadline().map_or(until, |deadline| deadline.min(until))
}

/// Whether a debugger wants to hear before the instruction here is executed.
#[inline(never)]
fn stands_at_point(cpu: &Cpu) -> bool {
    let linear = cpu.registers.fetch_address(ending::code_size(cpu));
    cpu.observation.stops_at(linear, cpu.clock.instructions())
}

impl Cpu {
    /// Whether runs end before the instructions that are observed ([`RunEnd::Point`]).
    pub fn stop_at_points(&mut self, stops: bool) {
        self.observation.set_stops(stops);
    }

    /// The instruction that the processor stands at ends no run.
    pub fn pass_point(&mut self) {
        let linear = self.registers.fetch_address(ending::code_size(self));
        self.observation.pass(linear, self.clock.instructions());
    }

    /// Moves a halted processor's clock on, to the moment of an event.
    pub fn idle_until(&mut self, bus: &mut Bus<'_>, at: Picoseconds) {
        if at > self.clock.now() {
            self.clock.move_to(at);
        }
        local_apic::advance_apic(self, bus);
    }
}

/// What waits at the boundary may come before the instruction that a debugger wants to hear of.
#[inline(always)]
fn note_place(cpu: &mut Cpu) {
    if cpu.observation.has_points() {
        let linear = cpu.registers.fetch_address(ending::code_size(cpu));
        cpu.observation.note_place(linear);
    }
}

/// One instruction under single step, breakpoints or an interrupt shadow, or one whose access needs
/// the exact time.
fn run_one(cpu: &mut Cpu, blocks: &mut Blocks, bus: &mut Bus<'_>) {
    cpu.translation.forget_asked();
    cpu.pending.begin_alone();
    run_alone(cpu, blocks, bus);
    cpu.pending.end_alone();
}

fn run_alone(cpu: &mut Cpu, blocks: &mut Blocks, bus: &mut Bus<'_>) {
    let steps = cpu.pending.has(Attention::SINGLE_STEP);
    if cpu.pending.is_in_shadow() {
        // What the shadow covers is not split from the instruction before.
        cpu.clock.set_others(Picoseconds::MAX);
    }
    let is_shadowed =
        cpu.pending.is_in_stack_shadow() && !cpu.model.differences().breaks_behind_stack_load;
    if cpu.pending.has(Attention::BREAKPOINTS) && !is_shadowed {
        let linear = cpu.registers.code_base().wrapping_add(cpu.registers.ip);
        match debug::check_code_breakpoints(cpu, bus, linear) {
            Ok(false) => {}
            Ok(true) => return ending::charge_delivery(cpu, blocks),
            Err(stop) => return ending::fetch_failed(cpu, blocks, bus, stop),
        }
    }
    let resumed = cpu.registers.flags.has(rflags::RF);
    let from = cpu.registers.ip;
    let was_guest = cpu.is_guest();
    let before = cpu.clock.instructions();
    let room = Room {
        clock: Picoseconds(u64::MAX),
        instructions: cpu.clock.instructions().saturating_add(1),
    };
    dispatch::run_part(cpu, blocks, bus, room);
    // A world switch belongs to neither side: the host's trap comes after its #VMEXIT.
    let completed = cpu.clock.instructions() != before && cpu.is_guest() == was_guest;
    if completed && cpu.pending.has_branched() {
        branch_record::record_branch(cpu, from);
    }
    if resumed && completed {
        cpu.registers.flags.system &= !rflags::RF;
        cpu.update_breakpoints();
    }
    let is_settled = cpu.pending.take_settled_step();
    // The trap of a load of SS is lost, not put off. [SDM3 "Masking Exceptions and Interrupts
    // When Switching Stacks"]
    let is_lost = cpu.pending.has(Attention::STACK_SHADOW);
    let is_between = cpu.control.steps_branches() && !cpu.pending.has_branched();
    if steps && completed && !is_settled && !is_lost && !is_between {
        debug::pend_single_step(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::InstructionCosts;
    use crate::operation::decode::{Cost, Dialect};
    use crate::system::tests::{Nothing, cpu};
    use arch::apic::{
        DeliveryMode, DestinationMode, InterruptMessage, LocalVector, Lvt, Register, Svr,
    };
    use arch::identity::Vector;
    use bus::GuestMemory;

    const VECTOR: Vector = Vector(0x40);
    /// Where the interrupt's handler is, in real mode.
    const HANDLER: u16 = 0x600;

    /// A processor in real mode with an interrupt that waits, whose handler counts in AX.
    fn interrupted(memory: &mut GuestMemory) -> Cpu {
        memory.ram[usize::from(VECTOR.0) * 4..][..2].copy_from_slice(&HANDLER.to_le_bytes());
        memory.ram[usize::from(HANDLER)..][..2].copy_from_slice(&[0x40, 0xF4]); // INC AX; HLT
        let mut cpu = cpu("zen4");
        cpu.start_up(0x10);
        cpu.registers.gpr[4] = 0x800;
        cpu.registers.flags.system |= rflags::IF;
        let enabled = Svr::new().with_vector(0xFF).with_is_enabled(true).into_bits().into();
        let offset = Register::SpuriousVector.offset();
        cpu.apic.write_mmio(offset, 4, enabled, Picoseconds(0), &mut Vec::new());
        let accepted = cpu.apic.accept(&InterruptMessage {
            destination: 0,
            destination_mode: DestinationMode::Physical,
            delivery_mode: DeliveryMode::Fixed,
            vector: VECTOR,
            is_level: false,
            is_asserted: true,
            is_x2apic: false,
        });
        cpu.accepted(accepted);
        cpu
    }

    fn run(cpu: &mut Cpu, memory: &mut GuestMemory) -> RunEnd {
        cpu.begin_turn();
        let mut cache = CodeCache::new(InstructionCosts([1; Cost::COUNT]), Dialect::Amd);
        let mut bus = Bus { memory, platform: &mut Nothing };
        cpu.run(&mut cache, &mut bus, Picoseconds(1_000_000), u64::MAX)
    }

    #[test]
    fn a_write_to_the_own_apic_ends_the_turn_unless_nobody_else_has_anything_to_do() {
        const NOW: Picoseconds = Picoseconds(1000);
        const END: Picoseconds = Picoseconds(1_000_000);
        for (is_only, waits, now, expected) in [
            (false, Attention::empty(), NOW, (RunEnd::Yield, 0, Picoseconds::ZERO)),
            (true, Attention::empty(), NOW, (RunEnd::Idle, 1, NOW)),
            (true, Attention::YIELD, NOW, (RunEnd::Yield, 0, Picoseconds::ZERO)),
            // The turn would have ended by its time as well.
            (true, Attention::empty(), END, (RunEnd::Yield, 0, Picoseconds::ZERO)),
        ] {
            let mut memory = GuestMemory::new(0x10_0000);
            let mut cpu = interrupted(&mut memory);
            cpu.begin_turn();
            cpu.is_only = is_only;
            cpu.clock.move_to(now);
            cpu.pending.raise(Attention::OWN_APIC | waits);
            let mut cache = CodeCache::new(InstructionCosts([1; Cost::COUNT]), Dialect::Amd);
            let mut bus = Bus { memory: &mut memory, platform: &mut Nothing };
            let end = cpu.run(&mut cache, &mut bus, END, u64::MAX);
            assert_eq!((end, cpu.registers.gpr[0], cpu.turned_at), expected);
            assert!(!cpu.pending.has(Attention::OWN_APIC | Attention::YIELD));
        }
    }

    #[test]
    fn what_lets_interrupts_in_is_looked_at_where_one_waits() {
        let waiting = interrupted(&mut GuestMemory::new(0x10_0000));
        let mut without = cpu("zen4");
        without.start_up(0x10);
        for (mut cpu, expected) in [(waiting, Attention::INTERRUPT), (without, Attention::empty())]
        {
            cpu.pending.clear(Attention::all());
            cpu.registers.flags.system &= !rflags::IF;
            crate::execute::stack::write_flags(&mut cpu, rflags::IF, rflags::IF);
            assert_eq!(cpu.pending.has(Attention::INTERRUPT), !expected.is_empty());
            assert!(cpu.pending.has_nothing_but(expected));
        }
    }

    #[test]
    fn others_see_an_interrupt_that_was_taken_before_its_handler_begins() {
        for (stands_apart, expected) in [(true, (RunEnd::Yield, 0)), (false, (RunEnd::Idle, 1))] {
            let mut memory = GuestMemory::new(0x10_0000);
            let mut cpu = interrupted(&mut memory);
            cpu.stands_apart = stands_apart;
            let end = run(&mut cpu, &mut memory);
            assert_eq!((end, cpu.registers.gpr[0]), expected);
            assert!(cpu.registers.ip >= HANDLER.into(), "it was taken");
        }
    }

    #[test]
    fn what_devices_learn_at_a_boundary_they_learn_before_the_next_block() {
        let mut memory = GuestMemory::new(0x10_0000);
        let mut cpu = interrupted(&mut memory);
        // The other interrupt comes by the 8259, whose vector is 0 here.
        memory.ram[..2].copy_from_slice(&HANDLER.to_le_bytes());
        cpu.apic.acknowledge();
        let entry = Lvt::new().with_delivery_mode(DeliveryMode::ExtInt).into_bits();
        let offset = Register::LocalVector(LocalVector::Lint0).offset();
        cpu.apic.write_mmio(offset, 4, entry.into(), Picoseconds(0), &mut Vec::new());
        cpu.apic.lint0(true);
        cpu.pending.raise(Attention::INTERRUPT);
        assert_eq!((run(&mut cpu, &mut memory), cpu.registers.gpr[0]), (RunEnd::Yield, 0));
        assert_eq!(cpu.registers.ip, HANDLER.into(), "it was taken");
    }
}
