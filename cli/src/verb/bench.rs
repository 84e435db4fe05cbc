//! `avicenna bench`: what interrupts cost in a virtual machine on this host's KVM.

mod calibrate;

use super::lab::{Chip, Inhibit, Pit, interrupts};
use super::machine::size::parse_bytes;
use super::source;
use crate::status::Status;
use crate::terminal;
use bench::{Configuration, Outcome, VirtualMachine};
use board::Images;
use board::cost::Provenance;
use board::load::Source;
use lab::protocol::Sending;
use lab::workload::device::Driven;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static INTERRUPT: AtomicBool = AtomicBool::new(false);

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// vCPUs
    #[arg(long, value_name = "N", default_value_t = 2)]
    vcpus: u16,
    /// RAM of the virtual machine
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_bytes)]
    memory: u64,
    /// Where the I/O APIC is
    #[arg(long, value_enum, default_value_t = Chip::Split)]
    irqchip: Chip,
    /// What emulates the 8254 timer; KVM's, with reinjection, inhibits AVIC
    #[arg(long, value_enum, default_value_t = Pit::Off)]
    pit: Pit,
    /// Make KVM inhibit AVIC and APICv for this reason, without a change to the guest
    #[arg(long, value_enum)]
    inhibit: Option<Inhibit>,
    /// Hide x2APIC mode from the guest
    #[arg(long)]
    no_x2apic: bool,
    /// Let the host's scheduler move vCPUs
    #[arg(long)]
    no_pin: bool,
    /// A PCI function of this host that the guest gets, such as 0000:00:15.0; vfio-pci must drive
    /// it
    #[arg(long = "device", value_name = "ADDRESS", value_parser = parse_address)]
    devices: Vec<String>,
    /// A bzImage, PVH vmlinux or Multiboot image; without it, the built-in benchmark
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Initial RAM disk of the kernel
    #[arg(long, value_name = "FILE", requires = "kernel")]
    initrd: Option<PathBuf>,
    /// Command line of the kernel, or options of the benchmark, such as "tests=ipi samples=1000"
    #[arg(long, value_name = "STR", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Seconds after which the virtual machine is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u64,
    /// Give the guest the emulated host's test device (lab exec --iommu on --pulse), interrupting
    /// every NS nanoseconds; for tests=device
    #[arg(long, value_name = "NS", conflicts_with = "kernel", value_parser = clap::value_parser!(u32).range(100..))]
    pulse: Option<u32>,
    /// How many interrupts it sends
    #[arg(long, value_name = "N", requires = "pulse", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..))]
    pulses: u32,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Measure what exits, interrupts and bare loops take on this host, for lab calibrate
    Calibrate(calibrate::Arguments),
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let _ = ctrlc::set_handler(|| INTERRUPT.store(true, Ordering::Relaxed));
    if let Some(Action::Calibrate(arguments)) = &arguments.action {
        return calibrate::run(arguments);
    }
    let (interrupt_chip, timer) = interrupts(arguments.irqchip, arguments.pit);
    let configuration = Configuration {
        vcpus: arguments.vcpus,
        memory: arguments.memory,
        interrupt_chip,
        timer,
        inhibit: arguments.inhibit.map(Into::into),
        has_x2apic: !arguments.no_x2apic,
        is_pinned: !arguments.no_pin,
        disk: 0,
    };
    let limit = "what the virtual machine has of memory";
    let read = |path: &PathBuf| source::file(path, arguments.memory, limit);
    let own = arguments.kernel.as_ref().map(read).transpose()?;
    let initrd = arguments.initrd.as_ref().map(read).transpose()?;
    let options = format!("output=memory {}", arguments.append);
    let mut vm = VirtualMachine::new(
        &configuration,
        &Images {
            kernel: match &own {
                Some(bytes) => Source::of("kernel", bytes),
                None => Source::of("benchmark", image::BENCHMARK),
            },
            initrd: initrd.as_deref().map(|bytes| Source::of("initial RAM disk", bytes)),
            modules: &[],
            command_line: if own.is_some() { &arguments.append } else { &options },
        },
    )?;
    arguments.devices.iter().try_for_each(|address| vm.give(address))?;
    if let Some(costs) = lab::agent::costs() {
        // Times of an emulated host are not measured: the reader is told what they rest on.
        terminal::program((costs_record(&costs)? + "\n").as_bytes());
    }
    let (period_ns, count) = (arguments.pulse, arguments.pulses);
    let sending = period_ns.map(|period_ns| Sending { period_ns, count, bursts: None });
    let mut device = sending.map(|sending| Driven::new(&vm, sending)).transpose()?;
    let (mut line, mut fault) = (Vec::new(), None);
    let end = vm.run(Duration::from_secs(arguments.limit), &INTERRUPT, |bytes| {
        let mut text: Vec<u8> =
            bytes.iter().filter(|(port, _)| *port == 0).map(|(_, byte)| *byte).collect();
        if let Some(device) = &mut device {
            match drive(device, &mut line, &text) {
                Ok(said) => text.extend(said.into_bytes()),
                Err(error) => {
                    fault = fault.take().or(Some(error));
                    INTERRUPT.store(true, Ordering::Relaxed);
                }
            }
        }
        // A reader that has gone ends nothing: the closing record goes to standard error.
        terminal::program(&text);
        Vec::new()
    })?;
    if let Some(fault) = fault {
        return Err(fault);
    }
    remark!("{}", serde_json::to_string(&end)?);
    Ok(match end.outcome {
        Outcome::PowerOff | Outcome::DebugExit(0) => ExitCode::SUCCESS,
        Outcome::DebugExit(value) => ExitCode::from((value as u8).wrapping_mul(2) | 1),
        _ => Status::CannotTell.into(),
    })
}

/// Hands the guest's lines to the function's driver; `line` is what has no end yet. What was sent,
/// once all was.
fn parse_address(text: &str) -> Result<String, String> {
    facts::pci_address(text)
        .ok_or_else(|| "must be the address of a PCI function, such as 0000:00:15.0".to_owned())
}

fn drive(device: &mut Driven, line: &mut Vec<u8>, text: &[u8]) -> anyhow::Result<String> {
    for byte in text {
        match byte {
            b'\n' => device.take(String::from_utf8_lossy(&std::mem::take(line)).trim_end())?,
            byte => line.push(*byte),
        }
    }
    Ok(device.look()?.map_or(String::new(), |sent| sent + "\n"))
}

/// What times rest on, as a record among the benchmark's own.
fn costs_record(costs: &Provenance) -> serde_json::Result<String> {
    #[derive(serde::Serialize)]
    struct Record<'a> {
        record: &'static str,
        #[serde(flatten)]
        costs: &'a Provenance,
    }
    serde_json::to_string(&Record { record: "costs", costs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_costs_names_the_profile_and_counts_what_its_figures_rest_on() {
        let costs = board::cost::CostProfile::named("sapphire-rapids").expect("a profile");
        let record = costs_record(&costs.provenance()).expect("plain data");
        let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
        assert_eq!(
            (&record["record"], &record["profile"]),
            (&"costs".into(), &"sapphire-rapids".into())
        );
        for basis in ["measured", "published", "assumed", "inherited"] {
            assert!(record[basis].is_u64(), "{basis}: {record}");
        }
    }
}
