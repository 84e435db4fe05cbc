//! QEMU's CPU models, as models of ours.

use super::request::{Question, Request};
use cpu::CpuModel;

/// What QEMU has without `-cpu`.
pub(super) const USUAL: &str = "generic";

/// Names of QEMU's, without the numbers of their versions, and the nearest of ours.
const MODELS: [(&str, &str); 19] = [
    ("qemu64", "generic"),
    ("qemu32", "generic"),
    ("kvm64", "generic"),
    ("base", "generic"),
    ("Opteron_G1", "generic"),
    ("IvyBridge", "ivy-bridge-ep"),
    ("Haswell", "haswell-ep"),
    ("Broadwell", "haswell-ep"),
    ("Skylake-Server", "skylake-sp"),
    ("Cascadelake-Server", "skylake-sp"),
    ("Icelake-Server", "ice-lake-sp"),
    ("SapphireRapids", "sapphire-rapids"),
    ("EPYC", "zen1"),
    ("EPYC-Rome", "zen2"),
    ("EPYC-Milan", "zen3"),
    ("EPYC-Genoa", "zen4"),
    ("EPYC-Turin", "zen5"),
    ("max", BEST_AMD),
    ("host", BEST_AMD),
];

/// For `max` and `host`; with VMX, the other.
const BEST_AMD: &str = "zen4";
const BEST_INTEL: &str = "skylake-sp";

/// Features that QEMU calls otherwise.
const FEATURES: [(&str, &str); 4] = [
    ("tsc-deadline", "tsc_deadline_timer"),
    ("lahf-lm", "lahf_lm"),
    ("sse4.1", "sse4_1"),
    ("sse4.2", "sse4_2"),
];

/// Words that say nothing of what software sees here.
const WORDS: [&str; 6] = ["migratable", "host-phys-bits", "pmu", "check", "enforce", "l3-cache"];

/// `MODEL[,±FEATURE][,KEY=VALUE]...`
pub(super) fn set(request: &mut Request, text: &str) -> Result<(), String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    if matches!(name, "help" | "?") {
        return request.ask(Question::Models);
    }
    let parts: Vec<&str> = parts.collect();
    let is_intel =
        parts.iter().any(|part| matches!(*part, "+vmx" | "vmx=on" | "vendor=GenuineIntel"));
    let mut model = base(request, name, is_intel)?;
    for part in parts {
        let (feature, is_on) =
            match (part.strip_prefix('+'), part.strip_prefix('-'), part.split_once('=')) {
                (Some(feature), ..) => (feature, true),
                (_, Some(feature), _) => (feature, false),
                (.., Some(("vendor", _))) => continue,
                (.., Some(("phys-bits", _))) => {
                    return Err("the model has its own physical addresses".into());
                }
                (.., Some((feature, "on"))) => (feature, true),
                (.., Some((feature, "off"))) => (feature, false),
                (.., Some((key, _))) => (key, true),
                (.., None) => (part, true),
            };
        if feature == "hv_passthrough" || feature.starts_with("hv-") || feature.starts_with("hv_") {
            return Err("the machine is not a hypervisor, Hyper-V's or another".into());
        }
        if WORDS.contains(&feature) {
            continue;
        }
        let renamed = FEATURES.iter().find(|(theirs, _)| *theirs == feature);
        let feature =
            renamed.map_or_else(|| feature.replace('-', "_"), |(_, ours)| (*ours).to_owned());
        let changed = format!("{model},{}{feature}", if is_on { '+' } else { '-' });
        // As QEMU does without `enforce`.
        match CpuModel::named(&changed) {
            Ok(_) => model = changed,
            Err(_) => request.ignore(&format!("-cpu {part}, which {model} cannot have otherwise")),
        }
    }
    request.model = Some(model);
    Ok(())
}

/// The model of ours for a name of QEMU's, or of ours.
fn base(request: &Request, name: &str, is_intel: bool) -> Result<String, String> {
    if let ("max" | "host", Some(best)) = (name, &request.best) {
        return Ok(best.clone());
    }
    let plain = name.rsplit_once("-v").filter(|(_, version)| version.parse::<u8>().is_ok());
    let plain = plain.map_or(name, |(plain, _)| plain);
    let known = MODELS.iter().find(|(theirs, _)| *theirs == plain).map(|(_, ours)| *ours);
    match known {
        Some(BEST_AMD) if is_intel && matches!(name, "max" | "host") => Ok(BEST_INTEL.to_owned()),
        Some("generic") if is_intel => Ok("generic-intel".to_owned()),
        Some(ours) => Ok(ours.to_owned()),
        None if CpuModel::named(name).is_ok() => Ok(name.to_owned()),
        None => Err(format!(
            "unable to find CPU model '{name}': there are {} and those of machine list-cpus",
            MODELS.map(|(theirs, _)| theirs).join(", ")
        )),
    }
}

/// What `-cpu help` says.
pub(super) fn list() -> String {
    let row = |(theirs, ours): &(&str, &str)| format!("  {theirs}  as {ours}\n");
    format!("Available CPUs:\n{}", MODELS.iter().map(row).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_features_have_names_of_ours() {
        for (text, expected) in [
            ("qemu64,+x2apic,+tsc-deadline", "generic,+x2apic,+tsc_deadline_timer"),
            ("qemu64,-x2apic", "generic,-x2apic"),
            ("max,+svm,-npt", "zen4,+svm,-npt"),
            ("max,+vmx,host-phys-bits", "skylake-sp,+vmx"),
            ("max,vendor=GenuineIntel", "skylake-sp"),
            ("qemu64,vendor=GenuineIntel", "generic-intel"),
            ("EPYC-Genoa-v1", "zen4"),
            ("zen5", "zen5"),
        ] {
            let mut request = Request::default();
            set(&mut request, text).expect(text);
            assert_eq!(request.model.as_deref(), Some(expected), "{text}: {:?}", request.ignored);
        }
    }

    #[test]
    fn the_model_of_the_environment_stands_for_max() {
        let mut request = Request::default();
        request.best = Some("sapphire-rapids".into());
        set(&mut request, "max,+vmx").expect("a model");
        assert_eq!(request.model.as_deref(), Some("sapphire-rapids,+vmx"));
    }

    #[test]
    fn a_feature_that_a_model_cannot_have_is_said_and_the_rest_holds() {
        let mut request = Request::default();
        set(&mut request, "qemu64,+nosuch,+x2apic").expect("a model");
        assert_eq!(request.model.as_deref(), Some("generic,+x2apic"));
        assert_eq!(request.ignored.len(), 1);
    }
}
