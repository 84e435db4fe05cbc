//! A moment to which the host goes back, so that the same is done again under other costs.

use super::Session;
use board::Mark;

impl Session {
    /// This moment; only the last one can be gone back to.
    pub(crate) fn mark(&mut self) -> Mark {
        self.drive.drain();
        self.drive.machine.mark()
    }

    /// The host is as it was then.
    pub(crate) fn return_to(&mut self, mark: &Mark) {
        self.drive.drain();
        self.drive.machine.return_to(mark);
        self.forget_heard();
    }
}
