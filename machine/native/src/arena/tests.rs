//! Small blocks of real code, entered, left, linked and cleared.

use super::*;
use crate::{After, Filled, Ground, Replaced, Version, Windows};
use iced_x86::DecoderOptions;
use translate::{Block, Mode, State, Step, TRANSLATIONS, Translation, Wanted};

const NOTHING: Translation =
    Translation { read: u64::MAX, write: u64::MAX, execute: u64::MAX, offset: 0 };
const COST: u32 = 10;

/// Two pages of RAM; `DATA` is mapped at itself, other pages are not, code is fetched from page 1.
/// The handler after which there is too little RAM to show.
const SHRINKS: u32 = 98;

struct Small {
    ram: Vec<u8>,
    watched: Vec<u64>,
    tlb: Vec<Translation>,
    calls: Vec<u32>,
    /// The accesses whose translation was looked for.
    looked_for: Vec<(u64, Wanted)>,
    /// What is found there, for page 2.
    found: Option<Translation>,
    /// The page whose entry that takes.
    replaced: Option<u64>,
    goes_on: bool,
    counters: Vec<AtomicU64>,
    version: Option<Version>,
    /// A search leaves RAM elsewhere.
    moves_ram: bool,
    state: State,
}

const CONTEXT: u64 = 5;
const CODE_PAGE: u64 = 0x1000;
/// A linear address.
const PANICS: u64 = 0x7_7000;

impl Small {
    fn new() -> Self {
        let mut tlb = vec![NOTHING; TRANSLATIONS];
        tlb[0] = Translation { read: CONTEXT, write: CONTEXT, execute: u64::MAX, offset: 0 };
        let tag = CODE_PAGE | CONTEXT;
        tlb[1] = Translation { read: tag, write: tag, execute: tag, offset: CODE_PAGE };
        Self {
            ram: vec![0; 0x2000],
            watched: vec![0; 2],
            tlb,
            calls: Vec::new(),
            looked_for: Vec::new(),
            found: None,
            replaced: None,
            goes_on: true,
            counters: Vec::new(),
            version: None,
            moves_ram: false,
            state: State::default(),
        }
    }
}

/// Runs code from a state to a state.
fn enter(arena: &mut Arena, entry: Entry, state: &mut State, machine: &mut Small) -> Exit {
    machine.state = *state;
    let counters = std::mem::take(&mut machine.counters);
    let exit = arena.enter(entry, &counters, machine);
    machine.counters = counters;
    *state = machine.state;
    exit
}

impl Machine for Small {
    fn begin(&mut self, state: &mut State) {
        *state = self.state;
    }

    fn end(&mut self, state: &State) {
        self.state = *state;
    }

    fn windows(&mut self) -> Windows<'_> {
        let ground = self.ground();
        Windows { ground, sets: (0, 0), context: CONTEXT, fs_base: 0, gs_base: 0, strings: true }
    }

    fn ground(&mut self) -> Ground<'_> {
        Ground {
            ram: &mut self.ram,
            watched: &self.watched,
            tlb: &self.tlb,
            vectors: None,
            high_halves: None,
            version: self.version,
        }
    }

    fn call(&mut self, state: &mut State, number: u32) -> After {
        assert_ne!(number, 99, "the handler that panics");
        if number == SHRINKS {
            self.ram.truncate(8);
        }
        self.calls.push(number);
        state.registers[0] += 1000;
        if self.goes_on { After::GoesOn } else { After::Leaves }
    }

    fn fill(&mut self, _: &mut State, linear: u64, wanted: Wanted) -> Filled {
        assert_ne!(linear, PANICS, "the search that panics");
        self.looked_for.push((linear, wanted));
        if self.moves_ram {
            self.ram = self.ram.clone();
        }
        let Some(found) = self.found.take() else { return Filled::Unknown };
        self.tlb[2] = found;
        if let Some(replaced) = self.replaced {
            self.tlb[translate::translation_place(replaced)] = NOTHING;
        }
        Filled::Known(self.replaced.map_or(Replaced::Unknown, Replaced::Page))
    }
}

/// Instructions of the given lengths at `offset` of the code page.
fn block(bytes: &[u8], lengths: &[u8], offset: u16, first_call: u32) -> Code {
    let steps: Vec<Step> = (1..)
        .zip(lengths)
        .map(|(n, length)| {
            let (length, end_time) = (*length, n * COST);
            Step { length, end_time, call: first_call + n - 1, asks: false }
        })
        .collect();
    let second_page = None;
    let block = Block {
        mode: Mode::Long,
        bytes,
        steps: &steps,
        offset,
        second_page,
        is_plain: true,
        first_counter: None,
        options: DecoderOptions::AMD,
    };
    translate::translate(block).expect("a block")
}

/// ADD RAX, RBX; ADD R9, RAX
const ADD: (&[u8], &[u8]) = (&[0x48, 0x01, 0xD8, 0x49, 0x01, 0xC1], &[3, 3]);
/// MOV [RDI], RAX; MOV RCX, [RDI]
const STORE: (&[u8], &[u8]) = (&[0x48, 0x89, 0x07, 0x48, 0x8B, 0x0F], &[3, 3]);
/// JMP to itself
const LOOP: (&[u8], &[u8]) = (&[0xEB, 0xFE], &[2]);
/// RET
const RET: (&[u8], &[u8]) = (&[0xC3], &[1]);
/// CPUID
const UNKNOWN: (&[u8], &[u8]) = (&[0x0F, 0xA2], &[2]);

fn state() -> State {
    let mut state = State { ip: CODE_PAGE, room: 1000, ..State::default() };
    (0..16).for_each(|number| state.registers[number] = number as u64 + 1);
    state
}

fn arena() -> Arena {
    Arena::new().expect("a host that lets memory be executable")
}

fn run(arena: &mut Arena, code: &Code, state: &mut State, machine: &mut Small) -> Exit {
    let (entry, _) = arena.publish(code).expect("room");
    enter(arena, entry, state, machine)
}

#[test]
fn registers_go_in_and_come_out_and_time_and_count_are_kept() {
    let (mut state, before) = (state(), state());
    let exit = run(&mut arena(), &block(ADD.0, ADD.1, 0, 0), &mut state, &mut Small::new());
    assert_eq!(exit, Exit::Link(0));
    let mut expected = before.registers;
    expected[0] = 1 + 4;
    expected[9] = 10 + 5;
    assert_eq!(state.registers, expected);
    assert_eq!((state.ip, state.instructions), (CODE_PAGE + 6, 2));
    assert_eq!(state.room, before.room - 2 * i64::from(COST));
}

#[test]
fn a_block_without_room_is_not_begun() {
    let mut state = State { room: 2 * i64::from(COST) - 1, ..state() };
    let before = state;
    let exit = run(&mut arena(), &block(ADD.0, ADD.1, 0, 0), &mut state, &mut Small::new());
    assert_eq!(exit, Exit::Room);
    assert_eq!(state, State { exit: before.exit, ..before });
}

#[test]
fn linked_blocks_follow_each_other_until_they_are_unlinked() {
    let mut arena = arena();
    let (first, slot) = arena.publish(&block(ADD.0, ADD.1, 0, 0)).expect("room");
    let (second, _) = arena.publish(&block(LOOP.0, LOOP.1, 6, 0)).expect("room");
    arena.link(slot, second);
    let mut linked = state();
    assert_eq!(enter(&mut arena, first, &mut linked, &mut Small::new()), Exit::Room);
    assert_eq!((linked.ip, linked.instructions), (CODE_PAGE + 6, 2 + 98));
    arena.unlink();
    let mut unlinked = state();
    assert_eq!(enter(&mut arena, first, &mut unlinked, &mut Small::new()), Exit::Link(0));
    assert_eq!(unlinked.instructions, 2);
}

#[test]
fn only_what_leads_to_certain_blocks_is_forgotten() {
    let mut arena = arena();
    let (first, slot) = arena.publish(&block(ADD.0, ADD.1, 0, 0)).expect("room");
    let (second, _) = arena.publish(&block(LOOP.0, LOOP.1, 6, 0)).expect("room");
    arena.link(slot, second);
    arena.unlink_where(|other| other != slot, |_| true);
    assert_eq!(enter(&mut arena, first, &mut state(), &mut Small::new()), Exit::Room);
    arena.unlink_where(|other| other == slot, |_| false);
    assert_eq!(enter(&mut arena, first, &mut state(), &mut Small::new()), Exit::Link(0));
}

#[test]
fn entries_from_before_everything_was_cleared_enter_nothing() {
    let mut arena = arena();
    let (old, slot) = arena.publish(&block(ADD.0, ADD.1, 0, 0)).expect("room");
    arena.clear();
    let mut state = state();
    assert_eq!(enter(&mut arena, old, &mut state, &mut Small::new()), Exit::Room);
    assert_eq!(state.instructions, 0);
    let (new, again) = arena.publish(&block(ADD.0, ADD.1, 0, 0)).expect("room");
    assert_eq!(slot, again);
    arena.link(again, old);
    arena.remember(CODE_PAGE, old);
    assert_eq!(enter(&mut arena, new, &mut state, &mut Small::new()), Exit::Link(0));
}

#[test]
fn memory_is_reached_where_the_tlb_knows_it_and_by_the_handler_elsewhere() {
    let code = block(STORE.0, STORE.1, 0, 7);
    for (address, is_watched, by_handler) in [
        (0x0, false, &[][..]),
        (0xFF8, false, &[]),
        // It crosses a page.
        (0xFFC, false, &[7, 8]),
        // The last bytes of RAM, where an access of the widest kind could not begin.
        (0x1FF8, false, &[]),
        (0x100, true, &[7]),
        (0x5000, false, &[7, 8]),
        (u64::MAX, false, &[7, 8]),
    ] {
        let mut machine = Small::new();
        machine.watched[0] = u64::from(is_watched);
        let mut state = state();
        state.registers[7] = address;
        run(&mut arena(), &code, &mut state, &mut machine);
        assert_eq!(machine.calls, by_handler, "{address:#x}");
        let written = machine.ram.iter().filter(|byte| **byte != 0).count();
        assert_eq!(written, usize::from(!by_handler.contains(&7)), "{address:#x}");
        assert_eq!(state.instructions, 2);
    }
}

#[test]
fn what_the_tlb_does_not_know_is_looked_for_before_a_handler_is_asked() {
    let code = block(STORE.0, STORE.1, 0, 7);
    let write = Wanted { bytes: 8, is_write: true };
    let read = Wanted { bytes: 8, is_write: false };
    let tag = 0x2000 | CONTEXT;
    let found = |write| Some(Translation { read: tag, write, execute: u64::MAX, offset: 0 });
    for (found, looked_for, by_handler) in [
        (found(tag), &[(0x2010, write)][..], &[][..]),
        (None, &[(0x2010, write), (0x2010, read)], &[7, 8]),
    ] {
        let mut machine = Small { found, ..Small::new() };
        let mut state = state();
        state.registers[7] = 0x2010;
        run(&mut arena(), &code, &mut state, &mut machine);
        assert_eq!((&machine.looked_for[..], &machine.calls[..]), (looked_for, by_handler));
        assert_eq!(state.instructions, 2);
        let before = super::tests::state().registers;
        let stays = |number: &usize| ![0, 1, 7].contains(number);
        assert!((0..16).filter(stays).all(|number| state.registers[number] == before[number]));
        if by_handler.is_empty() {
            assert_eq!((state.registers[0], state.registers[1], machine.ram[0x10]), (1, 1, 1));
        }
    }
}

#[test]
fn what_was_found_stays_found_until_its_place_in_the_tlb_is_another_pages() {
    // MOV [RDI], RAX; MOV [RSI], RAX; MOV [RDI], RAX
    let bytes = [0x48, 0x89, 0x07, 0x48, 0x89, 0x06, 0x48, 0x89, 0x07];
    let code = block(&bytes, &[3, 3, 3], 0, 7);
    let tag = 0x2000 | CONTEXT;
    let found = Translation { read: tag, write: tag, execute: u64::MAX, offset: CODE_PAGE };
    for (replaced, looked_for) in [(0x5000, &[0x2010][..]), (0, &[0x2010, 0x10])] {
        let replaced = Some(replaced);
        let mut machine = Small { found: Some(found), replaced, ..Small::new() };
        let mut state = state();
        (state.registers[7], state.registers[6]) = (0x10, 0x2010);
        run(&mut arena(), &code, &mut state, &mut machine);
        let all: Vec<_> = machine.looked_for.iter().map(|(linear, _)| *linear).collect();
        assert_eq!(all, looked_for);
        assert_eq!(machine.calls.is_empty(), looked_for.len() == 1);
    }
}

#[test]
#[should_panic(expected = "the search that panics")]
fn a_panic_of_a_search_goes_around_code() {
    let mut state = state();
    state.registers[7] = PANICS;
    run(&mut arena(), &block(STORE.0, STORE.1, 0, 7), &mut state, &mut Small::new());
}

#[test]
fn no_content_of_the_tlb_leads_outside_ram() {
    let code = block(STORE.0, STORE.1, 0, 7);
    // An access of the widest kind begins here at last.
    const LAST: u64 = 0x2000 - 16;
    let beyond = [0x2000, 0x1FF1, 1 << 40, u64::MAX - 0x100, u64::MAX, 1 << 63, 0x8000_0000];
    // All of the first page is RAM, and of that behind it all except 8 bytes.
    for offset in [0x1000, 0x1008].into_iter().chain(beyond) {
        for in_page in [0, 0x20, 0xFF8] {
            let mut machine = Small::new();
            machine.tlb[0].offset = offset;
            let mut state = state();
            state.registers[7] = in_page;
            run(&mut arena(), &code, &mut state, &mut machine);
            let is_ram = offset <= LAST && (offset == 0x1000 || offset + in_page <= LAST);
            assert_eq!(machine.calls.is_empty(), is_ram, "{offset:#x} + {in_page:#x}");
        }
    }
}

#[test]
fn a_key_that_no_index_has_leads_to_no_entry() {
    let mut arena = arena();
    let (ret, _) = arena.publish(&block(RET.0, RET.1, 0, 0)).expect("room");
    let (target, _) = arena.publish(&block(LOOP.0, LOOP.1, 0x80, 0)).expect("room");
    arena.remember(CODE_PAGE + 0x80, target);
    for step in 0..3 {
        let mut machine = Small::new();
        machine.ram[..8].copy_from_slice(&(CODE_PAGE + 0x80).to_le_bytes());
        machine.tlb[1].offset = u64::MAX - 0x80;
        let mut state = State { registers: [0; 16].into(), ..state() };
        assert_eq!(enter(&mut arena, ret, &mut state, &mut machine), Exit::Jump, "step {step}");
        match step {
            0 => arena.unlink(),
            _ => arena.unlink_where(|_| true, |_| true),
        }
    }
}

#[test]
fn a_block_that_takes_longer_than_code_can_count_is_not_translated() {
    let is_made = |end_time| {
        let steps = [Step { length: 3, end_time, call: 0, asks: false }];
        let (bytes, second_page) = (&ADD.0[..3], None);
        let block = Block {
            mode: Mode::Long,
            bytes,
            steps: &steps,
            offset: 0,
            second_page,
            is_plain: true,
            first_counter: None,
            options: DecoderOptions::AMD,
        };
        translate::translate(block).is_some()
    };
    assert!(is_made(i32::MAX as u32) && !is_made(i32::MAX as u32 + 1));
}

#[test]
fn an_entry_of_another_arena_enters_nothing() {
    let (mut one, mut other) = (arena(), arena());
    let code = block(ADD.0, ADD.1, 0, 0);
    one.publish(&code).expect("room");
    let (entry, _) = other.publish(&code).expect("room");
    let mut state = state();
    let before = state.registers;
    assert_eq!(enter(&mut one, entry, &mut state, &mut Small::new()), Exit::Room);
    assert_eq!(state.registers, before);
}

#[test]
#[should_panic(expected = "RAM of 8 bytes")]
fn a_panic_of_what_a_machine_shows_behind_a_handler_goes_around_code() {
    let code = block(UNKNOWN.0, UNKNOWN.1, 0, SHRINKS);
    run(&mut arena(), &code, &mut state(), &mut Small::new());
}

#[test]
fn a_return_finds_its_target_in_the_jump_cache_if_its_page_may_be_fetched() {
    let mut arena = arena();
    let (ret, _) = arena.publish(&block(RET.0, RET.1, 0, 0)).expect("room");
    let (target, _) = arena.publish(&block(LOOP.0, LOOP.1, 0x80, 0)).expect("room");
    let mut machine = Small::new();
    machine.ram[..8].copy_from_slice(&(CODE_PAGE + 0x80).to_le_bytes());
    let start = || State { registers: [0; 16].into(), ..state() };
    let mut unknown = start();
    assert_eq!(enter(&mut arena, ret, &mut unknown, &mut machine), Exit::Jump);
    assert_eq!((unknown.ip, unknown.registers[4]), (CODE_PAGE + 0x80, 8));
    arena.remember(CODE_PAGE + 0x80, target);
    let mut known = start();
    assert_eq!(enter(&mut arena, ret, &mut known, &mut machine), Exit::Room);
    assert_eq!(known.instructions, 100);
    machine.tlb[1].execute = u64::MAX;
    let mut not_fetched = start();
    assert_eq!(enter(&mut arena, ret, &mut not_fetched, &mut machine), Exit::Jump);
    assert_eq!(not_fetched.instructions, 1);
}

#[test]
fn a_handler_sees_and_changes_registers_and_may_leave() {
    let code = block(UNKNOWN.0, UNKNOWN.1, 0, 3);
    for goes_on in [true, false] {
        let mut machine = Small { goes_on, ..Small::new() };
        let mut state = state();
        let exit = run(&mut arena(), &code, &mut state, &mut machine);
        assert_eq!(exit, if goes_on { Exit::Link(0) } else { Exit::Handler });
        assert_eq!((state.registers[0], machine.calls), (1001, vec![3]));
        let before = super::tests::state().registers;
        assert!((1..16).all(|number| state.registers[number] == before[number]));
    }
}

#[test]
#[should_panic(expected = "the handler that panics")]
fn a_panic_of_a_handler_goes_around_code() {
    let code = block(UNKNOWN.0, UNKNOWN.1, 0, 99);
    run(&mut arena(), &code, &mut state(), &mut Small::new());
}

#[test]
fn a_full_arena_takes_no_more_until_it_is_cleared() {
    let mut arena = arena();
    let code = block(ADD.0, ADD.1, 0, 0);
    let published = std::iter::from_fn(|| arena.publish(&code)).count();
    assert!(published > 100_000, "{published} blocks");
    arena.clear();
    let (entry, _) = arena.publish(&code).expect("room");
    let mut state = state();
    assert_eq!(enter(&mut arena, entry, &mut state, &mut Small::new()), Exit::Link(0));
}

#[test]
fn what_was_found_stays_from_one_entry_to_the_next_while_the_version_does() {
    let mut arena = arena();
    let (entry, _) = arena.publish(&block(STORE.0, STORE.1, 0, 0)).expect("room");
    let mut machine = Small::new();
    machine.version = Some([1; 5]);
    let mut run = |machine: &mut Small| {
        machine.looked_for.clear();
        enter(&mut arena, entry, &mut state(), machine);
        machine.looked_for.len()
    };
    assert_eq!(run(&mut machine), 0, "the TLB knows it");
    machine.tlb[0] = NOTHING;
    assert_eq!(run(&mut machine), 0, "the version says that it is as it was");
    machine.version = Some([1, 1, 1, 1, 2]);
    assert_eq!(run(&mut machine), 2, "a read and a write are looked for");
    machine.tlb[0] = Small::new().tlb[0];
    assert_eq!(run(&mut machine), 0, "the TLB knows it again");
    machine.tlb[0] = NOTHING;
    let elsewhere = machine.ram.clone();
    let before = std::mem::replace(&mut machine.ram, elsewhere);
    assert_eq!(run(&mut machine), 2, "RAM is elsewhere, whatever the version says");
    drop(before);
    machine.version = None;
    machine.tlb[0] = Small::new().tlb[0];
    assert_eq!(run(&mut machine), 0);
    machine.tlb[0] = NOTHING;
    assert_eq!(run(&mut machine), 2, "without a version nothing stays");
}

#[test]
fn ram_that_a_search_moves_is_shown_where_it_is_whatever_is_promised() {
    let mut arena = arena();
    let (entry, _) = arena.publish(&block(STORE.0, STORE.1, 0, 0)).expect("room");
    let mut machine = Small::new();
    machine.tlb[0] = NOTHING;
    machine.moves_ram = true;
    let mut state = state();
    state.registers[7] = 0x2008;
    machine.found = Some(Translation { read: u64::MAX, write: 0x2005, execute: 0, offset: 0x1000 });
    enter(&mut arena, entry, &mut state, &mut machine);
    assert_eq!(machine.ram[0x1008], 1, "the store went to where RAM is now");
}

#[test]
fn an_instruction_that_asks_leaves_code_where_the_tlb_does_not_know_its_operand() {
    let mut arena = arena();
    let steps = [3, 3].map(|length| Step { length, end_time: COST, call: 70, asks: true });
    let code = translate::translate(Block {
        mode: Mode::Long,
        bytes: STORE.0,
        steps: &steps,
        offset: 0,
        second_page: None,
        is_plain: true,
        first_counter: None,
        options: DecoderOptions::AMD,
    });
    let (entry, _) = arena.publish(&code.expect("a block")).expect("room");
    let mut machine = Small::new();
    let mut known = state();
    assert_eq!(enter(&mut arena, entry, &mut known, &mut machine), Exit::Link(0));
    assert_eq!(known.registers[1], known.registers[0], "what is in RAM is stored and read");
    machine.tlb[0] = NOTHING;
    let mut unknown = state();
    assert_eq!(enter(&mut arena, entry, &mut unknown, &mut machine), Exit::Alone(70));
    assert_eq!(unknown.registers, state().registers);
    assert!(machine.calls.is_empty() && machine.looked_for.is_empty(), "nobody was asked");
}
