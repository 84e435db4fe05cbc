//! What the first records of a recording tell about the rest.

use super::kind::{self, HEADER, header_at};
use super::layout::Layouts;
use crate::Error;
use crate::sink::Sink;
use trace::exit_reason::Isa;
use trace::kvm::{KvmEvent, Stamp};

impl Layouts {
    /// Takes over what the first records of a recording show: the header that samples of an event
    /// begin with, which are as long as the recording kernel made them.
    pub fn learn(&mut self, bytes: &[u8]) {
        let mut at = 0;
        let mut learnt = vec![false; self.events.len()];
        while let Some((kind, size)) = header_at(bytes, at)
            && let Some(record) = bytes.get(at..at + size)
            && size >= HEADER
        {
            at += size;
            let index = self.index_of(record).filter(|_| kind == kind::SAMPLE);
            let Some(index) = index.filter(|index| !learnt[*index]) else { continue };
            learnt[index] = true;
            let of_event = |(_, other): &(_, &u16)| usize::from(**other) == index;
            for (fast, _) in self.fast_by_id.iter_mut().zip(&self.by_id).filter(of_event) {
                fast.learn(record);
            }
        }
    }

    /// Whether the first samples fit what was assumed about a recording without descriptions.
    pub fn check_assumption(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut check = IsaCheck::default();
        self.walk(bytes, bytes.len(), &mut check);
        if check.unknown > check.exits / 10 {
            return Err(Error::Unsupported(
                "the recording carries no event descriptions and its samples do not look like \
                 those of perf kvm stat"
                    .into(),
            ));
        }
        Ok(())
    }
}

#[derive(Default)]
struct IsaCheck {
    exits: u64,
    unknown: u64,
}

impl Sink for IsaCheck {
    fn event(&mut self, _: &Stamp, event: &KvmEvent) {
        if let KvmEvent::Exit(exit) = event {
            self.exits += 1;
            self.unknown += u64::from(Isa::from_number(exit.isa).is_none());
        }
    }

    fn lost(&mut self, _: u32, _: u64, _: u64) {}
}
