//! What is compared: the arms of an experiment, alike but for one feature.

use super::arm::{Arm, ModuleParameter, Setting};
use super::processor;
use cpu::CpuModel;
use rules::feature::Feature;
use rules::inhibit::Vendor;
use std::str::FromStr;

/// What an experiment switches, with the settings that are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Switched together; all of one vendor.
    pub features: Vec<Feature>,
    /// Each is an arm.
    pub settings: Vec<Setting>,
    /// What the processor has besides, and what stays off whatever the setting.
    pub kept_off: Vec<Feature>,
    /// What is switched and the arms, where they are not those of the features.
    pub own: Option<(String, Vec<Arm>)>,
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            features: vec![Feature::Avic],
            settings: Setting::BOTH.to_vec(),
            kept_off: Vec::new(),
            own: None,
        }
    }
}

impl Experiment {
    /// All that the vendor's processors virtualize of interrupts, with one setting after the other.
    pub fn of_model(model: &CpuModel, settings: &[Setting]) -> Self {
        let all = Request { name: None, settings: settings.to_vec() };
        all.on(model).unwrap_or_default()
    }

    /// Whose processors it is about.
    pub fn vendor(&self) -> Vendor {
        self.features.first().map_or(Vendor::Amd, |feature| feature.vendor())
    }

    /// What is switched, for readers.
    pub fn name(&self) -> String {
        if let Some((name, _)) = &self.own {
            return name.clone();
        }
        self.features.iter().map(|one| one.name()).collect::<Vec<_>>().join(" and ")
    }

    /// What KVM inhibits, for readers.
    pub fn inhibited_name(&self) -> &'static str {
        match self.vendor() {
            Vendor::Amd => self.features.first().map_or("", |feature| feature.name()),
            // What rests on it goes with it.
            Vendor::Intel => Feature::Apicv.name(),
        }
    }

    /// What is compared, off first.
    pub fn arms(&self) -> Vec<Arm> {
        if let Some((_, arms)) = &self.own {
            return arms.clone();
        }
        self.settings.iter().map(|setting| self.arm(*setting)).collect()
    }

    /// What is compared under one setting.
    pub fn arm(&self, setting: Setting) -> Arm {
        let base = Feature::of_vendor(self.vendor());
        let base_setting = if self.features.contains(&base) { setting } else { Setting::On };
        let switched = self.features.iter().filter(|feature| has_own_parameter(**feature));
        let resting = if setting == Setting::Between { Setting::Off } else { setting };
        let others = switched.filter(|feature| **feature != base).map(|one| (*one, resting));
        let kept_off = self.kept_off.iter().map(|one| (*one, Setting::Off));
        let all = std::iter::once((base, base_setting)).chain(others).chain(kept_off);
        let lacks_x2avic = setting == Setting::Off && self.features.contains(&Feature::X2avic);
        Arm {
            label: match setting {
                Setting::Between => format!("{} alone", base.name()),
                Setting::Off | Setting::On => format!("{} {setting}", self.name()),
            },
            setting,
            parameters: all.map(|(feature, setting)| parameter(feature, setting)).collect(),
            without: lacks_x2avic.then(|| "x2avic".to_owned()).into_iter().collect(),
            host: String::new(),
            guest: String::new(),
        }
    }
}

/// x2AVIC has none: without it, the processor has to be another.
fn has_own_parameter(feature: Feature) -> bool {
    feature != Feature::X2avic
}

fn parameter(feature: Feature, setting: Setting) -> ModuleParameter {
    let parameter = feature.parameter();
    ModuleParameter {
        module: parameter.module.into(),
        name: parameter.name.into(),
        value: u8::from(setting.is_on()).to_string(),
    }
}

/// What `--feature` asks for, before it is known whose processors the host has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// None for all that interrupt virtualization is to the vendor.
    name: Option<&'static str>,
    settings: Vec<Setting>,
}

/// What `--feature` calls the features that the lab can switch, for each vendor.
const NAMES: [(&str, Option<Feature>, Option<Feature>); 5] = [
    ("avic", Some(Feature::Avic), None),
    ("x2avic", Some(Feature::X2avic), None),
    ("apicv", None, Some(Feature::Apicv)),
    ("ipi", Some(Feature::AvicIpi), Some(Feature::IpiVirtualization)),
    ("ipiv", Some(Feature::AvicIpi), Some(Feature::IpiVirtualization)),
];

impl Request {
    /// The experiment on a host with such processors, or what could be asked for there instead.
    pub fn on(&self, model: &CpuModel) -> Result<Experiment, String> {
        let vendor = processor::vendor(model);
        let of_vendor = |row: &(&'static str, Option<Feature>, Option<Feature>)| match vendor {
            Vendor::Amd => row.1,
            Vendor::Intel => row.2,
        };
        let ipis = processor::has_ipi_virtualization(model).then_some(Feature::IpiVirtualization);
        let experiment = |features: Vec<Feature>| Experiment {
            // What is asked about APICv alone is not to be hidden by what rests on it.
            kept_off: match features.as_slice() {
                [Feature::Apicv] => ipis.into_iter().collect(),
                _ => Vec::new(),
            },
            features,
            settings: self.settings.clone(),
            own: None,
        };
        let Some(name) = self.name else {
            if self.settings.contains(&Setting::Between) && ipis.is_none() {
                let base = vendor.feature();
                return Err(format!(
                    "{base} and nothing that rests on it can be switched on {}: there are no steps, \
                     but off and on",
                    model.name()
                ));
            }
            let base = std::iter::once(Feature::of_vendor(vendor));
            return Ok(experiment(base.chain(ipis).collect()));
        };
        let row = NAMES.iter().find(|row| row.0 == name);
        row.and_then(of_vendor).map(|feature| experiment(vec![feature])).ok_or_else(|| {
            let known = NAMES.iter().filter(|row| of_vendor(row).is_some()).map(|row| row.0);
            format!(
                "{} processors have no {name}; they have {}",
                vendor.name(),
                known.collect::<Vec<_>>().join(", ")
            )
        })
    }
}

impl FromStr for Request {
    type Err = String;

    /// `both`, `steps`, `off` and `on` are about all that the vendor has; otherwise
    /// `FEATURE=off,on`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) = match text.split_once('=') {
            Some((name, values)) => (Some(name), values),
            None => (None, text),
        };
        let known = NAMES.map(|row| row.0).join(", ");
        let wanted =
            || format!("both, steps, off, on, or FEATURE=off,on with FEATURE one of {known}");
        let find = |name| NAMES.iter().find(|row| row.0 == name).map(|row| row.0);
        let name = name.map(|name| find(name).ok_or_else(wanted)).transpose()?;
        let settings = match values {
            "both" | "off,on" | "on,off" => Setting::BOTH.to_vec(),
            "off" => vec![Setting::Off],
            "on" => vec![Setting::On],
            "steps" if name.is_none() => Setting::STEPS.to_vec(),
            _ => return Err(wanted()),
        };
        Ok(Self { name, settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::exit_reason::Isa;

    fn arms_on(model: &str, text: &str) -> Vec<Arm> {
        let model = CpuModel::named(model).expect("a model that comes with the machine");
        text.parse::<Request>().expect(text).on(&model).expect(text).arms()
    }

    fn arms(text: &str) -> Vec<Arm> {
        arms_on("zen4", text)
    }

    fn parameters(arm: &Arm) -> String {
        let all = arm.parameters.iter().map(ModuleParameter::to_string);
        all.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_arm_says_everything_that_makes_it_differ() {
        let [off, on] = arms("both").try_into().expect("two arms");
        assert_eq!((off.label.as_str(), off.setting), ("AVIC off", Setting::Off));
        assert_eq!(parameters(&off), "kvm_amd.avic=0");
        assert_eq!(parameters(&on), "kvm_amd.avic=1");
        assert!(off.shares_host(&on));
        assert_eq!(on.isa(), Isa::Svm);

        let [off, on] = arms("x2avic=off,on").try_into().expect("two arms");
        assert_eq!(parameters(&off), "kvm_amd.avic=1");
        assert_eq!(off.parameters, on.parameters, "both have AVIC");
        assert_eq!((off.without.join(","), on.without.join(",")), ("x2avic".into(), String::new()));
        assert!(!off.shares_host(&on));

        let [off, on] = arms("ipi=off,on").try_into().expect("two arms");
        assert_eq!(parameters(&off), "kvm_amd.avic=1 kvm_amd.enable_ipiv=0");
        assert_eq!(parameters(&on), "kvm_amd.avic=1 kvm_amd.enable_ipiv=1");
        assert_eq!(arms("avic=on").len(), 1);
        assert_eq!(arms("off")[0].setting, Setting::Off);
    }

    #[test]
    fn on_intel_both_is_all_that_the_processor_has_and_each_feature_can_be_had_alone() {
        let module = "kvm_intel.enable_";
        for (model, text, off, on) in [
            ("sapphire-rapids", "both", "apicv=0 ipiv=0", "apicv=1 ipiv=1"),
            ("sapphire-rapids", "apicv=off,on", "apicv=0 ipiv=0", "apicv=1 ipiv=0"),
            ("sapphire-rapids", "ipiv=off,on", "apicv=1 ipiv=0", "apicv=1 ipiv=1"),
            ("skylake-sp", "both", "apicv=0", "apicv=1"),
            ("skylake-sp", "apicv=off,on", "apicv=0", "apicv=1"),
        ] {
            let arms = arms_on(model, text);
            let found: Vec<_> =
                arms.iter().map(|arm| parameters(arm).replace(module, "")).collect();
            assert_eq!(found, [off, on], "{model} {text}");
            assert_eq!(arms[0].isa(), Isa::Vmx);
        }
        let model =
            CpuModel::named("sapphire-rapids").expect("a model that comes with the machine");
        let ipis = "ipi=off,on".parse::<Request>().expect("a request").on(&model);
        assert_eq!(ipis.expect("a feature of Intel's").inhibited_name(), "APICv");
        let label = &arms_on("sapphire-rapids", "on")[0].label;
        assert_eq!(label, "APICv and IPI virtualization on");
    }

    #[test]
    fn steps_switch_one_feature_on_after_the_other() {
        let arms = arms_on("sapphire-rapids", "steps");
        let found: Vec<_> =
            arms.iter().map(|arm| parameters(arm).replace("kvm_intel.enable_", "")).collect();
        assert_eq!(found, ["apicv=0 ipiv=0", "apicv=1 ipiv=0", "apicv=1 ipiv=1"]);
        assert_eq!(arms[1].label, "APICv alone");
        assert!(arms[0].shares_host(&arms[1]) && arms[1].setting.is_on());
        for model in ["skylake-sp", "zen4"] {
            let model = CpuModel::named(model).expect("a model that comes with the machine");
            let request: Request = "steps".parse().expect("a request");
            let error = request.on(&model).expect_err("one feature has no steps");
            assert!(error.contains("no steps, but off and on"), "{error}");
        }
    }

    #[test]
    fn what_is_no_feature_or_setting_is_told_what_is() {
        for text in
            ["", "maybe", "apicv=steps", "avic=", "avic=maybe", "nosuch=off,on", "off,on,off"]
        {
            let error = text.parse::<Request>().expect_err(text);
            assert!(error.contains("avic, x2avic, apicv, ipi"), "{error}");
        }
    }

    #[test]
    fn a_feature_of_the_other_vendor_is_told_what_this_one_has() {
        for (model, text, known) in [
            ("zen4", "apicv=off,on", "AMD processors have no apicv; they have avic, x2avic, ipi"),
            ("skylake-sp", "avic=on", "Intel processors have no avic; they have apicv, ipi"),
        ] {
            let model = CpuModel::named(model).expect("a model that comes with the machine");
            let error = text.parse::<Request>().expect(text).on(&model).expect_err(text);
            assert!(error.starts_with(known), "{error}");
        }
    }
}
