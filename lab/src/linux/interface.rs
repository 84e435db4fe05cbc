//! A network interface with no address but the one that it gives itself. [RFC 4862 "Creation of
//! Link-Local Addresses"]

use anyhow::Context;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// IFF_UP
const UP: u32 = 1;
/// Drivers look for their link once in a second or two.
const PATIENCE: Duration = Duration::from_secs(20);

/// By its name.
pub(crate) struct Interface(pub String);

impl Interface {
    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from("/sys/class/net").join(&self.0).join(name)
    }

    fn read(&self, name: &str) -> anyhow::Result<String> {
        let path = self.file(name);
        let text = std::fs::read_to_string(&path);
        Ok(text.with_context(|| format!("cannot read {}", path.display()))?.trim().to_owned())
    }

    /// Switches it on. Its address is taken without asking whether anybody has it.
    pub(crate) fn set_up(&self) -> anyhow::Result<()> {
        let ask = format!("/proc/sys/net/ipv6/conf/{}/accept_dad", self.0);
        std::fs::write(&ask, "0").with_context(|| format!("cannot write {ask}"))?;
        let flags = self.read("flags")?;
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16)? | UP;
        let path = self.file("flags");
        std::fs::write(&path, format!("{flags:#x}"))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Waits until there is a link.
    pub(crate) fn wait(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        // The file cannot be read while the interface is off.
        while self.read("carrier").ok().as_deref() != Some("1") {
            anyhow::ensure!(start.elapsed() < PATIENCE, "{} has no link", self.0);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What sockets call it.
    pub(crate) fn index(&self) -> anyhow::Result<u32> {
        Ok(self.read("ifindex")?.parse()?)
    }

    /// The address that it gives itself.
    pub(crate) fn address(&self) -> anyhow::Result<Ipv6Addr> {
        let text = self.read("address")?;
        link_local(&text).with_context(|| format!("{}: {text:?} is not an address", self.0))
    }
}

/// FE80::/64 and the modified EUI-64 of a hardware address. [RFC 4291 "Creating Modified EUI-64
/// Format Interface Identifiers"]
fn link_local(hardware: &str) -> Option<Ipv6Addr> {
    let bytes = hardware.split(':').map(|byte| u8::from_str_radix(byte, 16));
    let bytes = bytes.collect::<Result<Vec<u8>, _>>().ok()?;
    let [a, b, c, d, e, f] = bytes.try_into().ok()?;
    Some(Ipv6Addr::from([0xFE, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xFF, 0xFE, d, e, f]))
}

/// Interrupts of lines of `/proc/interrupts` whose names have a word, of all processors.
pub(crate) fn interrupts_of(word: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    sum_of(&text, word)
}

fn sum_of(text: &str, word: &str) -> u64 {
    let lines = text.lines().filter(|line| line.contains(word));
    let counts = lines.flat_map(|line| {
        let numbers = line.split_whitespace().skip(1);
        numbers.map_while(|number| number.parse::<u64>().ok())
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_s_own_address_is_made_of_its_hardware_s() {
        let address = link_local("02:00:5e:10:00:01").expect("an address");
        assert_eq!(address.to_string(), "fe80::5eff:fe10:1");
        for text in ["", "02:00:5e:10:00", "02:00:5e:10:00:01:02", "02:00:5e:10:00:zz"] {
            assert_eq!(link_local(text), None, "{text}");
        }
    }

    #[test]
    fn interrupts_of_all_processors_and_vectors_are_summed() {
        let text = "           CPU0       CPU1\n  24:          7          2  PCI-MSIX-0000:00:01.0   0-edge      eth0-TxRx-0\n  \
                    25:          1          0  PCI-MSIX-0000:00:01.0   1-edge      eth0\n   4:         99          0  IO-APIC   4-edge  ttyS0\n";
        assert_eq!(sum_of(text, "eth0"), 10);
        assert_eq!(sum_of(text, "vfio"), 0);
    }
}
