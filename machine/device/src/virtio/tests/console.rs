//! When what comes to a console's port is given to the guest, and its end.

use super::*;

#[test]
fn input_waits_until_the_guest_has_opened_the_port() {
    let mut rig = Rig::live(Model::Console(Console::new(&["orders".into()])), 1 << 1);
    assert_eq!(rig.chipset.feed_console(&mut rig.bench.context(), 0, 1, b"go"), 2);
    rig.submit(4, &[(DATA, 8, WRITE)]);
    assert_eq!(rig.used(4), [0; 0]);
    for event in [0, 6] {
        rig.store(HEADER, &[1, 0, 0, 0, event, 0, 1, 0]);
        rig.submit(3, &[(HEADER, 8, 0)]);
    }
    assert_eq!(rig.used(4), [2]);
    assert_eq!(rig.load(DATA, 2), b"go");
}

#[test]
fn the_end_of_input_is_told_when_all_of_it_was_read() {
    let mut rig = Rig::live(Model::Console(Console::new(&["orders".into()])), 1 << 1);
    let end = |rig: &mut Rig| rig.chipset.end_console(&mut rig.bench.context(), 0, 1);
    assert!(!end(&mut rig), "it is not open");
    rig.store(HEADER, &[1, 0, 0, 0, 6, 0, 1, 0]);
    rig.submit(3, &[(HEADER, 8, 0)]);
    rig.chipset.feed_console(&mut rig.bench.context(), 0, 1, b"go");
    assert!(!end(&mut rig), "it has not read");
    rig.submit(4, &[(DATA, 8, WRITE)]);
    assert!(end(&mut rig));
    rig.submit(2, &[(DATA, 64, WRITE)]);
    assert_eq!(rig.load(DATA, 8), [1, 0, 0, 0, 6, 0, 0, 0]);
}
