//! A booted host on which the interrupts of a kind come one after the other.

use super::follow::Follower;
use super::kind::Kind;
use crate::drive::session::Session;
use crate::host::Host;
use crate::host::booted::Store;
use crate::host::image::{Additions, initramfs};
use crate::host::kernel::Kernel;
use crate::plan::{Experiment, Needs, Setting};
use crate::protocol::{Guest, Step};
use crate::watch::Watch;
use arch::time::Picoseconds;
use bench::Configuration;
use trace::symbol::Symbols;

/// What a step's name stands for on the emulated host: nothing is given to the guest.
const WORKLOAD: &str = "ipi";
/// Seconds after which the guest would be stopped; a lesson never comes so far.
const LIMIT: u64 = 86_400;
/// What the guest prints before it begins.
const BEGINS: &str = "\"record\":\"start\"";
/// Until it has begun, and everything is as it stays.
const WARM_UP: Picoseconds = Picoseconds::from_milliseconds(20);

/// What is watched.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The emulated host.
    pub host: &'a Host,
    /// Its kernel.
    pub kernel: &'a Kernel,
    /// What it is given besides.
    pub additions: Additions<'a>,
    /// Where booted hosts are kept.
    pub store: Option<&'a Store>,
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
    let Subject { host, kernel, additions, store, kind, apic, setting } = *subject;
    let needs = Needs { parameters: kind.parameters(), ..Needs::default() };
    let initramfs = initramfs(kernel, host, &additions, &needs)?;
    before_guests();
    let mut session = Session::start(host, kernel, &initramfs, store, watch)?;
    let experiment = Experiment::of_model(&host.model, &[setting]);
    let arm = experiment.arm(setting);
    session.load(&arm.parameters, watch)?;
    let mut symbols = Symbols::default();
    symbols.extend(session.symbols(watch)?.lines().filter_map(symbol));
    let title = format!(
        "{}, {}: {}, {}, Linux {}",
        kind.title(),
        arm.label,
        if apic == "xapic" { "xAPIC" } else { "x2APIC" },
        host.model.name(),
        session.release
    );
    let tsc_khz = host.model.tsc_hertz() / 1000;
    let step = Step {
        name: "watching".into(),
        workload: WORKLOAD.into(),
        arm,
        configuration: Configuration { vcpus: kind.vcpus(), ..Configuration::default() },
        guest: Guest::Benchmark(format!("{} apic={apic} tsc_khz={tsc_khz}", kind.benchmark())),
        posts: false,
        is_traced: false,
        guests: 1,
        limit: LIMIT,
    };
    watch.stage("starting the guest");
    let machine = session.begin(&step, BEGINS, watch)?;
    let mut follower = Follower::new(machine, kind, apic == "x2apic", symbols);
    watch.stage("waiting for the interrupt");
    follower.advance(WARM_UP);
    Ok((follower, title))
}

/// `ADDRESS TYPE NAME [MODULE]`: a name for the code of KVM's modules, and none for other code.
fn symbol(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let name = words.nth(1)?;
    let is_kvm = words.next().is_some_and(|module| module.starts_with("[kvm"));
    Some((address, if is_kvm { name.to_owned() } else { String::new() }))
}
