//! A booted host on which the interrupts of a kind come one after the other.

use super::cause::Cause;
use super::follow::Follower;
use super::kind::Kind;
use crate::ground::{Begin, Ground, symbols};
use crate::plan::{Experiment, Setting};
use crate::watch::Watch;
use anyhow::ensure;
use arch::time::Picoseconds;
use rules::inhibit::Vendor;
use trace::symbol::Symbols;

/// Until it has begun, and everything is as it stays.
const WARM_UP: Picoseconds = Picoseconds::from_milliseconds(20);

/// What is watched.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The emulated host.
    pub ground: Ground<'a>,
    /// Which interrupt.
    pub kind: Kind,
    /// `xapic` or `x2apic`.
    pub apic: &'a str,
    /// The feature's.
    pub setting: Setting,
}

/// Boots the host, or takes one that was kept, and starts the guest; the follower, and in a line
/// what is watched where. `before_guests` is called when all that is needed of this machine is
/// read or open.
pub fn open(
    subject: &Subject<'_>,
    before_guests: impl FnOnce(),
    watch: &mut Watch<'_>,
) -> anyhow::Result<(Follower, String)> {
    let Subject { ground, kind, apic, setting } = *subject;
    let experiment = Experiment::of_model(&ground.host.model, &[setting]);
    if let Kind::Inhibit(cause) = kind {
        check_inhibit(cause, &experiment, setting)?;
    }
    let (workload, name) = kind.step();
    let guest = Begin {
        workload,
        name,
        needs: kind.needs(),
        setting,
        configuration: kind.configuration(),
        options: format!("{} apic={apic}", kind.benchmark()),
        word: kind.word(),
    };
    let begun = ground.begin(&guest, before_guests, watch)?;
    let mut names = Symbols::default();
    names.extend(symbols(&begun.symbols).map(of_kvm));
    let title = format!(
        "{}, {}: {}, {}, Linux {}",
        kind.title(),
        begun.label,
        if apic == "xapic" { "xAPIC" } else { "x2APIC" },
        ground.host.model.name(),
        begun.release
    );
    let mut follower = Follower::new(begun.machine, kind, apic == "x2apic", names);
    watch.stage("waiting for the interrupt");
    match kind {
        Kind::Inhibit(_) => ensure!(
            follower.seek_inhibit(watch)?,
            "KVM did not inhibit {} while it was waited for",
            experiment.inhibited_name()
        ),
        _ => follower.advance(WARM_UP),
    }
    Ok((follower, title))
}

/// KVM inhibits what is on, for the reasons that its vendor's part of it has.
fn check_inhibit(cause: Cause, experiment: &Experiment, setting: Setting) -> anyhow::Result<()> {
    let feature = experiment.inhibited_name();
    ensure!(setting != Setting::Off, "{feature} is off, so KVM cannot inhibit it: --feature on");
    let is_reason = cause != Cause::Pit || experiment.vendor() == Vendor::Amd;
    ensure!(
        is_reason,
        "a timer that reinjects inhibits AVIC, not {feature}: --cpu zen4, or another --inhibit"
    );
    Ok(())
}

/// Of the kernel's own code, what takes a device's interrupt to KVM, or a wake-up.
const OF_KERNEL: [&str; 5] =
    ["eventfd_signal", "amd_iommu_int_", "iommu_poll_ga_log", "kvm_", "sysvec_kvm_"];

/// A name for the code of KVM's and vfio's modules and for what is between, and none for other
/// code.
fn of_kvm((address, name, module): (u64, &str, Option<&str>)) -> (u64, String) {
    let is_told = match module {
        Some(module) => module.starts_with("[kvm") || module.starts_with("[vfio"),
        None => OF_KERNEL.iter().any(|start| name.starts_with(start)),
    };
    (address, if is_told { name.to_owned() } else { String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu::CpuModel;

    #[test]
    fn what_kvm_never_inhibits_is_told_before_anything_boots() {
        for (model, cause, setting, error) in [
            ("zen4", Cause::Pit, Setting::On, None),
            ("sapphire-rapids", Cause::BlockIrq, Setting::On, None),
            ("sapphire-rapids", Cause::Pit, Setting::On, Some("inhibits AVIC, not APICv")),
            ("zen4", Cause::BlockIrq, Setting::Off, Some("AVIC is off")),
        ] {
            let model = CpuModel::named(model).expect("a model that comes along");
            let experiment = Experiment::of_model(&model, &[setting]);
            let said = check_inhibit(cause, &experiment, setting).map_err(|e| e.to_string());
            match error {
                None => assert_eq!(said, Ok(())),
                Some(part) => assert!(said.expect_err("refused").contains(part)),
            }
        }
    }
}
