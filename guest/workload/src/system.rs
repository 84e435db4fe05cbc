//! Interrupts and page tables: what slows emulators down.

use crate::Part;
use crate::compute::{fold, next_random};
use arch::apic::{Scope, TimerMode};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic::{self, Fence};
use runtime::instruction::{fault_address, halt_until};
use runtime::interrupt::{Frame, set_handler};
use runtime::vector::COUNTED_VECTOR;
use runtime::window::{self, AddressSpace, FRAMES, PAGES, SPACES};
use runtime::{power, print, processor};

pub const PARTS: [Part; 5] = [
    ("timer_ticks", timer_ticks),
    ("self_ipis", self_ipis),
    ("address_space_switches", address_space_switches),
    ("page_faults", page_faults),
    ("invalidations", invalidations),
];

const PAGE_FAULT: u8 = 14;
/// Undivided counts of the APIC's timer between ticks.
const TICK: u32 = 20_000;

/// Sleeps through ticks of a periodic timer.
fn timer_ticks(scale: u64) -> u64 {
    let own = processor::current();
    let target = own.arrival_count() + scale * 500;
    apic::start_timer(COUNTED_VECTOR, TimerMode::Periodic, TICK);
    halt_until(|| own.arrival_count() >= target);
    apic::stop_timer();
    fold(0, scale * 500)
}

fn self_ipis(scale: u64) -> u64 {
    let own = processor::current();
    let command = apic::shorthand(Scope::SelfOnly, COUNTED_VECTOR);
    let first = own.arrival_count();
    for _ in 0..scale * 10_000 {
        let before = own.arrival_count();
        apic::command(command, Fence::None);
        while own.arrival_count() == before {
            core::hint::spin_loop();
        }
    }
    fold(0, own.arrival_count() - first)
}

/// Spaces that show the same frames in different order, and a little work in each.
fn address_space_switches(scale: u64) -> u64 {
    let spaces: [AddressSpace; SPACES] = core::array::from_fn(AddressSpace::new);
    for (turn, space) in spaces.iter().enumerate() {
        for page in 0..FRAMES {
            space.map(page, Some((page + turn * 7) % FRAMES));
        }
    }
    let (mut hash, mut random) = (1, 1);
    for turn in 0..scale * 10_000 {
        spaces[turn as usize % SPACES].activate();
        for _ in 0..8 {
            random = next_random(random);
            let (page, word) = (random as usize % FRAMES, (random >> 32) as usize % 512);
            hash = fold(hash, window::load(page, word));
            window::store(page, word, hash);
        }
    }
    hash
}

/// The space that faults are taken in.
const FAULT_SPACE: usize = 0;
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// Maps a frame where one was missing.
fn handle_fault(frame: &mut Frame) {
    let Some(page) = window::page_of(fault_address()) else {
        print!("{{\"record\":\"fault\",\"vector\":14,\"rip\":\"{:#x}\"}}", frame.rip);
        power::off(power::Status::Failed)
    };
    AddressSpace::existing(FAULT_SPACE).map(page, Some(page * 13 % FRAMES));
    FAULTS.fetch_add(1, Ordering::Relaxed);
}

fn page_faults(scale: u64) -> u64 {
    set_handler(PAGE_FAULT, handle_fault);
    let space = AddressSpace::new(FAULT_SPACE);
    space.activate();
    FAULTS.store(0, Ordering::Relaxed);
    let mut hash = 0;
    for round in 0..scale * 8 {
        for page in 0..PAGES {
            window::store(page, page, fold(hash, round));
            hash = fold(hash, window::load(page, page));
        }
        (0..PAGES).for_each(|page| space.map(page, None));
        space.activate();
    }
    fold(hash, FAULTS.load(Ordering::Relaxed))
}

/// Remaps one page at a time.
fn invalidations(scale: u64) -> u64 {
    let space = AddressSpace::new(1);
    (0..FRAMES).for_each(|page| space.map(page, Some(page)));
    space.activate();
    let (mut hash, mut random) = (1, 1);
    for _ in 0..scale * 20_000 {
        random = next_random(random);
        let (page, frame) = (random as usize % FRAMES, (random >> 32) as usize % FRAMES);
        space.map(page, Some(frame));
        window::invalidate(page);
        hash = fold(hash, window::load(page, 0));
        window::store(page, 0, hash);
    }
    hash
}
