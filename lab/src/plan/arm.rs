//! One of the things that are compared, and everything that makes it differ from the others.

use rules::feature::vendor_of_module;
use rules::inhibit::Vendor;
use serde::{Deserialize, Serialize};
use trace::exit_reason::Isa;

/// Which of the features in question are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// Without any.
    Off,
    /// With what the others rest on alone, where there are several.
    Between,
    /// With all.
    On,
}

impl Setting {
    /// Off first.
    pub const BOTH: [Self; 2] = [Self::Off, Self::On];

    /// One feature after the other.
    pub const STEPS: [Self; 3] = [Self::Off, Self::Between, Self::On];

    /// Whether anything is on.
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Between => "between",
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModuleParameter {
    /// With underscores, as below `/sys/module`.
    pub module: String,
    /// As below its `parameters`.
    pub name: String,
    /// As the kernel takes or shows it.
    pub value: String,
}

impl std::fmt::Display for ModuleParameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}={}", self.module, self.name, self.value)
    }
}

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Arm {
    /// For readers.
    pub label: String,
    /// Which side of the comparison it is.
    pub setting: Setting,
    /// Parameters that the host's modules are loaded with; they are loaded again where the arm
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
    /// Whose exits its virtual machines have.
    pub fn isa(&self) -> Isa {
        let modules = self.parameters.iter().map(|parameter| parameter.module.as_str());
        match modules.filter_map(vendor_of_module).next() {
            Some(Vendor::Intel) => Isa::Vmx,
            _ => Isa::Svm,
        }
    }

    /// Which it is, in a word or two.
    pub fn side(&self) -> &str {
        match self.setting {
            Setting::Between => &self.label,
            Setting::Off | Setting::On => self.setting.name(),
        }
    }

    /// Whether two arms can be run on one host, one after the other.
    pub fn shares_host(&self, other: &Self) -> bool {
        self.without == other.without && self.host == other.host
    }
}
