//! Shifts of each lane by a count of its own; counts of the lane's width or more shift all out.

use super::{dwords, from_dwords, from_qwords, lanewise, qwords};
use std::array::from_fn;

/// A lane's count, as shifts take it.
fn count(lane: u64) -> u32 {
    u32::try_from(lane).unwrap_or(u32::MAX)
}

lanewise! {
    psllvd: dwords, from_dwords, u32, u32, |a, b| a.checked_shl(b).unwrap_or(0);
    psllvq: qwords, from_qwords, u64, u64, |a, b| a.checked_shl(count(b)).unwrap_or(0);
    psrlvd: dwords, from_dwords, u32, u32, |a, b| a.checked_shr(b).unwrap_or(0);
    psrlvq: qwords, from_qwords, u64, u64, |a, b| a.checked_shr(count(b)).unwrap_or(0);
    psravd: dwords, from_dwords, u32, u32, |a, b| (a as i32) >> b.min(31);
}
