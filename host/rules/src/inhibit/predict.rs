//! From one machine's configuration to the inhibits KVM will set, on one vendor and kernel.
//!
//! Sources: `i8254.c` (PIT), `hyperv.c` (SynIC), `svm/avic.c` and `svm/svm.c` (AVIC), `vmx/vmx.c`
//! (APICv) of Linux 5.15, 6.1, 6.12 and 7.3. Left out: what the guest does to its APIC on its own
//! (IDs, base, logical destinations) and the host's module parameters.

use super::{Reason, Vendor};
use crate::finding::Position;
use crate::vm::{Confidential, Exposure, Guest, Irqchip, Machine, Pit, Setting, VmConfiguration};
use reading::version::Version;
use reading::{Kernel, KernelFeature};
use serde::Serialize;

/// How sure a prediction is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Depends on the guest's or the host's behaviour, or on an unresolved part of the input.
    Possible,
    /// What usual guests do.
    Likely,
    /// KVM does it whatever the guest does.
    Certain,
}

/// For how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Duration {
    /// An instant, while the VMM creates the machine.
    Creation,
    /// Now and then until the guest's kernel has left the 8259 behind.
    Boot,
    /// From the time the guest's system is up.
    OnceBooted,
    /// From creation to the end.
    WholeLife,
    /// Only while something goes on.
    While(&'static str),
}

impl Duration {
    /// Takes the feature away from a running guest, as opposed to a start or an episode.
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::WholeLife | Self::OnceBooted)
    }
}

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Creation => f.write_str("for an instant at creation"),
            Self::Boot => f.write_str("briefly during boot"),
            Self::OnceBooted => f.write_str("once the guest is up"),
            Self::WholeLife => f.write_str("for its whole life"),
            Self::While(what) => write!(f, "while {what}"),
        }
    }
}

/// One predicted inhibit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PredictedInhibit {
    /// As KVM names and numbers it.
    #[cfg_attr(test, schemars(with = "String"))]
    pub reason: Reason,
    /// Whether it will be set at all.
    pub certainty: Certainty,
    /// For how long, if it is set.
    pub duration: Duration,
    /// The setting that causes it, where it is written.
    pub position: Option<Position>,
    /// Why, in a sentence without a full stop.
    pub because: String,
}

impl PredictedInhibit {
    /// AVIC or APICv is off in the running guest, by all one can tell.
    pub fn is_lasting(&self) -> bool {
        self.duration.is_lasting() && self.certainty >= Certainty::Likely
    }
}

/// What brought a reason to kernels, and what took it away.
pub fn since(reason: Reason) -> (KernelFeature, Option<KernelFeature>) {
    use KernelFeature as F;
    use Reason as R;
    match reason {
        R::Disabled | R::Hyperv | R::Nested | R::InterruptWindow | R::PitReinject => {
            (F::Inhibits, None)
        }
        R::X2apic => (F::X2apicInhibits, Some(F::X2avic)),
        R::Absent | R::Blockirq => (F::AbsentInhibits, None),
        R::Sev => (F::SevInhibits, None),
        R::ApicIdModified | R::ApicBaseModified => (F::ApicChangedInhibits, None),
        R::PhysicalIdAliased | R::LogicalIdAliased => (F::AliasInhibits, None),
        R::PhysicalIdTooBig => (F::PhysicalIdInhibits, None),
    }
}

/// What KVM will inhibit. `None` for a version means the newest known. Machines KVM does not run
/// have no inhibits.
///
/// `qemu` matters only where the input does not carry its own version.
pub fn predict(
    vendor: Vendor,
    kernel: Option<&Kernel>,
    qemu: Option<Version>,
    vm: &VmConfiguration,
) -> Vec<PredictedInhibit> {
    if !vm.may_be_kvm_x86() {
        return Vec::new();
    }
    let kernel = kernel.or(vm.kernel.as_ref());
    let mut prediction = Prediction { vm, vendor, kernel, found: Vec::new() };
    if vm.irqchip.value == Irqchip::UserSpace {
        prediction.push(
            Reason::Absent,
            Certainty::Certain,
            Duration::WholeLife,
            vm.irqchip.position(),
            "the local APICs are emulated by the VMM, KVM has none to accelerate".into(),
        );
    } else {
        prediction.absent_at_creation();
        prediction.pit();
        prediction.hyperv(vm.vmm_version.or(qemu));
        prediction.x2apic();
        prediction.nested();
        prediction.sev();
        prediction.physical_ids();
        prediction.debugger();
        prediction.interrupt_window();
    }
    prediction.found
}

struct Prediction<'v> {
    vm: &'v VmConfiguration,
    vendor: Vendor,
    /// `None` for the newest that is known.
    kernel: Option<&'v Kernel>,
    found: Vec<PredictedInhibit>,
}

impl Prediction<'_> {
    fn has(&self, feature: KernelFeature) -> Option<bool> {
        self.kernel.map_or(Some(true), |kernel| kernel.has(feature))
    }

    /// What is said of a kernel whose number does not tell.
    fn unless_newer(&self, because: &str) -> String {
        let release = self.kernel.map_or("", |kernel| kernel.release.as_str());
        format!("{because}; whether {release} still does is not known, its number does not tell")
    }

    fn push(
        &mut self,
        reason: Reason,
        certainty: Certainty,
        duration: Duration,
        position: Option<Position>,
        because: String,
    ) {
        let (from, until) = since(reason);
        if !self.vendor.honours(reason) {
            return;
        }
        let is_gone = until.map_or(Some(false), |until| self.has(until));
        // No in-kernel APIC takes AVIC away on every kernel, whether it has a number for that or
        // not; so does what an older kernel does under a newer name.
        let (certainty, because) = match (self.has(from), is_gone) {
            _ if reason == Reason::Absent => (certainty, because),
            (Some(false), _) | (_, Some(true)) => return,
            (Some(true), Some(false)) => (certainty, because),
            (_, None) => (Certainty::Possible, self.unless_newer(&because)),
            (None, Some(false)) => (certainty.min(Certainty::Likely), because),
        };
        let certainty = if self.vm.is_kvm() { certainty } else { Certainty::Possible };
        self.found.push(PredictedInhibit { reason, certainty, duration, position, because });
    }

    fn absent_at_creation(&mut self) {
        let (from, _) = since(Reason::Absent);
        if self.vm.irqchip.value == Irqchip::Unknown {
            let because = "where the interrupt controllers live is not known".into();
            let at = self.vm.irqchip.position();
            self.push(Reason::Absent, Certainty::Possible, Duration::WholeLife, at, because);
        } else if self.has(from) == Some(true) {
            let because = "set until the VMM creates the interrupt controllers".into();
            self.push(Reason::Absent, Certainty::Certain, Duration::Creation, None, because);
        }
    }

    fn pit(&mut self) {
        let at = self.vm.pit.position();
        let (certainty, duration, because) = match self.vm.pit.value {
            Pit::KernelReinject => (
                Certainty::Certain,
                Duration::WholeLife,
                "KVM's in-kernel PIT reinjects missed ticks, and AVIC cannot tell when a tick was taken",
            ),
            Pit::KernelDiscard => (
                Certainty::Certain,
                Duration::Creation,
                "KVM creates its PIT with reinjection on; the VMM switches it off at once",
            ),
            Pit::Unknown => {
                (Certainty::Possible, Duration::WholeLife, "the PIT's place or policy is not known")
            }
            Pit::Absent | Pit::UserSpace => return,
        };
        self.push(Reason::PitReinject, certainty, duration, at, because.into());
    }

    fn hyperv(&mut self, qemu: Option<Version>) {
        let hyperv = &self.vm.hyperv;
        if !hyperv.has_synic() {
            return;
        }
        let at = hyperv.synic.as_ref().or(hyperv.passthrough.as_ref()).and_then(Setting::position);
        let because = "before 5.15 KVM inhibits as soon as the SynIC is enabled";
        let whole = Duration::WholeLife;
        match self.has(KernelFeature::AutoEoiCounted) {
            Some(true) => {}
            Some(false) => {
                return self.push(Reason::Hyperv, Certainty::Certain, whole, at, because.into());
            }
            None => {
                let because = self.unless_newer(because);
                self.push(Reason::Hyperv, Certainty::Possible, whole, at, because);
            }
        }
        // A VMM that predates the flag cannot pass the recommendation on, whatever is written.
        let can_recommend = qemu.is_none_or(|version| version >= Version::new(6, 2, 0));
        if hyperv.has_avic() && can_recommend {
            return;
        }
        let uses_timers = hyperv.has_stimer();
        let certainty = match self.vm.guest.value {
            Guest::Windows if uses_timers && self.vm.guest.is_written() => Certainty::Certain,
            Guest::Windows | Guest::Unknown if uses_timers => Certainty::Likely,
            Guest::Windows | Guest::Unknown => Certainty::Possible,
            // Linux prefers KVM's own interface, and takes Hyper-V's only when that is hidden.
            Guest::Linux if self.vm.kvm_hidden.value => Certainty::Possible,
            Guest::Linux => return,
        };
        let because =
            "Windows sets its SynIC interrupts to AutoEOI unless hv-avic recommends against it";
        self.push(Reason::Hyperv, certainty, Duration::OnceBooted, at, because.into());
    }

    fn x2apic(&mut self) {
        let certainty = match self.vm.x2apic.value {
            Exposure::Exposed => Certainty::Certain,
            Exposure::HostDecides => Certainty::Likely,
            Exposure::Hidden => return,
        };
        let because = "the guest is offered x2APIC, which AVIC supports from Linux 6.0 on".into();
        let at = self.vm.x2apic.position();
        self.push(Reason::X2apic, certainty, Duration::WholeLife, at, because);
    }

    fn nested(&mut self) {
        let exposure = self.vm.nested.value;
        if exposure == Exposure::Hidden {
            return;
        }
        let at = self.vm.nested.position();
        let is_per_vcpu = self.has(KernelFeature::NestedPerVcpu);
        if is_per_vcpu != Some(true) {
            let certainty = match exposure {
                _ if is_per_vcpu.is_none() => Certainty::Possible,
                Exposure::Exposed => Certainty::Certain,
                _ => Certainty::Likely,
            };
            let because = "up to Linux 5.18 a guest that is offered SVM never gets AVIC";
            let because = match is_per_vcpu {
                None => self.unless_newer(because),
                Some(_) => because.into(),
            };
            self.push(Reason::Nested, certainty, Duration::WholeLife, at, because);
        } else {
            let because = "a vCPU that runs a nested guest has no AVIC meanwhile".into();
            let while_nested = Duration::While("a vCPU runs a nested guest");
            self.push(Reason::Nested, Certainty::Possible, while_nested, at, because);
        }
    }

    fn sev(&mut self) {
        let Some(confidential) = &self.vm.confidential else { return };
        if confidential.value == Confidential::Tdx {
            return;
        }
        let because = "KVM cannot use AVIC's backing page for an encrypted guest".into();
        let at = confidential.position();
        self.push(Reason::Sev, Certainty::Certain, Duration::WholeLife, at, because);
    }

    fn physical_ids(&mut self) {
        let largest = self.vm.max_apic_id.value;
        let (certainty, limit) = match largest {
            0..=254 => return,
            255..=511 => (Certainty::Possible, "254 without x2AVIC"),
            512..=4095 if self.has(KernelFeature::X2avicExtended) != Some(false) => {
                (Certainty::Possible, "511 without extended x2AVIC")
            }
            512..=4095 => (Certainty::Certain, "511 before Linux 6.19"),
            _ => (Certainty::Certain, "4095"),
        };
        let because =
            format!("the largest APIC ID is {largest}; the physical ID table ends at {limit}");
        let at = self.vm.vcpus.position();
        self.push(Reason::PhysicalIdTooBig, certainty, Duration::WholeLife, at, because);
    }

    fn debugger(&mut self) {
        let Some(at) = self.vm.debugger else { return };
        let because = "single steps with interrupts blocked take the feature away".into();
        let stepping = Duration::While("a debugger single-steps");
        self.push(Reason::Blockirq, Certainty::Possible, stepping, Some(at), because);
    }

    fn interrupt_window(&mut self) {
        if !self.vm.apic.value {
            let because = "without an APIC every interrupt comes from the 8259".into();
            let at = self.vm.apic.position();
            let always = Duration::While("an interrupt of the 8259 waits");
            return self.push(Reason::InterruptWindow, Certainty::Certain, always, at, because);
        }
        let is_off_anyway = self.found.iter().any(|found| {
            found.duration == Duration::WholeLife && found.certainty == Certainty::Certain
        });
        if is_off_anyway {
            let because = "with AVIC off every interrupt that has to wait asks for a window".into();
            let waiting = Duration::While("an interrupt waits for its window");
            self.push(Reason::InterruptWindow, Certainty::Likely, waiting, None, because);
        } else if self.vm.has_pic() {
            let because =
                "interrupts of the 8259 need a window until the guest uses its APICs".into();
            self.push(Reason::InterruptWindow, Certainty::Possible, Duration::Boot, None, because);
        }
    }
}

impl VmConfiguration {
    /// Every machine type but those made to do without has the 8259.
    fn has_pic(&self) -> bool {
        let Machine { family, .. } = &self.machine.value;
        *family != crate::vm::MachineFamily::OfVmm || self.vmm == crate::vm::Vmm::Crosvm
    }
}
