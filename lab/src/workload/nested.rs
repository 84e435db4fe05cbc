//! A guest that is a hypervisor: Linux loads KVM and runs the benchmark in a guest of its own.

use super::kind::{Conditions, Workload};
use crate::linux::console::mark;
use crate::linux::module::Modules;
use crate::linux::place::GUEST_COMMAND_LINE;
use crate::plan::{LinuxGuest, ModuleParameter, Needs};
use crate::protocol::{Step, WINDOW_BEGINS, WINDOW_ENDS};
use anyhow::Context;
use bench::{Configuration, Outcome, VirtualMachine};
use board::Images;
use board::load::Source;
use rules::feature::Feature;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use trace::exit_reason::Isa;

/// KVM's, each vendor's, and what they depend on; a kernel that has one built in has no module.
const MODULES: [&str; 6] = ["irqbypass", "rng_core", "ccp", "kvm", "kvm_amd", "kvm_intel"];
/// Bytes of RAM of the inner guest: the outer one has not much more.
const MEMORY: u64 = 64 << 20;
/// It ends long before.
const LIMIT: Duration = Duration::from_secs(120);
/// Fewer than of one level: each costs many exits of the outer guest.
const TESTS: &str = "tests=ipi targets=spinning samples=100 warmup=10 apic=x2apic";

pub(super) struct Nested;

impl Workload for Nested {
    fn name(&self) -> &'static str {
        "nested"
    }

    fn summary(&self) -> &'static str {
        "IPIs in a guest of a guest, whose Linux runs KVM itself"
    }

    fn needs(&self) -> Needs {
        let linux = LinuxGuest { modules: &MODULES, ..LinuxGuest::default() };
        Needs { linux: Some(linux), ..Needs::default() }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let feature = match conditions.arm.isa() {
            Isa::Svm => Feature::Avic,
            Isa::Vmx => Feature::Apicv,
        };
        let module = feature.parameter();
        let words = format!(
            "{GUEST_COMMAND_LINE}{},{}.{},{}",
            self.name(),
            module.module,
            module.name,
            conditions.tsc_khz
        );
        vec![conditions.step(self.name(), "x2APIC", true, conditions.linux(&words))]
    }

    /// `words` are what switches the feature on, and the rate of time stamp counters.
    fn work(&self, words: &str) -> anyhow::Result<()> {
        let (parameter, tsc_khz) = words.split_once(',').context("no rate of time stamps")?;
        let (module, name) = parameter.split_once('.').context("no module's parameter")?;
        let parameter =
            ModuleParameter { module: module.into(), name: name.into(), value: "1".into() };
        Modules::load_all()?.load(&[parameter])?;
        let options = format!("output=memory tsc_khz={tsc_khz} {TESTS}");
        let mut vm = VirtualMachine::new(
            &Configuration { memory: MEMORY, ..Configuration::default() },
            &Images {
                kernel: Source::of("benchmark", image::BENCHMARK),
                initrd: None,
                modules: &[],
                command_line: &options,
            },
        )?;
        let mut text = Vec::new();
        mark(WINDOW_BEGINS);
        let end = vm.run(LIMIT, &AtomicBool::new(false), |bytes| {
            text.extend(bytes.iter().filter(|(port, _)| *port == 0).map(|(_, byte)| *byte));
            Vec::new()
        })?;
        mark(WINDOW_ENDS);
        String::from_utf8_lossy(&text).lines().for_each(|line| say!("{line}"));
        anyhow::ensure!(
            matches!(end.outcome, Outcome::DebugExit(0)),
            "the inner guest ended with {:?}",
            end.outcome
        );
        Ok(())
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("ipi_acknowledged physical", "the inner guest's IPI")
    }
}
