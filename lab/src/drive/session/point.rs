//! Moments to which the host goes back, so that the same is done again under other costs, or
//! something else instead.

use super::Session;

/// A moment of a session, by how many there were before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point(usize);

impl Session {
    /// This moment; those before it stay.
    pub(crate) fn mark(&mut self) -> Point {
        self.drive.drain();
        let point = Point(self.points.len());
        self.points.push(&mut self.drive.machine);
        point
    }

    /// The host is as it was then; moments after it are forgotten.
    pub(crate) fn return_to(&mut self, point: Point) {
        self.drive.drain();
        self.points.return_to(point.0, &mut self.drive.machine);
        self.forget_heard();
    }

    /// Forgets a moment and those after it; the host stays as it is.
    pub(super) fn forget(&mut self, point: Point) {
        self.points.forget(point.0, &mut self.drive.machine);
    }
}
