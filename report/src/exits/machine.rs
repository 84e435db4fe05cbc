//! The exits of each virtual machine by itself.

use capture::Origin;
use profile::{Context, Profile, Selection, Summary, View};
use std::collections::BTreeMap;

/// A virtual machine's share of a recording.
#[derive(Clone, Debug)]
pub struct MachineExits {
    /// The process that runs it; 0 where the recording does not tell.
    pub process: u32,
    /// Its name where the recording has one, else its process.
    pub name: String,
    /// Its vCPUs that entered the guest.
    pub vcpus: u64,
    /// Its exits alone, split by what they were about.
    pub summary: Summary,
}

/// A recording, machine by machine.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Name of the file, as the user gave it.
    pub file: String,
    /// What kind of recording it was and what it lacks.
    pub origin: Origin,
    /// In the order of their processes.
    pub machines: Vec<MachineExits>,
}

impl Recording {
    /// Splits a profile; `names` has those of processes that are known from elsewhere.
    pub fn new(
        file: &str,
        origin: &Origin,
        profile: &Profile,
        context: &Context,
        names: &BTreeMap<u32, String>,
    ) -> Self {
        let mut vcpus: BTreeMap<u32, u64> = BTreeMap::new();
        profile.vcpus.iter().for_each(|vcpu| *vcpus.entry(vcpu.process).or_default() += 1);
        let machines = vcpus.into_iter().map(|(process, vcpus)| {
            let selection = Selection {
                view: View::Vmexit,
                process: Some(process),
                by_reason: true,
                ..Selection::default()
            };
            let own = || match process {
                0 => "unknown".to_owned(),
                process => format!("pid {process}"),
            };
            MachineExits {
                process,
                name: names.get(&process).cloned().unwrap_or_else(own),
                vcpus,
                summary: Summary::new(profile, context, &selection),
            }
        });
        Self { file: file.to_owned(), origin: origin.clone(), machines: machines.collect() }
    }
}
