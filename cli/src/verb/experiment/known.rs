//! What is known of an arm before it is run: KVM's own rules say that some can never take effect.

use ::experiment::place::{Remark, Weight};
use ::experiment::plan::{Plan, Setting, words};
use rules::feature::Feature;

/// Arms that are meant to have AVIC, and cannot.
pub fn futile(plan: &Plan, setting: &Setting) -> Option<Remark> {
    let is_amd = is_amd(plan);
    let pit = plan.of_kind(setting, "pit").map(|(_, level)| level);
    let inhibit = plan.of_kind(setting, "inhibit").map(|(_, level)| level);
    let is_meant_on = is_meant_active(plan, setting);
    let by = match (pit, inhibit) {
        (Some("reinject"), _) if is_amd => {
            "KVM's 8254 timer injects late ticks (PIT_REINJ): let it discard them, or leave it to the VMM"
        }
        (_, Some(inhibit)) if inhibit != "none" => {
            "it is inhibited on purpose: leave the inhibit out"
        }
        _ => return None,
    };
    is_meant_on.then(|| {
        let feature = if is_amd { Feature::Avic } else { Feature::Apicv };
        let cause = format!("{}: {} is never active", words(setting), feature.name());
        Remark::new(Weight::Futile, cause, by)
    })
}

/// Whether a proof of the arm asks for hardly any time inhibited.
fn is_meant_active(plan: &Plan, setting: &Setting) -> bool {
    let Some(level) = setting.get(&plan.design.compare) else { return false };
    plan.proofs.iter().any(|proof| {
        proof.levels.contains(level)
            && proof.evidence == "inhibited"
            && proof.at_most.is_some_and(|most| most < 0.5)
            && ::experiment::plan::is_within(setting, &proof.only)
    })
}

fn is_amd(plan: &Plan) -> bool {
    let of_host = plan.host.as_ref().and_then(|host| host.vendor.as_deref());
    let of_lab = plan.lab.as_ref().and_then(|lab| cpu::CpuModel::named(&lab.cpu).ok());
    match (of_host, of_lab) {
        (Some(vendor), _) => vendor == "amd",
        (None, Some(model)) => model.dialect() == cpu::decode::Dialect::Amd,
        (None, None) => false,
    }
}
