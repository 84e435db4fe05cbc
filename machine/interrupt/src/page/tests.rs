use super::*;

const BANKS: [Bank; 3] = [Bank::InService, Bank::TriggerMode, Bank::Request];

#[test]
fn every_vector_has_its_own_bit_in_every_bank() {
    for bank in BANKS {
        for vector in (0..=255).map(Vector) {
            let mut page = RegisterPage::default();
            assert!(page.insert(bank, vector));
            assert!(!page.insert(bank, vector));
            let dword = page.read_u32(bank as u16 + 16 * u16::from(vector.0 / 32));
            assert_eq!(dword, 1 << (vector.0 % 32));
            for other in BANKS {
                assert_eq!(page.contains(other, vector), other == bank);
                assert_eq!(page.highest(other), (other == bank).then_some(vector));
            }
            assert!(page.remove(bank, vector));
            assert!(!page.remove(bank, vector));
            assert_eq!(page, RegisterPage::default());
        }
    }
}

#[test]
fn highest_of_any_two_vectors() {
    for a in 0..=255 {
        for b in 0..=255 {
            let mut page = RegisterPage::default();
            page.insert(Bank::Request, Vector(a));
            page.insert(Bank::Request, Vector(b));
            assert_eq!(page.highest(Bank::Request), Some(Vector(a.max(b))));
            assert_eq!(page.vectors(Bank::Request).highest(), Some(Vector(a.max(b))));
        }
    }
}

#[test]
fn processor_priority_over_all_task_priorities_and_vectors() {
    for tpr in 0..=255u8 {
        assert_eq!(processor_priority(tpr, None), tpr);
        for isr in 0..=255u8 {
            let expected = match (tpr & 0xF0).cmp(&(isr & 0xF0)) {
                core::cmp::Ordering::Less => isr & 0xF0,
                _ => tpr,
            };
            assert_eq!(processor_priority(tpr, Some(Vector(isr))), expected);
            for vector in 0..=255u8 {
                assert_eq!(is_deliverable(Vector(vector), isr), vector / 16 > isr / 16);
            }
        }
    }
}

#[test]
fn trigger_mode_follows_the_last_request() {
    let mut page = RegisterPage::default();
    for is_level in [true, false, true] {
        page.request(Vector(0x51), is_level);
        assert_eq!(page.contains(Bank::TriggerMode, Vector(0x51)), is_level);
    }
}

#[test]
fn nested_service_ends_in_order_of_priority() {
    let mut page = RegisterPage::default();
    for (vector, is_level) in [(0x31, false), (0x52, true), (0xF3, false)] {
        page.request(Vector(vector), is_level);
        page.start_service(Vector(vector));
        assert_eq!(page.read_u32(PROCESSOR_PRIORITY), u32::from(vector & 0xF0));
    }
    assert!(page.vectors(Bank::Request).is_empty());
    for expected in [(0xF3, false), (0x52, true), (0x31, false)] {
        assert_eq!(page.end_of_interrupt(), Some((Vector(expected.0), expected.1)));
    }
    assert_eq!(page.end_of_interrupt(), None);
    assert_eq!(page.read_u32(PROCESSOR_PRIORITY), 0);
}

#[test]
fn merge_adds_and_keeps() {
    let mut page = RegisterPage::default();
    page.insert(Bank::Request, Vector(0x40));
    let mut posted = VectorSet::default();
    for vector in [0x10, 0x41, 0xFF] {
        posted.insert(Vector(vector));
    }
    page.merge(Bank::Request, &posted);
    for vector in 0..=255 {
        let expected = [0x10, 0x40, 0x41, 0xFF].contains(&vector);
        assert_eq!(page.contains(Bank::Request, Vector(vector)), expected);
    }
    posted.remove(Vector(0x41));
    page.set_vectors(Bank::Request, &posted);
    assert_eq!(page.vectors(Bank::Request), posted);
    assert!(!posted.contains(Vector(0x41)) && posted.contains(Vector(0xFF)));
}

#[test]
fn offsets_past_the_registers_read_zero_and_ignore_writes() {
    let mut page = RegisterPage::default();
    for offset in (0x600..0x1000).step_by(16) {
        page.write_u32(offset, !0);
        assert_eq!(page.read_u32(offset), 0);
    }
    assert_eq!(page, RegisterPage::default());
}
