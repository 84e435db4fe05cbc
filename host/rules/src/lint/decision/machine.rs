//! What several rules about machines say alike.

use crate::finding::Position;
use crate::lint::outcome::Outcome;
use crate::lint::subject::Subject;
use crate::vm::{Accelerator, Origin, Setting};

/// "…: why", for undecided rules.
pub fn unknown(what: &str, origin: &Origin) -> String {
    match origin {
        Origin::Unknown(why) => format!("{what} is not known: {why}"),
        _ => format!("{what} is not known: the accelerator is not"),
    }
}

/// Runs `violated` where KVM runs the machine, and says so where that is not known.
pub fn where_kvm(
    subject: &Subject<'_>,
    outcome: &mut Outcome,
    flag: &Option<Setting<bool>>,
    violated: impl FnOnce(&Setting<bool>, &mut Outcome),
) {
    let Some(flag) = flag.as_ref().filter(|flag| flag.value) else { return };
    if !subject.vm.may_be_kvm_x86() {
        return;
    }
    if subject.vm.accelerator.value == Accelerator::Unknown {
        let what = "whether KVM runs this machine";
        outcome.undecided(flag.position(), unknown(what, &subject.vm.accelerator.origin));
    } else {
        violated(flag, outcome);
    }
}

/// Says that the accelerator decides and is not known; true if so.
pub fn accelerator_is_open(
    subject: &Subject<'_>,
    outcome: &mut Outcome,
    at: Option<Position>,
) -> bool {
    let open = subject.vm.accelerator.value == Accelerator::Unknown;
    if open {
        let what = "whether KVM runs this machine";
        outcome.undecided(at, unknown(what, &subject.vm.accelerator.origin));
    }
    open
}
