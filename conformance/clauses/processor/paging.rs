//! Long mode's page tables: every combination of the bits that decide over an access, compared with
//! the rules written down once more. [APM2 "Page-Protection Checks"] [APM2 "Long-Mode Page
//! Translation"] [SDM3 "Access Rights"]

use crate::layout::*;
use crate::page::*;
use crate::subject::{Code, Mode, Outcome, Subject, event};
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer, rflags};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

/// Above the model's physical addresses.
const TOO_HIGH: u64 = 1 << 51;
/// Below the address of a large page, above its attributes.
const LOW_OF_LARGE: u64 = 1 << 13;

/// The linear page under test, reached through tables of its own.
const PAGE: u64 = 1 << 39;
const POINTERS: u64 = SPARE;
const DIRECTORY: u64 = SPARE + 0x1000;
const TABLE: u64 = SPARE + 0x2000;
const SMALL_PAGE: u64 = SPARE + 0x3000;
const LARGE_PAGE: u64 = 0x20_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    Fetch,
}

/// The bits of control registers and RFLAGS that decide.
#[derive(Clone, Copy, Debug)]
struct Controls {
    write_protect: bool,
    smep: bool,
    smap: bool,
    access_flag: bool,
    no_execute: bool,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    directory_entry: u64,
    table_entry: u64,
    access: Access,
    is_user: bool,
    controls: Controls,
}

impl Case {
    fn is_large(&self) -> bool {
        self.directory_entry & LARGE != 0
    }

    /// The entries that a walk looks at; the last is the leaf.
    fn walked(&self) -> Vec<u64> {
        match self.is_large() {
            true => vec![self.directory_entry],
            false => vec![self.directory_entry, self.table_entry],
        }
    }

    /// The rules. An error code, or that the access is made.
    fn rule(&self) -> Result<(), u32> {
        let controls = self.controls;
        let mut kind = match self.access {
            Access::Read => 0,
            Access::Write => WRITE,
            Access::Fetch if controls.no_execute || controls.smep => FETCH,
            Access::Fetch => 0,
        };
        kind |= if self.is_user { USER_ACCESS } else { 0 };
        let (mut writable, mut user, mut executable) = (true, true, true);
        for entry in self.walked() {
            if entry & P == 0 {
                return Err(kind);
            }
            let low = if self.is_large() { entry & LOW_OF_LARGE } else { 0 };
            let no_execute = if controls.no_execute { 0 } else { entry & NX };
            if entry & TOO_HIGH | low | no_execute != 0 {
                return Err(kind | PRESENT | RESERVED);
            }
            writable &= entry & W != 0;
            user &= entry & U != 0;
            executable &= entry & NX == 0;
        }
        let allowed = match (self.access, self.is_user) {
            (Access::Read, true) => user,
            (Access::Write, true) => user && writable,
            (Access::Fetch, true) => user && executable,
            (Access::Fetch, false) => executable && !(controls.smep && user),
            (access, false) => {
                let kept_out = controls.smap && user && !controls.access_flag;
                let read_only = access == Access::Write && !writable && controls.write_protect;
                !kept_out && !read_only
            }
        };
        if allowed { Ok(()) } else { Err(kind | PRESENT) }
    }
}

struct Walker {
    subject: Subject,
    checked: u64,
}

impl Walker {
    fn new() -> Self {
        let mut subject = Subject::new("zen4", Mode::Long);
        subject.put(ROOT + 8, POINTERS | P | W | U);
        subject.put(POINTERS, DIRECTORY | P | W | U);
        for (place, code) in [(0, CODES[0]), (0x20, CODES[1]), (0x40, CODES[2])] {
            subject.assemble(CODE + place, code);
        }
        for page in [SMALL_PAGE, LARGE_PAGE] {
            subject.memory.write(SystemPhysical(page), &[0xCD, DONE]).expect("RAM");
        }
        Self { subject, checked: 0 }
    }

    /// Makes the access of a case and compares with the rules.
    fn check(&mut self, case: Case) {
        let subject = &mut self.subject;
        subject.put(DIRECTORY, case.directory_entry);
        subject.put(TABLE, case.table_entry);
        subject.enter(if case.is_user { Mode::User } else { Mode::Long });
        let controls = case.controls;
        subject.cpu.control.switch_cr0(Cr0::WRITE_PROTECT, controls.write_protect);
        subject.cpu.control.switch_cr4(Cr4::SMEP, controls.smep);
        subject.cpu.control.switch_cr4(Cr4::SMAP, controls.smap);
        subject.cpu.control.switch_efer(Efer::NO_EXECUTE, controls.no_execute);
        subject.cpu.registers.flags.set_bits(if controls.access_flag { 2 | rflags::AC } else { 2 });
        subject.cpu.registers.ip = subject.start() + 0x20 * case.access as u64;
        subject.cpu.registers.gpr[3] = PAGE;
        subject.cpu.registers.gpr[1] = u64::from_le_bytes([0xCD, DONE, 0, 0, 0, 0, 0, 0]);
        subject.refresh();
        let seen = match subject.run() {
            Outcome::Done => Ok(()),
            Outcome::Event { vector: 14, error: Some(error), .. }
                if subject.cpu.control.cr2 == PAGE =>
            {
                Err(error)
            }
            other => panic!("{case:?}: {other:?}"),
        };
        assert_eq!(seen, case.rule(), "{case:x?}");
        self.check_entries(&case, seen.is_ok());
        self.checked += 1;
    }

    /// Accessed and dirty bits. [APM2 "Accessed (A) Bit", "Dirty (D) Bit"]
    fn check_entries(&self, case: &Case, succeeded: bool) {
        let now = [self.subject.get(DIRECTORY), self.subject.get(TABLE)];
        let before = [case.directory_entry, case.table_entry];
        let leaf = usize::from(!case.is_large());
        let mut expected = before;
        if succeeded {
            expected[..=leaf].iter_mut().for_each(|entry| *entry |= A);
            expected[leaf] |= if case.access == Access::Write { D } else { 0 };
        } else {
            // An upper entry that was walked may be marked accessed; a leaf that refused may not.
            expected[..leaf].iter_mut().zip(now).for_each(|(entry, now)| *entry |= now & A);
        }
        assert_eq!(now, expected, "{case:x?}");
    }
}

const CODES: [Code; 3] =
    [|a| a.mov(rcx, qword_ptr(rbx)), |a| a.mov(qword_ptr(rbx), rcx), |a| a.jmp(rbx)];

const ACCESSES: [Access; 3] = [Access::Read, Access::Write, Access::Fetch];

/// All combinations of some bits.
fn subsets(bits: &'static [u64]) -> impl Iterator<Item = u64> {
    (0..1u32 << bits.len()).map(move |chosen| {
        let is_chosen = |place: &usize| chosen >> place & 1 != 0;
        (0..bits.len()).filter(is_chosen).map(|place| bits[place]).sum()
    })
}

fn controls() -> impl Iterator<Item = Controls> {
    (0..32).map(|chosen: u32| {
        let on = |bit: u32| chosen >> bit & 1 != 0;
        Controls {
            write_protect: on(0),
            smep: on(1),
            smap: on(2),
            access_flag: on(3),
            no_execute: on(4),
        }
    })
}

/// Every access to one page of given entries, under all controls.
fn check_all(walker: &mut Walker, directory_entry: u64, table_entry: u64) {
    for controls in controls() {
        for access in ACCESSES {
            for is_user in [false, true] {
                walker.check(Case { directory_entry, table_entry, access, is_user, controls });
            }
        }
    }
}

#[test]
fn a_small_page_is_protected_by_all_levels_and_marked_accessed_and_dirty() {
    let mut walker = Walker::new();
    for upper in subsets(&[P, W, U, NX]) {
        for lower in subsets(&[P, W, U, NX]) {
            check_all(&mut walker, TABLE | upper, SMALL_PAGE | lower | A);
        }
    }
    for lower in subsets(&[A, D, TOO_HIGH]) {
        for upper in subsets(&[A, TOO_HIGH]) {
            let directory_entry = TABLE | P | W | U | upper;
            check_all(&mut walker, directory_entry, SMALL_PAGE | P | W | U | lower);
        }
    }
    assert_eq!(walker.checked, (16 * 16 + 8 * 4) * 32 * 6);
}

#[test]
fn a_large_page_is_protected_as_a_small_one_and_has_more_reserved_bits() {
    let mut walker = Walker::new();
    for entry in subsets(&[P, W, U, NX, A, D, TOO_HIGH, LOW_OF_LARGE]) {
        check_all(&mut walker, LARGE_PAGE | LARGE | entry, 0);
    }
    assert_eq!(walker.checked, 256 * 32 * 6);
}

#[test]
fn a_reserved_bit_of_an_entry_that_is_not_present_means_nothing() {
    let mut walker = Walker::new();
    for entry in [TOO_HIGH, TOO_HIGH | W | U | NX, LARGE | LOW_OF_LARGE] {
        check_all(&mut walker, entry, 0);
        check_all(&mut walker, TABLE | P | W | U, entry & !LARGE);
    }
}

/// [APM2 "4-Kbyte Page Translation"]: bits of the upper tables that must be zero.
#[test]
fn upper_tables_have_reserved_bits_of_their_own() {
    // Entry of the root, entry of the pointer table, whether the access is made.
    let rows = [
        (0, 0, true),
        (LARGE, 0, false),
        (1 << 8, 0, false),
        (TOO_HIGH, 0, false),
        (0, TOO_HIGH, false),
        // A page of 1 GiB: its low address bits are reserved.
        (0, LARGE | 1 << 13, false),
        (0, LARGE | 1 << 29, false),
    ];
    for (root, pointer, is_made) in rows {
        let mut walker = Walker::new();
        let subject = &mut walker.subject;
        subject.put(DIRECTORY, TABLE | P | W | U);
        subject.put(TABLE, SMALL_PAGE | P | W | U);
        subject.put(ROOT + 8, POINTERS | P | W | U | root);
        subject.put(POINTERS, DIRECTORY | P | W | U | pointer);
        subject.cpu.registers.gpr[3] = PAGE;
        let expected = match is_made {
            true => Outcome::Done,
            false => event(14, Some(PRESENT | RESERVED), 0),
        };
        assert_eq!(subject.run(), expected, "{root:x} {pointer:x}");
    }
}

#[test]
fn a_gigabyte_page_is_mapped_by_the_pointer_table() {
    let mut walker = Walker::new();
    let subject = &mut walker.subject;
    subject.put(POINTERS, P | W | U | LARGE);
    subject.put(DATA, 0x1234_5678_9ABC);
    subject.cpu.registers.gpr[3] = PAGE + DATA;
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.registers.gpr[1], 0x1234_5678_9ABC);
    assert_eq!(subject.get(POINTERS) & A, A, "accessed");
}

/// Reads the page, then replaces its entry in the table.
fn read_and_replace(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rcx, qword_ptr(rbx))?;
    a.mov(qword_ptr(TABLE), rdx)
}

/// [APM2 "Translation-Lookaside Buffer (TLB)"]
#[test]
fn a_changed_entry_is_seen_after_the_flush_that_the_manual_asks_for() {
    let present = P | W | U | A;
    let rows: [(&str, u64, Code); 6] = [
        ("an entry that was not present needs none", 0, |a| {
            a.mov(qword_ptr(TABLE), rdx)?;
            a.mov(rcx, qword_ptr(rbx))
        }),
        ("INVLPG", present, |a| {
            read_and_replace(a)?;
            a.invlpg(byte_ptr(rbx))?;
            a.mov(rcx, qword_ptr(rbx))
        }),
        ("a write of CR3", present, |a| {
            read_and_replace(a)?;
            a.mov(rax, cr3)?;
            a.mov(cr3, rax)?;
            a.mov(rcx, qword_ptr(rbx))
        }),
        ("a change of CR4.PGE", present, |a| {
            read_and_replace(a)?;
            a.mov(rax, cr4)?;
            a.xor(eax, 0x80)?;
            a.mov(cr4, rax)?;
            a.mov(rcx, qword_ptr(rbx))
        }),
        ("INVPCID of one address", present, |a| {
            read_and_replace(a)?;
            a.xor(eax, eax)?;
            a.mov(qword_ptr(DATA), rax)?;
            a.mov(qword_ptr(DATA + 8), rbx)?;
            a.invpcid(rax, xmmword_ptr(DATA))?;
            a.mov(rcx, qword_ptr(rbx))
        }),
        ("INVPCID of everything", present, |a| {
            read_and_replace(a)?;
            a.mov(eax, 2)?;
            a.invpcid(rax, xmmword_ptr(DATA))?;
            a.mov(rcx, qword_ptr(rbx))
        }),
    ];
    for (flush, attributes, code) in rows {
        let mut walker = Walker::new();
        let subject = &mut walker.subject;
        subject.put(DIRECTORY, TABLE | present);
        subject.put(TABLE, SMALL_PAGE | attributes);
        subject.put(SMALL_PAGE, 0x4000);
        subject.put(SMALL_PAGE + 0x1000, 0x5000);
        subject.assemble(CODE, code);
        subject.cpu.registers.gpr[3] = PAGE;
        subject.cpu.registers.gpr[2] = (SMALL_PAGE + 0x1000) | present;
        assert_eq!(subject.run(), Outcome::Done, "{flush}");
        assert_eq!(subject.cpu.registers.gpr[1], 0x5000, "{flush}");
    }
}
