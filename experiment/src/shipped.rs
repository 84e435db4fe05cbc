//! The plans that come with the program.

use crate::plan::{Faults, Plan};

/// Name and file of each, in the order in which they are listed.
pub const PLANS: [(&str, &str); 14] = [
    ("firecracker-pit", include_str!("../plans/firecracker-pit.toml")),
    ("firecracker-avic", include_str!("../plans/firecracker-avic.toml")),
    ("avic-sysbench", include_str!("../plans/avic-sysbench.toml")),
    ("avic-vmexit-ipi", include_str!("../plans/avic-vmexit-ipi.toml")),
    ("avic-vmexit-kut", include_str!("../plans/avic-vmexit-kut.toml")),
    ("avic-device", include_str!("../plans/avic-device.toml")),
    ("x2avic-fence", include_str!("../plans/x2avic-fence.toml")),
    ("x2avic-fence-linux", include_str!("../plans/x2avic-fence-linux.toml")),
    ("apicv-xen-netperf", include_str!("../plans/apicv-xen-netperf.toml")),
    ("apicv-iozone", include_str!("../plans/apicv-iozone.toml")),
    ("ipiv-vmexit", include_str!("../plans/ipiv-vmexit.toml")),
    ("ipiv-vmexit-kut", include_str!("../plans/ipiv-vmexit-kut.toml")),
    ("ipiv-hackbench", include_str!("../plans/ipiv-hackbench.toml")),
    ("ipi-benchmark", include_str!("../plans/ipi-benchmark.toml")),
];

/// The plan of a name.
pub fn named(name: &str) -> Option<Result<Plan, Faults>> {
    let (name, text) = PLANS.iter().find(|(known, _)| *known == name)?;
    Some(Plan::read(text, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shipped_plans_are_sound_and_called_as_their_files() {
        for (name, text) in PLANS {
            match Plan::read(text, name) {
                Ok(plan) => assert_eq!(plan.name, name),
                Err(faults) => panic!("{faults}"),
            }
        }
    }
}
