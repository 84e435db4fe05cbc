//! Who starts and stops virtual machines: libvirt, a script for plain QEMU, Cloud Hypervisor's API,
//! commands for Firecracker.
//!
//! What a machine was before is in the journal before the first change: its description, where the
//! manager keeps one, and whether it ran.

use super::options::{ManagerName, Options};
use super::said::Said;
use super::undo::{Undo, run};
use ::experiment::place::{Change, Failure, Remark, Teller, Weight};
use ::experiment::plan::{Plan, Setting};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a machine may take to stop.
const STOP: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
/// An answer of an API at most.
const MOST_BYTES: u64 = 1 << 20;

/// What machines are started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Those that run.
    pub machines: Vec<String>,
    /// The policy of KVM's 8254 timer, if the plan sets it.
    pub pit: Option<String>,
    /// How many vCPUs, if the plan sets it.
    pub vcpus: Option<String>,
}

impl Hardware {
    pub fn of(plan: &Plan, setting: &Setting, machines: Vec<String>) -> Self {
        let level = |kind: &str| plan.of_kind(setting, kind).map(|(_, level)| level.to_owned());
        Self { machines, pit: level("pit"), vcpus: level("vcpus") }
    }
}

/// A way to manage machines.
pub struct Manager(ManagerName);

pub fn of(options: &Options) -> Manager {
    Manager(options.manager)
}

/// Kinds of factors that no manager has a word for here.
const NOT_SET: [&str; 6] = ["irqchip", "apic", "fence", "message", "kernel", "clock"];

impl Manager {
    /// What it cannot set.
    pub fn check(&self, options: &Options, plan: &Plan) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let mut block = |cause: String, remedy: &str| {
            remarks.push(Remark::new(Weight::Blocks, cause, remedy));
        };
        for factor in &plan.factors {
            let varies = factor.levels.len() > 1;
            match (factor.kind.as_str(), self.0) {
                ("pit", ManagerName::Firecracker) => block(
                    "Firecracker lets KVM's 8254 timer inject late ticks and has no word for it"
                        .into(),
                    "on AMD, AVIC is inhibited for the whole life of its guests: there is nothing to switch",
                ),
                ("pit", ManagerName::CloudHypervisor) => block(
                    "Cloud Hypervisor has no 8254 timer".into(),
                    "compare the feature itself, by a plan with kind = \"feature\"",
                ),
                (kind, _) if varies && NOT_SET.contains(&kind) => block(
                    format!("{}: this verb cannot change {kind} on a host", factor.name),
                    "leave the factor out, and run the plan for each level",
                ),
                ("vcpus", name) if varies && name != ManagerName::Qemu => block(
                    format!("{}: the number of vCPUs is changed for plain QEMU alone", factor.name),
                    "use --manager qemu",
                ),
                _ => {}
            }
        }
        let by_commands = matches!(self.0, ManagerName::Qemu | ManagerName::Firecracker);
        if by_commands && (options.start.is_none() || options.stop.is_none()) {
            block(
                "who starts and stops the machine?".into(),
                "give --start COMMAND and --stop COMMAND",
            );
        }
        remarks
    }

    /// Writes down what machines are, once for each change that follows.
    pub fn keep(&self, options: &Options, teller: &mut dyn Teller) -> Result<(), Failure> {
        for vm in &options.vms {
            let is_running = self.is_running(options, vm).map_err(Failure::Failed)?;
            let undo = Undo::Running { vm: vm.clone(), is_running };
            let state = if is_running { "runs" } else { "does not run" };
            teller.change(Change { what: format!("{vm} {state}"), undo: undo.to_text() })?;
            if self.0 == ManagerName::Libvirt {
                let xml = virsh(&["dumpxml", "--inactive", "--security-info", vm])
                    .map_err(Failure::Failed)?;
                let undo = Undo::Define { vm: vm.clone(), xml };
                teller
                    .change(Change { what: format!("{vm}'s description"), undo: undo.to_text() })?;
            }
        }
        Ok(())
    }

    fn is_running(&self, options: &Options, vm: &str) -> Said<bool> {
        match self.0 {
            ManagerName::Libvirt => Ok(virsh(&["domstate", vm])?.trim() == "running"),
            ManagerName::CloudHypervisor => {
                Ok(api(vm, "GET", "/api/v1/vm.info")?.contains("\"Running\""))
            }
            // A start command tells by it whether it runs already.
            ManagerName::Qemu | ManagerName::Firecracker => {
                Ok(super::measure::is_running(options, vm))
            }
        }
    }

    pub fn stop(&self, options: &Options, vms: &[String]) -> Result<(), Failure> {
        vms.iter().try_for_each(|vm| self.set_running(options, vm, false)).map_err(Failure::Failed)
    }

    /// Starts or stops a machine with what it is configured with, if it is not so.
    pub fn set_running(&self, options: &Options, vm: &str, is_running: bool) -> Said<()> {
        if self.is_running(options, vm)? == is_running {
            return Ok(());
        }
        match (self.0, is_running) {
            (ManagerName::Libvirt, true) => virsh(&["start", vm]).map(|_| ()),
            (ManagerName::Libvirt, false) => {
                // A guest that does not shut down by itself is switched off.
                let _ = virsh(&["shutdown", vm]);
                if self.wait_for_end(options, vm).is_ok() {
                    return Ok(());
                }
                virsh(&["destroy", vm]).map(|_| ())
            }
            (ManagerName::CloudHypervisor, true) => api(vm, "PUT", "/api/v1/vm.boot").map(|_| ()),
            (ManagerName::CloudHypervisor, false) => {
                api(vm, "PUT", "/api/v1/vm.shutdown").map(|_| ())
            }
            (_, true) => self.by_command(options, vm, &[]),
            (_, false) => shell(options.stop.as_deref(), vm, ""),
        }
    }

    fn wait_for_end(&self, options: &Options, vm: &str) -> Said<()> {
        let began = Instant::now();
        while self.is_running(options, vm)? {
            if began.elapsed() > STOP {
                return Err(format!("{vm} does not stop"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Changes descriptions, where the manager keeps them.
    pub fn configure(&self, options: &Options, wanted: &Hardware) -> Result<(), Failure> {
        let (ManagerName::Libvirt, Some(pit)) = (self.0, &wanted.pit) else { return Ok(()) };
        for vm in &options.vms {
            let described = virsh(&["dumpxml", "--inactive", "--security-info", vm]);
            let described = described.and_then(|xml| with_pit(&xml, pit));
            described.and_then(|xml| define(vm, &xml)).map_err(Failure::Failed)?;
        }
        Ok(())
    }

    pub fn start(&self, options: &Options, wanted: &Hardware) -> Result<(), Failure> {
        for vm in &wanted.machines {
            let started = match self.0 {
                ManagerName::Qemu | ManagerName::Firecracker => {
                    self.by_command(options, vm, &arguments(wanted))
                }
                ManagerName::Libvirt | ManagerName::CloudHypervisor => {
                    self.set_running(options, vm, true)
                }
            };
            started.map_err(Failure::Failed)?;
        }
        Ok(())
    }

    fn by_command(&self, options: &Options, vm: &str, arguments: &[String]) -> Said<()> {
        shell(options.start.as_deref(), vm, &arguments.join(" "))
    }
}

/// What QEMU is given besides.
fn arguments(wanted: &Hardware) -> Vec<String> {
    let pit = wanted.pit.as_deref().map(|pit| {
        let policy = if pit == "reinject" { "delay" } else { "discard" };
        match pit {
            "off" => "-machine pit=off".to_owned(),
            _ => format!("-global kvm-pit.lost_tick_policy={policy}"),
        }
    });
    let vcpus = wanted.vcpus.as_ref().map(|vcpus| format!("-smp {vcpus}"));
    pit.into_iter().chain(vcpus).collect()
}

fn shell(command: Option<&str>, vm: &str, arguments: &str) -> Said<()> {
    let command = command.ok_or("no command: give --start and --stop")?;
    // What is started goes on for itself: its output is nobody's.
    let status = Command::new("sh")
        .args(["-c", command])
        .env("VM", vm)
        .env("ARGUMENTS", arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("sh: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command}: {status}")) }
}

fn virsh(arguments: &[&str]) -> Said<String> {
    let words: Vec<String> =
        std::iter::once("virsh").chain(arguments.iter().copied()).map(str::to_owned).collect();
    run(&words)
}

/// Gives libvirt a description.
pub fn define(vm: &str, xml: &str) -> Said<()> {
    let mut file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    file.write_all(xml.as_bytes()).map_err(|error| error.to_string())?;
    virsh(&["define", &file.path().to_string_lossy()])
        .map(|_| ())
        .map_err(|why| format!("{vm}: {why}"))
}

/// A description with KVM's 8254 timer as it is wanted: the line of the timer is exchanged, or put
/// in.
fn with_pit(xml: &str, pit: &str) -> Said<String> {
    let line = match pit {
        "off" => "<timer name='pit' present='no'/>",
        "reinject" => "<timer name='pit' tickpolicy='delay'/>",
        _ => "<timer name='pit' tickpolicy='discard'/>",
    };
    if let Some(start) = xml.find("<timer name='pit'") {
        let end = xml[start..].find('>').ok_or("the timer's element has no end")?;
        let is_empty = xml[start..start + end].ends_with('/');
        if !is_empty {
            return Err("the timer's element has content, which is not understood".into());
        }
        return Ok(format!("{}{line}{}", &xml[..start], &xml[start + end + 1..]));
    }
    if let Some(start) = xml.find("<clock ") {
        let end = start + xml[start..].find('>').ok_or("<clock> has no end")?;
        return Ok(match xml[..end].strip_suffix('/') {
            Some(open) => format!("{open}>{line}</clock>{}", &xml[end + 1..]),
            None => format!("{}{line}{}", &xml[..=end], &xml[end + 1..]),
        });
    }
    let place = xml.find("<devices>").ok_or("the description has no <devices>")?;
    Ok(format!("{}<clock offset='utc'>{line}</clock>{}", &xml[..place], &xml[place..]))
}

/// One request to an API on a socket; the body of the answer.
fn api(socket: &str, method: &str, path: &str) -> Said<String> {
    let failed = |error: std::io::Error| format!("{socket}: {error}");
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(STOP)).map_err(failed)?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let (mut answer, mut chunk, began) = (Vec::new(), [0; 4096], Instant::now());
    while (answer.len() as u64) < MOST_BYTES && !is_whole(&answer) {
        // Each byte may come in time, and the answer never end.
        if began.elapsed() > STOP {
            return Err(format!("{socket}: {method} {path}: no end after {} s", STOP.as_secs()));
        }
        match stream.read(&mut chunk).map_err(failed)? {
            0 => break,
            length => answer.extend(&chunk[..length]),
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status.starts_with('2') {
        return Ok(body.to_owned());
    }
    Err(format!("{socket}: {method} {path}: {}", head.lines().next().unwrap_or("no answer")))
}

/// Whether an answer has all the bytes that it announces: a server may keep the line open.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) => body.len() >= length,
        None => head.contains(" 204 "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_timers_line_is_exchanged_or_put_in() {
        let discard = "<timer name='pit' tickpolicy='discard'/>";
        for (xml, expected) in [
            (
                "<clock offset='utc'><timer name='pit' tickpolicy='delay'/><timer name='rtc'/></clock><devices>",
                format!("<clock offset='utc'>{discard}<timer name='rtc'/></clock><devices>"),
            ),
            (
                "<clock offset='utc'/><devices>",
                format!("<clock offset='utc'>{discard}</clock><devices>"),
            ),
            (
                "<clock offset='utc'><timer name='rtc'/></clock>",
                format!("<clock offset='utc'>{discard}<timer name='rtc'/></clock>"),
            ),
            (
                "<domain><devices>",
                format!("<domain><clock offset='utc'>{discard}</clock><devices>"),
            ),
        ] {
            assert_eq!(with_pit(xml, "discard"), Ok(expected));
        }
        assert!(with_pit("<domain/>", "discard").is_err());
        assert!(with_pit("<clock><timer name='pit'><a/></timer></clock>", "off").is_err());
    }

    #[test]
    fn qemu_is_told_the_policy_and_how_many_processors() {
        let hardware = |pit: &str| Hardware {
            machines: Vec::new(),
            pit: Some(pit.into()),
            vcpus: Some("4".into()),
        };
        let given = |pit: &str| arguments(&hardware(pit)).join(" ");
        assert_eq!(given("reinject"), "-global kvm-pit.lost_tick_policy=delay -smp 4");
        assert_eq!(given("discard"), "-global kvm-pit.lost_tick_policy=discard -smp 4");
        assert_eq!(given("off"), "-machine pit=off -smp 4");
    }

    /// A server that answers one request.
    fn served(
        answer: &'static str,
    ) -> (tempfile::TempDir, String, std::thread::JoinHandle<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("api").to_string_lossy().into_owned();
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).expect("a request");
            stream.write_all(answer.as_bytes()).expect("answered");
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        (folder, path, server)
    }

    #[test]
    fn an_api_is_asked_and_its_refusal_told() {
        let (_folder, path, server) =
            served("HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{\"state\":\"Running\"}");
        let body = api(&path, "GET", "/api/v1/vm.info").expect("an answer");
        assert!(body.contains("\"Running\""), "{body}");
        let request = server.join().expect("served");
        assert!(request.starts_with("GET /api/v1/vm.info HTTP/1.1\r\n"), "{request}");
        let (_folder, path, server) =
            served("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
        let error = api(&path, "PUT", "/api/v1/vm.boot").expect_err("refused");
        assert!(error.contains("500"), "{error}");
        server.join().expect("served");
        assert!(api("/nonexistent", "GET", "/").is_err());
    }
}
