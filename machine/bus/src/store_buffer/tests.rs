use super::*;
use crate::Author;
use arch::address::SystemPhysical;

const LATER: Picoseconds = Picoseconds(1 << 40);

fn store(memory: &mut GuestMemory, at: usize, bytes: &[u8]) {
    memory.ram_mut(at, bytes.len()).expect("RAM").copy_from_slice(bytes);
    memory.note_write(at, bytes.len());
}

fn lent() -> GuestMemory {
    let mut memory = GuestMemory::new(1 << 16);
    memory.lend(StoreBuffer::new(1));
    memory
}

#[test]
fn a_processor_sees_its_stores_and_others_see_them_when_they_are_due_in_order() {
    let mut memory = lent();
    store(&mut memory, 0x100, &[1; 8]);
    store(&mut memory, 0x104, &[2; 8]);
    store(&mut memory, 0x102, &[3; 1]);
    let own = [1, 1, 3, 1, 2, 2, 2, 2, 2, 2, 2, 2];
    assert_eq!(memory.ram[0x100..0x10C], own, "stores overlap");
    let mut buffer = memory.take_back(None).expect("lent");
    assert_eq!((buffer.len(), &memory.ram[0x100..0x10C]), (3, &[0; 12][..]));
    // A turn that a caller cuts goes on as if it had not been.
    for _ in 0..2 {
        memory.lend(buffer);
        assert_eq!(memory.ram[0x100..0x10C], own);
        buffer = memory.take_back(None).expect("lent");
    }
    // Whatever is visible is a prefix.
    let prefixes =
        [[0; 12], [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2], own];
    for step in 0..64 {
        memory.lend(buffer);
        buffer = memory.take_back(Some(Picoseconds(step * 50_000))).expect("lent");
        assert_eq!(memory.ram[0x100..0x10C], prefixes[3 - buffer.len()], "{step}");
    }
    assert!(buffer.is_empty(), "a wait has a bound");
}

#[test]
fn what_others_store_meanwhile_lies_beneath_and_is_written_over() {
    let mut memory = lent();
    store(&mut memory, 0x100, &[1; 4]);
    let first = memory.take_back(None).expect("lent");
    memory.lend(StoreBuffer::new(2));
    store(&mut memory, 0x102, &[2; 4]);
    let second = memory.take_back(Some(LATER)).expect("lent");
    memory.lend(second);
    memory.take_back(Some(LATER.saturating_add(LATER))).expect("lent");
    assert_eq!(memory.ram[0x100..0x106], [0, 0, 2, 2, 2, 2]);
    memory.lend(first);
    assert_eq!(memory.ram[0x100..0x106], [1, 1, 1, 1, 2, 2]);
    memory.publish_stores();
    assert!(memory.take_back(None).expect("lent").is_empty());
    assert_eq!(memory.ram[0x100..0x106], [1, 1, 1, 1, 2, 2]);
}

#[test]
fn hardware_writes_long_stores_and_stores_to_code_come_behind_those_before() {
    let cases: [fn(&mut GuestMemory); 4] = [
        |memory| {
            memory.write_by(Author::PageWalk, SystemPhysical(0x900), &[1]).expect("RAM");
        },
        |memory| store(memory, 0x900, &[1; 64]),
        |memory| store(memory, 0x200, &[1]),
        |memory| memory.watch(0x100, 1),
    ];
    for (number, case) in cases.iter().enumerate() {
        let mut memory = GuestMemory::new(1 << 16);
        memory.watch(0x200, 1);
        memory.lend(StoreBuffer::new(1));
        store(&mut memory, 0x110, &[7]);
        case(&mut memory);
        let buffer = memory.take_back(None).expect("lent");
        assert_eq!((buffer.len(), memory.ram[0x110]), (0, 7), "case {number}");
    }
}

#[test]
fn code_that_another_processor_has_decoded_is_forgotten_when_a_store_reaches_it() {
    let mut memory = lent();
    store(&mut memory, 0x1100, &[7]);
    let buffer = memory.take_back(None).expect("lent");
    memory.watch(0x1100, 1);
    let generation = memory.generations[1];
    memory.lend(buffer);
    assert_ne!(memory.generations[1], generation);
    assert!(memory.take_back(None).expect("lent").is_empty());
    assert_eq!(memory.ram[0x1100], 7);
}

#[test]
fn a_full_buffer_lets_its_oldest_store_out() {
    let mut memory = lent();
    for n in 0..CAPACITY + 2 {
        store(&mut memory, 0x100 + n, &[1]);
    }
    let buffer = memory.take_back(None).expect("lent");
    assert_eq!((buffer.len(), &memory.ram[0x100..0x104]), (CAPACITY, &[1, 1, 0, 0][..]));
}

#[test]
fn memory_goes_back_to_its_mark_under_stores() {
    let mut memory = GuestMemory::new(1 << 16);
    memory.mark();
    memory.lend(StoreBuffer::new(1));
    store(&mut memory, 0x1100, &[7]);
    let buffer = memory.take_back(None).expect("lent");
    memory.lend(buffer);
    store(&mut memory, 0x2100, &[7]);
    memory.publish_stores();
    memory.take_back(None).expect("lent");
    memory.return_to_mark();
    assert!(memory.ram.iter().all(|byte| *byte == 0));
}

#[test]
fn a_buffer_that_leads_out_of_ram_does_not_fit() {
    let mut buffer = StoreBuffer::new(1);
    buffer.stores.push_back(Store { at: 0xFFF8, length: 8, bytes: [0; LONGEST], due: None });
    assert!(buffer.fits(0x1_0000) && !buffer.fits(0xFFFF));
    for (at, length) in [(u64::MAX, 8), (0, 0), (0, LONGEST as u8 + 1)] {
        (buffer.stores[0].at, buffer.stores[0].length) = (at, length);
        assert!(!buffer.fits(0x1_0000), "{at:#x} {length}");
    }
}
