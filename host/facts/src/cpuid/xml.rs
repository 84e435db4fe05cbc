//! `<cpuid eax_in='0x8000000a' ecx_in='0x00' eax='0x…' ebx='0x…' ecx='0x…' edx='0x…'/>` and
//! `<msr index='0x480' eax='0x…' edx='0x…'/>`, as libvirt keeps processors for its tests.

use super::Processor;

/// Longest tag with the text behind it; those of a listing have one register.
const MOST_TAG: usize = 16 << 10;

pub fn parse(text: &str) -> Vec<Processor> {
    // The parser compares each attribute of an element with each.
    if text.split('<').any(|tag| tag.len() > MOST_TAG) {
        return vec![];
    }
    let Ok(document) = roxmltree::Document::parse(text) else { return vec![] };
    let mut processor = Processor::default();
    for node in document.descendants() {
        let number = |name| {
            let text: &str = node.attribute(name)?;
            u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
        };
        if node.has_tag_name("cpuid") {
            if let (Some(leaf), Some(a), Some(b), Some(c), Some(d)) =
                (number("eax_in"), number("eax"), number("ebx"), number("ecx"), number("edx"))
            {
                processor.insert(leaf, number("ecx_in").unwrap_or(0), [a, b, c, d]);
            }
        } else if node.has_tag_name("msr")
            && let (Some(index), Some(low), Some(high)) =
                (number("index"), number("eax"), number("edx"))
        {
            processor.msrs.insert(index, Some(u64::from(high) << 32 | u64::from(low)));
        }
    }
    vec![processor]
}
