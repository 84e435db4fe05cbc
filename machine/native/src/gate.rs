//! The way into code, out of it, and from it to a handler and back.

use crate::mapping::Mapping;
use crate::{After, Filled, Machine, Replaced, Windows};
use std::any::Any;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{from_mut, from_ref};
use std::sync::atomic::AtomicU64;
use translate::{Exit, Frame, JUMPS, TRANSLATIONS, WIDEST, Wanted};

/// Where to go: addresses of code that is mapped as long as the mapping lives.
pub struct Way<'a> {
    /// Borrowed so that nobody writes code while it runs.
    pub mapping: &'a mut Mapping,
    pub enter: u64,
    pub code: u64,
    /// Of runs, for blocks that count. They stay where they are until code is left.
    pub counters: &'a [AtomicU64],
}

/// Whether LAHF and SAHF exist in 64-bit mode, which the first such processors lacked.
pub fn host_has_lahf() -> bool {
    const EXTENDED: u32 = 0x8000_0001;
    const LAHF_SAHF: u32 = 1 << 0;
    std::arch::x86_64::__cpuid(EXTENDED - 1).eax >= EXTENDED
        && std::arch::x86_64::__cpuid(EXTENDED).ecx & LAHF_SAHF != 0
}

/// What was prefetched of code that has been written over is fetched again.
/// [SDM3 "Handling Self- and Cross-Modifying Code"]
pub fn serialize() {
    std::arch::x86_64::__cpuid(0);
}

/// What a handler's call finds: the frame that code works on, then whom to call.
#[repr(C)]
struct Session<M> {
    frame: Frame,
    machine: *mut M,
    /// What a handler has thrown.
    panic: Option<Box<dyn Any + Send>>,
}

/// Runs code until it is left.
pub fn enter<M: Machine>(way: Way<'_>, jumps: &[[u64; 2]; JUMPS], machine: &mut M) -> Exit {
    const { assert!(offset_of!(Session<M>, frame) == 0, "code knows the session as its frame") };
    let mut session = Session { frame: Frame::default(), machine, panic: None };
    // They can be written through a shared reference.
    session.frame.windows.counters = way.counters.as_ptr().expose_provenance() as u64;
    session.frame.windows.jumps = from_ref(jumps).expose_provenance() as u64;
    session.frame.windows.helper = (help::<M> as *const ()).expose_provenance() as u64;
    // SAFETY: `machine` was a unique reference until now and is not used again but through this.
    let machine = unsafe { &mut *session.machine };
    machine.begin(&mut session.frame.state);
    show(&mut session.frame, machine.windows());
    let session: *mut Session<M> = from_mut(&mut session);
    // SAFETY: `enter` is the address of the shared routine of that name, which follows the System V
    // convention: `Arena` writes it at its creation and never again, and the mapping lives.
    let function = unsafe {
        std::mem::transmute::<*const (), extern "sysv64" fn(*mut Session<M>, u64)>(
            std::ptr::with_exposed_provenance(way.enter as usize),
        )
    };
    // The call runs what `translate` made. The README says why that touches only the frame behind
    // the pointer, the windows that the frame tells of, and the stack below.
    function(session, way.code);
    // SAFETY: `session` is the local above; nobody else has it now that the call has returned.
    let session = unsafe { &mut *session };
    if let Some(panic) = session.panic.take() {
        resume_unwind(panic);
    }
    let _ = way.mapping;
    let state = &session.frame.state;
    // SAFETY: as above; code no longer runs.
    unsafe { &mut *session.machine }.end(state);
    Exit::from_bits(state.exit)
}

/// Called by code: does an instruction by its handler, after which anything but zero leaves code;
/// or looks for the translation of `linear`, where zero says that the TLB has it.
extern "sysv64" fn help<M: Machine>(session: *mut Session<M>, number: u32, linear: u64) -> u64 {
    // SAFETY: code passes on the pointer that `enter` gave it, whose session lives until code is
    // left, and no reference to it exists meanwhile.
    let session = unsafe { &mut *session };
    // Code asks again where a translation was looked for in vain; what was thrown then is not lost.
    if session.panic.is_some() {
        return 1;
    }
    // SAFETY: `enter` has the machine borrowed until code is left; the windows that were taken from
    // it are taken again below.
    let machine = unsafe { &mut *session.machine };
    // Code has no landing pads: what is thrown goes around it.
    match catch_unwind(AssertUnwindSafe(|| {
        let frame = &mut session.frame;
        match Wanted::of(number) {
            Some(wanted) => find(frame, machine, linear, wanted),
            None => call(frame, machine, number),
        }
    })) {
        Ok(goes_on) => u64::from(!goes_on),
        Err(panic) => {
            session.panic = Some(panic);
            1
        }
    }
}

/// Whether code goes on behind the instruction.
fn call<M: Machine>(frame: &mut Frame, machine: &mut M, number: u32) -> bool {
    let after = machine.call(&mut frame.state, number);
    show(frame, machine.windows());
    if after != After::GoesOnAlike {
        forget(frame);
    }
    after != After::Leaves
}

/// Whether the TLB has the translation now. What was found of other pages stays.
fn find<M: Machine>(frame: &mut Frame, machine: &mut M, linear: u64, wanted: Wanted) -> bool {
    let filled = machine.fill(&mut frame.state, linear, wanted);
    show(frame, machine.windows());
    match filled {
        Filled::Known(Replaced::Nothing) => {}
        Filled::Known(Replaced::Page(page)) => {
            frame.reads.forget_page(page);
            frame.writes.forget_page(page);
        }
        Filled::Known(Replaced::Unknown) | Filled::Unknown => forget(frame),
    }
    filled != Filled::Unknown
}

fn forget(frame: &mut Frame) {
    frame.reads.forget();
    frame.writes.forget();
}

/// Shows code what it may touch, which may be elsewhere than before. Where accesses were found last
/// is forgotten if that may be outside RAM now.
fn show(frame: &mut Frame, windows: Windows<'_>) {
    let Windows {
        ram,
        watched,
        tlb,
        sets,
        context,
        fs_base,
        gs_base,
        strings,
        vectors,
        high_halves,
    } = windows;
    assert!(ram.len() >= WIDEST, "RAM of {} bytes is smaller than an access", ram.len());
    // A word for each page in which an access may begin.
    assert!(watched.len() >= ram.len().div_ceil(0x1000), "a page of RAM has no watch");
    assert!(sets.0.max(sets.1) + TRANSLATIONS <= tlb.len(), "a set lies outside the TLB");
    let (last, at) = (ram.len() - WIDEST, ram.as_mut_ptr().expose_provenance());
    if (frame.windows.last, frame.windows.ram) != (last as u64, at as u64) {
        forget(frame);
    }
    let view = &mut frame.windows;
    (view.last, view.ram) = (last as u64, at as u64);
    view.watched = watched.as_ptr().expose_provenance() as u64;
    view.data = tlb[sets.0..].as_ptr().expose_provenance() as u64;
    view.fetch = tlb[sets.1..].as_ptr().expose_provenance() as u64;
    view.context = context;
    view.fs_base = fs_base;
    view.gs_base = gs_base;
    view.strings = u64::from(strings);
    let at = |all: &mut [u128; 16]| all.as_mut_ptr().expose_provenance() as u64;
    let has_vectors = vectors.is_some();
    view.vectors = vectors.map_or(0, at);
    // Code that uses the high halves does not ask for the low ones.
    view.high_halves = high_halves.filter(|_| has_vectors).map_or(0, at);
}
