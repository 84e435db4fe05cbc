//! What a machine has beside processors and virtio devices: the options that `machine` and `lab`
//! share.

use crate::status::Usage;
use anyhow::anyhow;
use board::{IommuModel, server_iommu};
use cpu::CpuModel;

#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Whether functions' accesses and interrupts go through an IOMMU, which models of servers have
    #[arg(long, value_enum, default_value_t = Choice::Off)]
    iommu: Choice,
    /// A function that interrupts at a programmed rate (docs/device-interrupts.md)
    #[arg(long)]
    pub pulse: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// There is none
    Off,
    /// That of servers with these processors
    On,
}

impl Arguments {
    pub fn iommu(&self, model: &CpuModel) -> anyhow::Result<Option<IommuModel>> {
        match (self.iommu, server_iommu(model)) {
            (Choice::Off, _) => Ok(None),
            (Choice::On, Some(found)) => Ok(Some(found)),
            (Choice::On, None) => Err(Usage::of(anyhow!(
                "--iommu on: there is none for {}, choose zen2 to zen5, ivy-bridge-ep, haswell-ep, \
                 skylake-sp, ice-lake-sp or sapphire-rapids",
                model.name()
            ))),
        }
    }
}
