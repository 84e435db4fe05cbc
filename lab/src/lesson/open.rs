//! A booted host on which the interrupts of a kind come one after the other.

use super::follow::Follower;
use super::kind::Kind;
use crate::ground::{Begin, Ground, symbols};
use crate::plan::Setting;
use crate::watch::Watch;
use arch::time::Picoseconds;
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
        Kind::Inhibit(_) => follower.seek_inhibit(watch)?,
        _ => follower.advance(WARM_UP),
    }
    Ok((follower, title))
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
