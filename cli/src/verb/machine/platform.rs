//! What a machine has beside processors and virtio devices: the options that `machine` and `lab`
//! share.

use super::devices::parse_peer;
use crate::status::Usage;
use anyhow::anyhow;
use arch::time::Picoseconds;
use board::{IommuBehaviour, IommuModel, IommuPart, server_iommu};
use cpu::CpuModel;
use device::chipset::MAXIMUM_SERVER_FUNCTIONS;
use device::intel_82599::Wire;

/// The longest time between two steps of a posting, in nanoseconds.
const LONGEST_STEP: u64 = 1_000_000;

#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Whether functions' accesses and interrupts go through an IOMMU: off, on, or on,WORD,... with
    /// posting-step=NS (processors run between the steps of a posting) or stale-entries (AMD:
    /// entries are kept until software invalidates them, as it must; software that does not loses
    /// interrupts) [default: on where servers with this processor have one]
    #[arg(long, value_name = "off|on[,WORD...]", value_parser = choice)]
    iommu: Option<Choice>,
    /// The test device, which interrupts at a programmed rate (docs/device-interrupts.md)
    #[arg(long)]
    pub pulse: bool,
    /// A 10 Gb/s network function, an 82599's virtual one (Linux: ixgbevf), on a wire to a peer as
    /// --net has them: answer, reflect or count, with ,rate=N[,length=N][,count=N]; or pair: two
    /// functions with a wire between
    #[arg(long, value_name = "PEER", value_parser = wire)]
    vf: Vec<Wire>,
}

fn wire(text: &str) -> Result<Wire, String> {
    if text == "pair" {
        return Ok(Wire::Pair);
    }
    let (reaction, stream) = parse_peer(text)
        .map_err(|error| error.replace("must be answer", "must be pair, answer"))?;
    Ok(Wire::Source(reaction, stream))
}

/// Nothing for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice(Option<IommuBehaviour>);

fn choice(text: &str) -> Result<Choice, String> {
    let mut words = text.split(',');
    match words.next() {
        Some("off") if text == "off" => return Ok(Choice(None)),
        Some("on") => {}
        _ => return Err("must be off, on, or on with more words behind commas".to_owned()),
    }
    let mut behaviour = IommuBehaviour::default();
    for word in words {
        match word.split_once('=') {
            None if word == "stale-entries" => behaviour.keeps_whole_entries = true,
            Some(("posting-step", value)) => {
                let step = value.parse().ok().filter(|step| *step <= LONGEST_STEP);
                let step = step.ok_or_else(|| {
                    format!("posting-step={value}: must be nanoseconds from 0 to {LONGEST_STEP}")
                })?;
                behaviour.posting_step = Picoseconds::from_nanoseconds(step);
            }
            _ => return Err(format!("{word:?}: must be posting-step=NS or stale-entries")),
        }
    }
    Ok(Choice(Some(behaviour)))
}

impl Arguments {
    /// As many as find a place beside `controllers` of other kinds.
    pub fn wires(&self, controllers: usize) -> anyhow::Result<Vec<Wire>> {
        let functions: usize = self.vf.iter().map(device::request::PciRequest::count).sum();
        let (count, most) = (functions + controllers, MAXIMUM_SERVER_FUNCTIONS);
        if count > most {
            return Err(Usage::of(anyhow!(
                "--vf and --nvme: {count} functions, there can be at most {most}"
            )));
        }
        Ok(self.vf.clone())
    }

    /// As the options say; without them the one that servers with this processor have. Where one is
    /// `needed`, none is an error.
    pub fn iommu(&self, model: &CpuModel, needed: bool) -> anyhow::Result<Option<IommuModel>> {
        let is_usual = needed || server_iommu(model).is_some();
        let usual = Choice(is_usual.then(IommuBehaviour::default));
        let Some(behaviour) = self.iommu.unwrap_or(usual).0 else {
            if needed {
                return Err(Usage::of(anyhow!(
                    "--iommu off: this workload gives a function to a guest, which needs one; \
                     leave the option out"
                )));
            }
            return Ok(None);
        };
        let Some(found) = server_iommu(model) else {
            return Err(Usage::of(anyhow!(
                "an IOMMU: there is none for {}, choose one of {}",
                model.name(),
                CpuModel::names_where(|model| model.iommu().is_some())
            )));
        };
        if behaviour.keeps_whole_entries && matches!(found.part, IommuPart::VtD(_)) {
            return Err(Usage::of(anyhow!(
                "--iommu on,stale-entries: only AMD's IOMMU keeps entries, and {} has Intel's",
                model.name()
            )));
        }
        Ok(Some(IommuModel { behaviour, ..found }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::packet_source::{Reaction, Stream};

    #[test]
    fn words_behind_on_say_how_it_behaves() {
        assert_eq!(choice("off"), Ok(Choice(None)));
        assert_eq!(choice("on"), Ok(Choice(Some(IommuBehaviour::default()))));
        let posting_step = Picoseconds::from_nanoseconds(200);
        let both = IommuBehaviour { keeps_whole_entries: true, posting_step };
        assert_eq!(choice("on,stale-entries,posting-step=200"), Ok(Choice(Some(both))));
    }

    #[test]
    fn servers_have_an_iommu_unless_it_is_said_to_be_off() {
        let zen4 = CpuModel::named("zen4").expect("a model");
        let generic = CpuModel::named("generic").expect("a model");
        let with = |iommu| Arguments { iommu, pulse: false, vf: Vec::new() };
        assert!(with(None).iommu(&zen4, true).is_ok_and(|found| found.is_some()));
        assert!(with(Some(Choice(None))).iommu(&zen4, false).is_ok_and(|found| found.is_none()));
        assert!(with(None).iommu(&zen4, false).is_ok_and(|found| found.is_some()));
        assert!(with(None).iommu(&generic, false).is_ok_and(|found| found.is_none()));
        assert!(with(None).iommu(&generic, true).is_err());
        let refused = with(Some(Choice(None))).iommu(&zen4, true);
        assert!(refused.is_err_and(|error| error.to_string().starts_with("--iommu off: ")));
    }

    #[test]
    fn a_wire_ends_at_a_known_kind_of_peer() {
        assert_eq!(wire("pair"), Ok(Wire::Pair));
        assert_eq!(wire("reflect"), Ok(Wire::Source(Reaction::Reflect, None)));
        let stream = Stream { packets_per_second: 5, length: 60, count: None };
        assert_eq!(wire("count,rate=5"), Ok(Wire::Source(Reaction::Count, Some(stream))));
        assert!(wire("pair,rate=5").is_err() && wire("").is_err());
    }

    #[test]
    fn a_word_that_is_none_is_said_with_those_that_are() {
        for (text, wanted) in [
            ("yes", "must be off, on"),
            ("off,stale-entries", "must be off, on"),
            ("on,fast", "\"fast\": must be posting-step=NS or stale-entries"),
            ("on,posting-step=-1", "must be nanoseconds from 0 to 1000000"),
            ("on,posting-step=2000000", "must be nanoseconds from 0 to 1000000"),
        ] {
            let message = choice(text).expect_err("it is not a choice");
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
