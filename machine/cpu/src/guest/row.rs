//! One kind of event that waits at an instruction boundary.

use crate::{Attention, Bus, Cpu, RunEnd};

/// What comes of looking at one row.
pub(crate) enum Look {
    /// At the next row.
    Further,
    /// No further at this boundary: what was taken has to be executed first, or comes alone.
    Done,
    /// The run ends.
    End(RunEnd),
}

/// One kind of event.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// What says that it may wait.
    pub waits: Attention,
    pub take: fn(&mut Cpu, &mut Bus<'_>) -> Look,
}

/// A row that a vendor adds.
#[derive(Clone, Copy)]
pub(crate) struct Added {
    /// Which row of all processors it comes before: what that waits for.
    pub before: Attention,
    pub row: Row,
}
