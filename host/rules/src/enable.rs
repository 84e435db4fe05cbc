//! What would switch the feature on here: a plan of steps, each with what it needs, its risk and
//! its way back.
//!
//! The plan follows from the findings of [`crate::capability`]: what the hardware lacks has no
//! step, what an option or the kernel command line forbids has one. Virtual machines' own inhibits
//! come from [`crate::why`]. Nothing is changed here; a step is data that another crate applies and
//! takes back.

mod arguments;
mod boot;
mod machine;
mod options;
mod step;
#[cfg(test)]
mod tests;

pub use boot::Loader;
pub use boot::grub::VARIABLES as GRUB_VARIABLES;
pub use step::{Action, Expected, OPTIONS_FILE, Step};

use crate::boot_word::Takes;
use crate::capability::{self, Report, Row};
use crate::feature::{AMD_MODULE, Feature, Parameter};
use crate::finding::{Answer, Needs};
use crate::inhibit::Vendor;
use boot::Arguments;
use reading::{Facts, boolean};
use serde::Serialize;

/// Version of the published form of [`Plan`]: docs/schema/enable-1.json.
pub const SCHEMA: u32 = 1;

/// Everything that `enable` would do on a host, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Plan {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// In the order in which they have to be made.
    pub steps: Vec<Step>,
    /// What modprobe then gives, by which the result is verified.
    pub expects: Vec<Expected>,
    /// What no step can change, and why.
    pub blocked: Vec<String>,
    /// Virtual machines that run now: a module cannot be reloaded under them.
    pub running: usize,
}

impl Plan {
    /// Nothing is to be done, or nothing can be.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The plan for a host.
pub fn plan(facts: &Facts, report: &Report) -> Plan {
    let mut draft = Drafting {
        facts,
        report,
        steps: vec![],
        expects: vec![],
        arguments: vec![],
        blocked: vec![],
    };
    match vendor(facts) {
        Some(Vendor::Amd) => draft.amd(),
        Some(Vendor::Intel) => draft.intel(),
        None => draft.blocked.push(match &report.foreign {
            Some(machine) => format!("this is {machine} host: AVIC and APICv are x86's"),
            None => "the processor's vendor is not known".into(),
        }),
    }
    draft.hardware();
    draft.initial_ram_disk();
    draft.boot();
    draft.steps.extend(machine::steps(facts, report));
    Plan {
        schema: SCHEMA,
        steps: draft.steps,
        expects: draft.expects,
        blocked: draft.blocked,
        running: facts.vms.get().map_or(0, Vec::len),
    }
}

fn vendor(facts: &Facts) -> Option<Vendor> {
    let vendors = || facts.cpus.iter().filter_map(|cpu| cpu.vendor.as_ref());
    if vendors().any(|vendor| vendor.has_svm()) {
        Some(Vendor::Amd)
    } else {
        vendors().any(|vendor| vendor.has_vmx()).then_some(Vendor::Intel)
    }
}

/// Kernel arguments that one row asks for.
struct Asked {
    arguments: Arguments,
    because: Row,
    risk: &'static str,
    is_optional: bool,
}

struct Drafting<'f> {
    facts: &'f Facts,
    report: &'f Report,
    steps: Vec<Step>,
    expects: Vec<Expected>,
    arguments: Vec<Asked>,
    blocked: Vec<String>,
}

/// What keeps device interrupts from guests.
const DEVICE_PATH: [Takes; 5] =
    [Takes::Iommu, Takes::Remapping, Takes::Posting, Takes::Apic, Takes::Messages];
const OTHER_PATH: &str = "interrupts of devices take another path";
const BY_CPU: &str = "IPIs are delivered by the CPU";
const PAST_HOST: &str = "device interrupts bypass the host";

impl Drafting<'_> {
    fn answer(&self, row: Row) -> Answer {
        self.report.all(row)
    }

    fn amd(&mut self) {
        if self.answer(Row::CpuAvic) != Answer::No
            && self.answer(Row::CpuNpt) != Answer::No
            && self.answer(Row::KvmAvic) == Answer::No
        {
            let mut options = vec![(Feature::Avic.parameter().name, "1")];
            if self.facts.parameter(AMD_MODULE, "npt").get().and_then(|text| boolean(text))
                == Some(false)
            {
                options.push(("npt", "1"));
            }
            let risk = "guests run with AVIC, a part of KVM they did not use before";
            self.options(AMD_MODULE, &options, Row::KvmAvic, risk, false);
        }
        if self.answer(Row::KvmIpi) == Answer::No && self.answer(Row::CpuErratum1235) == Answer::Yes
        {
            self.kept(Feature::AvicIpi, Row::KvmIpi, BY_CPU);
        }
        if self.answer(Row::KvmDevicePosting) == Answer::No
            && self.answer(Row::IommuGuestApicOn) != Answer::No
        {
            self.kept(Feature::IommuAvic, Row::KvmDevicePosting, PAST_HOST);
        }
        if self.answer(Row::KvmNested) == Answer::No {
            let risk = "guests can no longer run virtual machines of their own";
            self.options(AMD_MODULE, &[("nested", "0")], Row::KvmNested, risk, true);
        }
        let words = self.without(Vendor::Amd, &DEVICE_PATH);
        self.ask(words, Row::IommuGuestApicOn, OTHER_PATH, false);
        let words = self.without(Vendor::Amd, &[Takes::X2apic]);
        self.ask(words, Row::KvmX2apic, "the host's own APICs run in another mode", true);
    }

    fn intel(&mut self) {
        let has_parts = [
            Row::CpuTprShadow,
            Row::CpuApicRegister,
            Row::CpuInterruptDelivery,
            Row::CpuPostedInterrupts,
        ]
        .iter()
        .all(|row| self.answer(*row) != Answer::No);
        let Parameter { module, name, .. } = Feature::Apicv.parameter();
        if has_parts
            && self.answer(Row::KvmApicv) == Answer::No
            && self.facts.module(module).get().is_some()
        {
            let risk = "guests run with APICv, a part of KVM they did not use before";
            self.options(module, &[(name, "1")], Row::KvmApicv, risk, false);
        }
        if has_parts
            && self.answer(Row::KvmIpi) == Answer::No
            && self.answer(Row::CpuIpi) == Answer::Yes
        {
            self.kept(Feature::IpiVirtualization, Row::KvmIpi, BY_CPU);
        }
        if has_parts
            && self.answer(Row::KvmDevicePosting) == Answer::No
            && self.answer(Row::IommuPostingOn) == Answer::Yes
        {
            self.kept(Feature::PostedInterrupts, Row::KvmDevicePosting, PAST_HOST);
        }
        let words = self.without(Vendor::Intel, &DEVICE_PATH);
        self.ask(words, Row::IommuPostingOn, OTHER_PATH, false);
        if capability::vt_d_is_off_by_default(self.facts) {
            let risk = "devices reach memory through the IOMMU from then on";
            self.ask(Arguments::new(["intel_iommu=on"], []), Row::IommuPresent, risk, false);
        }
        let words = self.without(Vendor::Intel, &[Takes::X2apic]);
        self.ask(words, Row::IommuX2apicOptOut, "the host's own APICs run in another mode", true);
        let opts_out = self.facts.dmar.get().is_some_and(|dmar| dmar.opts_out_of_x2apic());
        if opts_out && self.answer(Row::IommuX2apicOptOut) == Answer::No {
            let risk =
                "the firmware asks for xAPIC: its system management code may not expect x2APIC";
            let words = Arguments::new(["intremap=no_x2apic_optout"], []);
            self.ask(words, Row::IommuX2apicOptOut, risk, true);
        }
    }

    /// What the findings put down to hardware or firmware.
    fn hardware(&mut self) {
        let blocked = self
            .report
            .findings
            .iter()
            .filter(|row| row.is_problem() && row.follows.is_none())
            .filter(|row| {
                row.fix
                    .as_ref()
                    .is_some_and(|fix| matches!(fix.needs, Needs::Hardware | Needs::Firmware))
            })
            .map(|row| format!("{} [{}]: {}", row.statement, row.subject, row.reason));
        self.blocked.extend(blocked);
    }
}

/// The plan for a host whose findings are not at hand.
pub fn plan_of(facts: &Facts) -> Plan {
    plan(facts, &capability::check(facts))
}
