//! `avicenna experiment --on host`, on a made-up host in a folder: virsh, modprobe and the guest
//! agent are scripts that change its files. Killed at any moment, everything is put back.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The host's files before; `RUNNING` is a process of the virtual machine.
const FILES: &[(&str, &str)] = &[
    (
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: EPYC\nflags\t\t: svm avic\n",
    ),
    ("proc/sys/kernel/osrelease", "6.12.10\n"),
    ("proc/cmdline", "quiet\n"),
    ("proc/stat", "cpu  100 0 50 900 0 0 0 0 0 0\nctxt 5\nintr 7 1\n"),
    ("sys/module/kvm_amd/parameters/avic", "Y\n"),
    ("sys/module/kvm_amd/parameters/npt", "Y\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
    (
        "libvirt/web.xml",
        "<domain><clock offset='utc'><timer name='pit' tickpolicy='delay'/></clock><devices></devices></domain>\n",
    ),
];

const VIRSH: &str = r#"#!/bin/sh
# virsh as far as the experiment uses it; a running machine is a process with a command line.
vm=proc/4711/cmdline
cd "$HOST" || exit 1
case "$1" in
domstate) if [ -e $vm ]; then echo running; else echo "shut off"; fi ;;
dumpxml) cat libvirt/web.xml ;;
define) cp "$2" libvirt/web.xml.new && mv libvirt/web.xml.new libvirt/web.xml ;;
shutdown|destroy) rm -rf proc/4711 ;;
start)
  policy=$(sed -n "s/.*tickpolicy='\([a-z]*\)'.*/\1/p" libvirt/web.xml)
  mkdir -p proc/4711
  printf '/usr/bin/qemu-system-x86_64\0-name\0guest=web\0-accel\0kvm\0-machine\0q35\0-cpu\0host\0-global\0kvm-pit.lost_tick_policy=%s\0' "$policy" > $vm ;;
qemu-agent-command)
  [ -e $vm ] || exit 1
  case "$3" in
  *guest-exec-status*)
    if grep -q discard $vm && [ "$(cat sys/module/kvm_amd/parameters/avic)" = Y ]; then ms=80; else ms=100; fi
    n=$(cat runs 2>/dev/null || echo 0); n=$((n + 1)); echo $n > runs
    text=$(printf 'time: %d.%d ms\n' $ms $((n % 3)) | base64 -w0)
    echo "{\"return\":{\"exited\":true,\"exitcode\":0,\"out-data\":\"$text\"}}" ;;
  *) echo '{"return":{"pid":7}}' ;;
  esac ;;
*) exit 1 ;;
esac
"#;

const MODPROBE: &str = r#"#!/bin/sh
# modprobe: parameters are files; a module in use is not removed.
cd "$HOST" || exit 1
if [ "$1" = -r ]; then [ ! -e proc/4711 ] && exit 0; echo "in use" >&2; exit 1; fi
module=$1; shift
for word in "$@"; do echo "${word#*=}" > "sys/module/$module/parameters/${word%%=*}"; done
"#;

const PLAN: &str = r#"
schema = 1
name = "made-up"
question = "does the PIT's policy matter?"
[design]
compare = "pit"
blocks = 6
level = 0.05
[[factor]]
name = "pit"
levels = ["reinject", "discard"]
redo = "vm"
[host]
vendor = "amd"
command = "work"
settle = 0
most_load = 100
prepare = ["governor"]
[[metric]]
name = "time"
unit = "ms"
better = "less"
regex = "time: ([0-9.]+) ms"
[[proof]]
level = ["discard"]
evidence = "parameter:kvm_amd.avic"
is = "Y"
why = "AVIC is off"
fix = "avicenna enable"
"#;

/// A host in a folder, gone at the end.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().expect("a folder"));
        for (path, text) in FILES {
            host.put(path, text);
        }
        for (name, text) in [("bin/virsh", VIRSH), ("bin/modprobe", MODPROBE)] {
            // Copied by a process of its own: a child that another test starts while this one has
            // the file open for writing would keep it open, and nobody could execute it.
            let (text_file, program) = (format!("{name}.text"), host.path(name));
            host.put(&text_file, text);
            let mut install = Command::new("install");
            install.args(["-m", "755"]).arg(host.path(&text_file)).arg(program);
            assert!(install.status().expect("install").success());
        }
        host.put("plan.toml", PLAN);
        assert!(host.script("virsh", &["start", "web"]).status.success());
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.path("bin").join(name));
        command.args(arguments).env("HOST", self.0.path()).output().expect("a script")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
        let folders = std::env::var("PATH").unwrap_or_default();
        command
            .arg("experiment")
            .args(arguments)
            .env("HOST", self.0.path())
            .env("PATH", format!("{}:{folders}", self.path("bin").display()))
            .current_dir(self.0.path());
        command
    }

    fn avicenna(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("avicenna")
    }

    fn run(&self, more: &[&str]) -> Vec<String> {
        let root = self.0.path().to_string_lossy().into_owned();
        let own = ["run", "plan.toml", "--on", "host", "--vm", "web", "--root", &root, "-o", "out"];
        own.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    /// Everything that the experiment may change.
    fn state(&self) -> Vec<(String, String)> {
        let names = FILES.iter().map(|(path, _)| *path).chain(["proc/4711/cmdline"]);
        let read = |path| fs::read_to_string(self.path(path)).unwrap_or_default();
        // sysfs ends each value with a line's end, whatever was written.
        names.map(|path| (path.into(), read(path).trim_end().to_owned())).collect()
    }
}

fn words(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn without_yes_nothing_is_changed_and_with_it_everything_is_put_back() {
    let host = Host::new();
    let before = host.state();
    let output = host.avicenna(&words(&host.run(&[])));
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("nothing was changed, --yes runs it"), "{}", text(&output));
    assert_eq!(host.state(), before);
    assert!(!host.path("out").exists());

    let output = host.avicenna(&words(&host.run(&["--yes"])));
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("time is better"), "{said}");
    assert_eq!(host.state(), before, "{said}");
    let page = fs::read_to_string(host.path("out/index.html")).expect("a page");
    assert!(page.contains("<circle") && page.contains("does the PIT&#39;s policy matter?"), "page");
    let status = text(&host.avicenna(&["status", "out"]));
    assert!(status.contains("finished") && status.contains("12 of 12 trials ended"), "{status}");
    let again = text(&host.avicenna(&["restore", "out", "--yes"]));
    assert!(again.contains("there is nothing to put back"), "{again}");
}

#[test]
fn modules_are_reloaded_with_what_they_had() {
    let host = Host::new();
    let plan = PLAN
        .replace("compare = \"pit\"", "compare = \"avic\"")
        .replace("name = \"pit\"\nlevels = [\"reinject\", \"discard\"]\nredo = \"vm\"", "name = \"avic\"\nkind = \"feature\"\nof = \"avic\"\nlevels = [\"off\", \"on\"]\nredo = \"module\"")
        .replace("level = [\"discard\"]", "level = [\"on\"]");
    host.put("plan.toml", &plan);
    host.put("libvirt/web.xml", &FILES[7].1.replace("delay", "discard"));
    host.script("virsh", &["destroy", "web"]);
    host.script("virsh", &["start", "web"]);
    let before = host.state();
    let output = host.avicenna(&words(&host.run(&["--yes"])));
    let said = text(&output);
    assert!(output.status.success() && said.contains("time is better"), "{said}");
    assert_eq!(host.state(), before, "{said}");
}

#[test]
fn an_arm_without_effect_is_the_answer_with_the_fix() {
    let host = Host::new();
    host.put("sys/module/kvm_amd/parameters/avic", "N\n");
    let before = host.state();
    let output = host.avicenna(&words(&host.run(&["--yes"])));
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let folded = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(folded.contains("pit discard never took effect: AVIC is off"), "{said}");
    assert!(folded.contains("avicenna enable"), "{said}");
    assert_eq!(host.state(), before, "{said}");
}

#[test]
fn what_is_missing_is_said_before_anything_runs() {
    let host = Host::new();
    let root = host.0.path().to_string_lossy().into_owned();
    let check = |more: &[&str]| {
        let own = ["check", "plan.toml", "--on", "host", "--root", &root];
        let output = host.avicenna(&[&own[..], more].concat());
        (output.status.code(), text(&output).split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (code, said) = check(&[]);
    assert!(code == Some(1) && said.contains("1 virtual machines, and 0 are named"), "{said}");
    let (code, said) = check(&["--vm", "web", "--manager", "firecracker", "--ssh", "x"]);
    assert!(code == Some(1) && said.contains("there is nothing to switch"), "{said}");
    let (code, said) = check(&["--vm", "/run/ch.sock", "--manager", "cloud-hypervisor"]);
    assert!(code == Some(1) && said.contains("Cloud Hypervisor has no 8254 timer"), "{said}");
    let (code, said) = check(&["--vm", "web"]);
    assert!(code == Some(0) && said.contains("made-up would run here"), "{said}");
    host.put("proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
    let (code, said) = check(&["--vm", "web"]);
    assert!(code == Some(1) && said.contains("takes processors of amd"), "{said}");
}

fn wait(child: &mut Child, time: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < time {
        if child.try_wait().expect("a child").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// A host on which a run was killed after so long, or sooner if it would have ended by then, and
/// what the host was before.
fn killed(after: Duration) -> (Host, Vec<(String, String)>) {
    let host = Host::new();
    let before = host.state();
    let mut command = host.command(&words(&host.run(&["--yes"])));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a child");
    if wait(&mut child, after) {
        // The machine was busier when the whole was measured.
        return killed(after / 2);
    }
    // The program alone dies at once; its children end by themselves.
    child.kill().expect("killed");
    child.wait().expect("waited for");
    (host, before)
}

/// A moment that differs between tries, without a dependence on chance: a run takes about as long
/// as all of them span.
#[test]
fn killed_at_any_moment_it_is_put_back_or_goes_on_to_the_end() {
    // As many as are asked for; few where all tests are run.
    let moments = std::env::var("AVICENNA_KILLS").ok().and_then(|text| text.parse().ok());
    let moments: u32 = moments.unwrap_or(6);
    let whole = {
        let host = Host::new();
        let began = Instant::now();
        assert!(host.avicenna(&words(&host.run(&["--yes"]))).status.success());
        began.elapsed()
    };
    for moment in 0..moments {
        let (host, before) = killed(whole * (moment + 1) / (moments + 2));
        std::thread::sleep(Duration::from_millis(500));
        if !host.path("out/journal.jsonl").exists() {
            assert_eq!(host.state(), before, "nothing was begun");
            continue;
        }
        let verb = if moment % 2 == 0 { "resume" } else { "restore" };
        let output = host.avicenna(&[verb, "out", "--yes"]);
        let said = text(&output);
        assert!(output.status.success(), "{verb} at {moment}: {said}");
        assert_eq!(host.state(), before, "{verb} at {moment}: {said}");
        if verb == "resume" {
            assert!(said.contains("time is better"), "{said}");
        }
    }
}

#[test]
fn ctrl_c_puts_everything_back_and_resume_goes_on() {
    let host = Host::new();
    let before = host.state();
    let mut command = host.command(&words(&host.run(&["--yes"])));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a child");
    // The first trial has begun once something is switched.
    let began = Instant::now();
    while host.state() == before && !wait(&mut child, Duration::from_millis(2)) {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is ever switched");
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let status = child.wait().expect("waited for");
    assert_eq!(status.code(), Some(130), "{status}");
    assert_eq!(host.state(), before);
    let said = text(&host.avicenna(&["status", "out"]));
    assert!(said.contains("stopped: interrupted"), "{said}");
    let output = host.avicenna(&["resume", "out", "--yes"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(host.state(), before);
}
