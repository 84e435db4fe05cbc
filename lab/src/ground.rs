//! A booted host on which a guest of the benchmark has begun, for what looks at the machine itself.

use crate::drive::session::Session;
use crate::host::Host;
use crate::host::booted::Store;
use crate::host::image::{Additions, initramfs};
use crate::host::initramfs::Initramfs;
use crate::host::kernel::Kernel;
use crate::plan::{Experiment, Needs, Setting};
use crate::protocol::{Guest, Step};
use crate::watch::Watch;
use bench::Configuration;
use board::Machine;

/// Seconds after which the guest would be stopped; nobody who looks comes so far.
const LIMIT: u64 = 86_400;

/// The host.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// What is emulated.
    pub host: &'a Host,
    /// Its kernel.
    pub kernel: &'a Kernel,
    /// What it is given besides.
    pub additions: Additions<'a>,
    /// Where booted hosts are kept.
    pub store: Option<&'a Store>,
}

/// The guest.
pub(crate) struct Begin<'a> {
    /// Of the workload whose surroundings it has.
    pub workload: &'a str,
    /// Which of its steps it is.
    pub name: &'a str,
    /// What the host has to have.
    pub needs: Needs,
    /// The feature's.
    pub setting: Setting,
    /// What it has, each vCPU on a processor of its own.
    pub configuration: Configuration,
    /// The benchmark's options; the rate of the time-stamp counter is added.
    pub options: String,
    /// What it prints when it has begun.
    pub word: &'static str,
}

/// Both, under way.
pub(crate) struct Begun {
    /// Which nobody drives.
    pub machine: Machine,
    /// Of the kernel.
    pub release: String,
    /// The arm's name.
    pub label: String,
    /// As `/proc/kallsyms` has them.
    pub symbols: String,
}

impl Ground<'_> {
    /// Boots the host, or takes one that was kept, and starts the guest. `before_guests` is called
    /// when all that is needed of this machine is read or open.
    pub(crate) fn begin(
        &self,
        guest: &Begin<'_>,
        before_guests: impl FnOnce(),
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Begun> {
        let files = self.files(&guest.needs)?;
        before_guests();
        self.begin_with(&files, guest, watch)
    }

    /// What the host boots with: the last that is read of this machine.
    pub(crate) fn files(&self, needs: &Needs) -> anyhow::Result<Initramfs> {
        initramfs(self.kernel, self.host, &self.additions, needs)
    }

    /// Boots the host with these, or takes one that was kept, and starts the guest.
    pub(crate) fn begin_with(
        &self,
        files: &Initramfs,
        guest: &Begin<'_>,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Begun> {
        let Self { host, kernel, store, .. } = *self;
        let mut session = Session::start(host, kernel, files, store, watch)?;
        let arm = Experiment::of_model(&host.model, &[guest.setting]).arm(guest.setting);
        session.load(&arm.parameters, watch)?;
        let symbols = session.symbols(watch)?;
        let (release, label) = (session.release.clone(), arm.label.clone());
        let tsc_khz = host.model.tsc_hertz() / 1000;
        let step = Step {
            name: guest.name.to_owned(),
            workload: guest.workload.to_owned(),
            arm,
            configuration: guest.configuration,
            guest: Guest::Benchmark(format!("{} tsc_khz={tsc_khz}", guest.options)),
            posts: false,
            is_traced: false,
            guests: 1,
            limit: LIMIT,
        };
        watch.stage("starting the guest");
        let machine = session.begin(&step, guest.word, watch)?;
        Ok(Begun { machine, release, label, symbols })
    }
}

/// `ADDRESS TYPE NAME [MODULE]` of each line of `/proc/kallsyms`: address, name, module.
pub(crate) fn symbols(text: &str) -> impl Iterator<Item = (u64, &str, Option<&str>)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((address, words.nth(1)?, words.next()))
    })
}
