//! The images on a machine that is not ours. Skipped, with a notice, where QEMU is not installed.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What QEMU exits with when the guest writes 0 to the debug-exit port.
const PASSED: i32 = 1;

/// A processor with SVM and nested paging. QEMU's translator has no AVIC.
const SVM_CPU: &str = "EPYC,+svm";

/// A run that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs an image; its output and QEMU's exit status, or None without QEMU.
fn run(name: &str, cpus: u32, options: &str) -> Option<(String, i32)> {
    run_on("qemu64", name, cpus, options)
}

fn run_on(model: &str, name: &str, cpus: u32, options: &str) -> Option<(String, i32)> {
    let file = format!("avicenna-{name}-{}-{cpus}", std::process::id());
    let image = std::env::temp_dir().join(file);
    std::fs::write(&image, image::by_name(name)?).expect("a writable temporary folder");
    let child = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg", "-display", "none", "-serial", "stdio", "-no-reboot", "-m", "128"])
        .args(["-cpu", model])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-smp", &cpus.to_string()])
        .args(["-append", options, "-kernel"])
        .arg(&image)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let result = match child {
        Ok(mut child) => {
            let mut output = child.stdout.take().expect("a pipe, as asked for");
            let reader = std::thread::spawn(move || {
                let mut text = Vec::new();
                output.read_to_end(&mut text).map(|_| text)
            });
            let start = Instant::now();
            let mut status = child.try_wait().expect("a child of ours");
            while status.is_none() && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
                status = child.try_wait().expect("a child of ours");
            }
            if status.is_none() {
                child.kill().expect("a child of ours");
                child.wait().expect("a child of ours");
            }
            let text = reader.join().expect("no panic").expect("a pipe can be read");
            let text = String::from_utf8_lossy(&text).into_owned();
            Some((text, status.and_then(|status| status.code()).unwrap_or(-1)))
        }
        Err(error) => {
            println!("skipped: qemu-system-x86_64: {error}");
            None
        }
    };
    std::fs::remove_file(&image).expect("the file written above");
    result
}

/// The checksum that `part` printed.
fn checksum(output: &str, part: &str) -> u64 {
    let line = output.lines().find(|line| line.contains(&format!("\"name\":\"{part}\"")));
    let line = line.unwrap_or_else(|| panic!("no {part} in {output}"));
    let digits = line.split("\"checksum\":\"").nth(1).expect("a checksum");
    u64::from_str_radix(&digits[..16], 16).expect("hexadecimal")
}

#[test]
fn workload_computes_what_the_host_computes() {
    let Some((output, status)) = run("workload", 1, "scale=1") else { return };
    assert_eq!(status, PASSED, "{output}");
    let xorshift = (0..2_000_000).fold(0x9E37_79B9_7F4A_7C15u64, |mut x, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ x << 17
    });
    assert_eq!(checksum(&output, "xorshift"), xorshift);
    // 4,000 times SHA-256 of the digest before, from zeroes: by Python's hashlib.
    assert_eq!(checksum(&output, "sha256"), 0xE41E_DF43_E0F4_F7CC);
    // Fibonacci of 25, folded once.
    assert_eq!(checksum(&output, "fibonacci"), 75_025 * 0x100_0000_01B3);
    assert_eq!(output.matches("\"record\":\"part\"").count(), 11, "{output}");
}

#[test]
fn benchmark_starts_every_processor_and_loses_no_interrupt() {
    for cpus in [1, 2, 4] {
        let options = "samples=5 warmup=1 messages=5 tests=ipi,self,throughput,timer,eoi";
        let Some((output, status)) = run("benchmark", cpus, options) else { return };
        assert_eq!(status, PASSED, "{output}");
        assert!(output.contains(&format!("\"cpus\":{cpus},\"vendor\"")), "{output}");
        assert_eq!(output.contains("ipi_mesh"), cpus > 1, "{output}");
        assert!(!output.contains("lost"), "{output}");
    }
}

#[test]
fn hypervisor_runs_the_benchmark_with_software_injection_and_overcommit() {
    let guest = "guest.samples=5 guest.warmup=1 guest.messages=5 guest.tests=ipi,throughput,timer";
    let options = format!("vcpus=2 {guest}");
    let Some((output, status)) = run_on(SVM_CPU, "hypervisor", 1, &options) else { return };
    assert_eq!(status, PASSED, "{output}");
    assert!(output.contains("\"cpus\":2,\"vendor\""), "{output}");
    assert!(output.contains("\"record\":\"result\",\"feature\":\"off\",\"status\":0"), "{output}");
    for reason in ["interrupt", "cpuid", "hlt", "io", "msr", "npf"] {
        assert!(output.contains(&format!("\"reason\":\"{reason}\"")), "{reason}: {output}");
    }
    assert!(output.contains("\"what\":\"avic\""), "{output}");
}
