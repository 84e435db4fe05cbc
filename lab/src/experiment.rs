//! What is compared: the arms of an experiment, alike but for one feature.

use rules::feature::Feature;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Whether the feature in question is off or on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    Off,
    On,
}

impl Setting {
    pub const BOTH: [Self; 2] = [Self::Off, Self::On];

    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
        }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A parameter of a kernel module with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleParameter {
    pub module: String,
    pub name: String,
    pub value: String,
}

impl std::fmt::Display for ModuleParameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}={}", self.module, self.name, self.value)
    }
}

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// For people.
    pub label: String,
    pub setting: Setting,
    /// Parameters that the host's modules are loaded with; they are loaded anew where the arm
    /// before had others.
    pub parameters: Vec<ModuleParameter>,
    /// Features that the host's processors are without, such as `x2avic`. An arm that has its own
    /// processors has its own host.
    pub without: Vec<String>,
    /// More words for the command line of the host's kernel; they make another host, too.
    pub host: String,
    /// More words for a guest: of its kernel's command line, or options of the benchmark.
    pub guest: String,
}

impl Arm {
    /// Whether two arms can be run on one host, one after the other.
    pub fn shares_host(&self, other: &Self) -> bool {
        self.without == other.without && self.host == other.host
    }
}

/// The feature that an experiment is about, with the settings that are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    pub feature: Feature,
    pub settings: Vec<Setting>,
}

impl Default for Experiment {
    fn default() -> Self {
        Self { feature: Feature::Avic, settings: Setting::BOTH.to_vec() }
    }
}

/// What `--feature` calls the features that the lab can switch.
const NAMES: [(&str, Feature); 3] =
    [("avic", Feature::Avic), ("x2avic", Feature::X2avic), ("ipi", Feature::AvicIpi)];

impl Experiment {
    /// What is compared, off first.
    pub fn arms(&self) -> Vec<Arm> {
        self.settings.iter().map(|setting| self.arm(*setting)).collect()
    }

    pub fn arm(&self, setting: Setting) -> Arm {
        let parameter = |feature: Feature, setting: Setting| {
            let parameter = feature.parameter();
            ModuleParameter {
                module: parameter.module.into(),
                name: parameter.name.into(),
                value: u8::from(setting.is_on()).to_string(),
            }
        };
        let plain = Arm {
            label: format!("{} {setting}", self.feature),
            setting,
            parameters: vec![parameter(Feature::of_vendor(self.feature.vendor()), Setting::On)],
            without: Vec::new(),
            host: String::new(),
            guest: String::new(),
        };
        match self.feature {
            Feature::Avic | Feature::Apicv => {
                Arm { parameters: vec![parameter(self.feature, setting)], ..plain }
            }
            // No parameter of its own: a processor without it.
            Feature::X2avic if setting == Setting::Off => {
                Arm { without: vec!["x2avic".into()], ..plain }
            }
            Feature::X2avic => plain,
            Feature::AvicIpi
            | Feature::IommuAvic
            | Feature::IpiVirtualization
            | Feature::PostedInterrupts => {
                let mut arm = plain;
                arm.parameters.push(parameter(self.feature, setting));
                arm
            }
        }
    }
}

impl FromStr for Experiment {
    type Err = String;

    /// `both`, `off` and `on` are about AVIC; otherwise `FEATURE=off,on`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) = text.split_once('=').unwrap_or(("avic", text));
        let known = NAMES.map(|(name, _)| name).join(", ");
        let wanted = || format!("both, off, on, or FEATURE=off,on with FEATURE one of {known}");
        let feature = NAMES.iter().find(|(word, _)| *word == name).map(|(_, feature)| *feature);
        let feature = feature.ok_or_else(wanted)?;
        let settings = match values {
            "both" | "off,on" | "on,off" => Setting::BOTH.to_vec(),
            "off" => vec![Setting::Off],
            "on" => vec![Setting::On],
            _ => return Err(wanted()),
        };
        Ok(Self { feature, settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(text: &str) -> Vec<Arm> {
        text.parse::<Experiment>().expect(text).arms()
    }

    #[test]
    fn an_arm_says_everything_that_makes_it_differ() {
        let [off, on] = arms("both").try_into().expect("two arms");
        assert_eq!((off.label.as_str(), off.setting), ("AVIC off", Setting::Off));
        assert_eq!(off.parameters[0].to_string(), "kvm_amd.avic=0");
        assert_eq!(on.parameters[0].to_string(), "kvm_amd.avic=1");
        assert!(off.shares_host(&on));

        let [off, on] = arms("x2avic=off,on").try_into().expect("two arms");
        assert_eq!(off.parameters, on.parameters, "both have AVIC");
        assert_eq!((off.without.join(","), on.without.join(",")), ("x2avic".into(), String::new()));
        assert!(!off.shares_host(&on));

        let [off, on] = arms("ipi=off,on").try_into().expect("two arms");
        assert_eq!(off.parameters[1].to_string(), "kvm_amd.enable_ipiv=0");
        assert_eq!(on.parameters[1].to_string(), "kvm_amd.enable_ipiv=1");
        assert_eq!(arms("avic=on").len(), 1);
        assert_eq!(arms("off")[0].setting, Setting::Off);
    }

    #[test]
    fn what_is_no_feature_or_setting_is_told_what_is() {
        for text in ["", "maybe", "avic=", "avic=maybe", "apicv=off,on", "off,on,off"] {
            let error = text.parse::<Experiment>().expect_err(text);
            assert!(error.contains("avic, x2avic, ipi"), "{error}");
        }
    }
}
