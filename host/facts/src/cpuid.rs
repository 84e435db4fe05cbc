//! Readers of CPUID listings: what the usual tools print raw ([`line`]), and libvirt's XML.
//!
//! A listing holds one or more processors, and may hold model-specific registers beside the leaves.
//! Lines that say nothing about CPUID are skipped, so that listings keep their headings and
//! comments.

mod line;
mod text;
mod xml;

use reading::Cpuid;
use std::collections::BTreeMap;

/// Most processors that are read of one listing, and most leaves of each.
const PROCESSORS_LIMIT: usize = 4096;
const LEAVES_LIMIT: usize = 4096;

/// One processor of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Its number, where the listing tells it.
    pub number: Option<u32>,
    /// Leaves as the instruction returned them.
    pub cpuid: Cpuid,
    /// Registers that were listed; `None` for one whose read failed, which means it does not exist.
    pub msrs: BTreeMap<u32, Option<u64>>,
}

impl Processor {
    /// Old listings repeat a leaf for its subleaves without numbering them: the first line is
    /// subleaf 0.
    fn insert(&mut self, leaf: u32, subleaf: u32, registers: [u32; 4]) {
        if self.cpuid.len() < LEAVES_LIMIT && !self.cpuid.has(leaf, subleaf) {
            self.cpuid.insert(leaf, subleaf, registers);
        }
    }
}

/// The processors of a listing; empty when the text is none.
pub fn parse(listing: &str) -> Vec<Processor> {
    let is_xml = listing.trim_start().starts_with('<');
    let mut processors = if is_xml { xml::parse(listing) } else { text::parse(listing) };
    processors.retain(|processor| !processor.cpuid.is_empty());
    processors
}

/// Whether a text is what `cpuid` prints without `-r`: words instead of registers.
pub fn is_decoded(text: &str) -> bool {
    let mut lines = text.lines().take(400).map(str::trim);
    lines.any(|line| {
        line.starts_with("vendor_id = \"") || line.starts_with("version information (1/eax)")
    })
}

/// The listing of one processor, as `cpuid -r` prints it.
pub fn print(number: u32, cpuid: &Cpuid) -> String {
    let mut text = format!("CPU {number}:\n");
    for (leaf, subleaf, [a, b, c, d]) in cpuid.iter() {
        text.push_str(&format!(
            "   0x{leaf:08x} 0x{subleaf:02x}: eax=0x{a:08x} ebx=0x{b:08x} ecx=0x{c:08x} edx=0x{d:08x}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests;
