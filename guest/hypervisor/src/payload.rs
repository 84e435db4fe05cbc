//! Puts a Multiboot image into the guest's RAM, as a loader would.
//! [MULTIBOOT "OS image format"] [MULTIBOOT "Boot information format"]

use crate::memory::Memory;
use crate::selection::Selection;
use arch::address::GuestPhysical;

/// The benchmark; empty in a build that was not given it.
pub const BUILT_IN: &[u8] = include_bytes!(env!("PAYLOAD"));

const HEADER_MAGIC: u32 = 0x1BAD_B002;
pub const BOOT_MAGIC: u32 = 0x2BAD_B002;
const SEARCHED: usize = 8192;
const HAS_ADDRESSES: u32 = 1 << 16;

/// Where the information block and what it points to are; the guests' own trampoline is lower.
const INFORMATION: u64 = 0x9000;
const COMMAND_LINE: u64 = 0x9200;
const MEMORY_MAP: u64 = 0x9100;
const LONGEST_COMMAND_LINE: usize = 1024;
/// Usable RAM below the hole where a PC has its firmware, and above.
const LOW_END: u64 = 0x9_F000;
const HIGH_START: u64 = 0x10_0000;

/// Where the guest starts.
pub struct Entry {
    pub rip: u32,
    /// The address of the information block, for EBX.
    pub information: u32,
}

fn word(image: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?))
}

/// Loads `image` by the address fields of its header.
pub fn load(
    memory: Memory,
    image: &[u8],
    selection: &Selection<'_>,
) -> Result<Entry, &'static str> {
    let rip =
        load_image(memory, image).ok_or("the guest is no Multiboot image with address fields")?;
    place_information(memory, selection).ok_or("the guest's command line does not fit")?;
    Ok(Entry { rip, information: INFORMATION as u32 })
}

fn load_image(memory: Memory, image: &[u8]) -> Option<u32> {
    let field = |at: usize, index: usize| word(image, at + 4 * index);
    let header = (0..SEARCHED.min(image.len())).step_by(4).find(|&at| {
        let sum = (0..3).try_fold(0u32, |sum, index| Some(sum.wrapping_add(field(at, index)?)));
        field(at, 0) == Some(HEADER_MAGIC) && sum == Some(0)
    })?;
    if field(header, 1)? & HAS_ADDRESSES == 0 {
        return None;
    }
    let [header_address, start, end, bss_end, entry] =
        [3, 4, 5, 6, 7].map(|index| field(header, index).unwrap_or(0));
    let offset = header.checked_sub(header_address.checked_sub(start)? as usize)?;
    let length = if end == 0 { image.len() - offset } else { end.checked_sub(start)? as usize };
    let bytes = image.get(offset..offset.checked_add(length)?)?;
    let rest = (bss_end as usize).saturating_sub(start as usize + length);
    let target = GuestPhysical(u64::from(start));
    let loaded = memory.write(target, bytes) && memory.clear(target.offset(length as u64), rest);
    loaded.then_some(entry)
}

/// Command line and memory map.
fn place_information(memory: Memory, selection: &Selection<'_>) -> Option<()> {
    let mut at = COMMAND_LINE;
    for word in core::iter::once("guest").chain(selection.guest_words()) {
        if at + word.len() as u64 + 2 > COMMAND_LINE + LONGEST_COMMAND_LINE as u64 {
            return None;
        }
        memory.write(GuestPhysical(at), word.as_bytes());
        memory.write(GuestPhysical(at + word.len() as u64), b" ");
        at += word.len() as u64 + 1;
    }
    memory.write(GuestPhysical(at), &[0]);

    let regions = [(0, LOW_END), (HIGH_START, memory.size())];
    for (index, (start, end)) in regions.into_iter().enumerate() {
        let entry = GuestPhysical(MEMORY_MAP + index as u64 * 24);
        memory.write(entry, &20u32.to_le_bytes());
        memory.write(entry.offset(4), &u64::to_le_bytes(start));
        memory.write(entry.offset(12), &u64::to_le_bytes(end - start));
        memory.write(entry.offset(20), &1u32.to_le_bytes());
    }
    memory.clear(GuestPhysical(INFORMATION), 116);
    let fields = [(0, 1 << 2 | 1 << 6), (16, COMMAND_LINE), (44, 48), (48, MEMORY_MAP)];
    for (offset, value) in fields {
        memory.write(GuestPhysical(INFORMATION + offset), &(value as u32).to_le_bytes());
    }
    Some(())
}
