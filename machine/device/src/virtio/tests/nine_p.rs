//! A guest's file system, and a server that only echoes.

use super::*;
use crate::virtio::nine_p::FileServer;

/// Says a message backwards, behind how many there were.
#[derive(Clone, Debug)]
struct Echo(u8);

impl FileServer for Echo {
    fn answer(&mut self, message: &[u8], room: usize) -> Vec<u8> {
        self.0 += 1;
        [self.0].into_iter().chain(message.iter().rev().copied()).take(room).collect()
    }

    fn is_in_use(&self) -> bool {
        self.0 > 0
    }

    fn reset(&mut self) {
        self.0 = 0;
    }

    fn duplicate(&self) -> Box<dyn FileServer> {
        Box::new(self.clone())
    }
}

#[test]
fn messages_of_a_file_system_are_answered_and_its_tag_is_in_the_configuration() {
    let mut rig = Rig::live(Model::NineP(NineP::new("/dev/root", Box::new(Echo(0)))), 1);
    let tag: Vec<u8> = (0..11).map(|at| rig.get(rig.registers + 0x2000 + at, 1) as u8).collect();
    assert_eq!(tag, b"\x09\0/dev/root");
    rig.store(DATA, b"abcd");
    // Nothing may depend on how bytes are spread over buffers.
    rig.submit(0, &[(DATA, 1, 0), (DATA + 1, 3, 0), (DATA + 16, 2, WRITE), (DATA + 20, 3, WRITE)]);
    assert_eq!(rig.used(0), [5]);
    assert_eq!((rig.load(DATA + 16, 2), rig.load(DATA + 20, 3)), (b"\x01d".into(), b"cba".into()));
    assert_eq!(rig.messages(), [0x31]);
    rig.submit(0, &[(DATA, 4, 0), (DATA + 16, 2, WRITE)]);
    assert_eq!((rig.used(0), rig.load(DATA + 16, 2)), (vec![2], b"\x02d".into()));
    // A reset ends what was open.
    rig.negotiate(VERSION_1);
    rig.set_up_queues();
    rig.store(0x1_1002, &[0; 2]);
    rig.set_status(15);
    (rig.next_descriptor, rig.seen_used[0]) = (0, 0);
    rig.submit(0, &[(DATA, 4, 0), (DATA + 16, 1, WRITE)]);
    assert_eq!(rig.load(DATA + 16, 1), [1]);
}

#[test]
fn a_message_that_no_server_would_take_breaks_the_queue() {
    let mut rig = Rig::live(Model::NineP(NineP::new("host", Box::new(Echo(0)))), 1);
    rig.submit(0, &[(DATA, 2 << 20, 0), (DATA, 16, WRITE)]);
    assert_eq!(rig.status() & 64, 64, "it needs a reset");
}
