//! The bootstrap processor at the kernel's first instruction.

use super::error::LoadError;
use super::loader::Loader;
use arch::address::SystemPhysical;
use serde::{Deserialize, Serialize};

/// First byte that loaders may use: above the vector table and the BIOS data area.
pub(super) const LOW_MEMORY_START: u64 = 0x1000;
/// First byte that loaders try: boot structures go as low as possible from here.
pub(super) const BOOT_DATA_START: u64 = 0x7000;
/// ESP of a Multiboot image: below it and down to the vector table nothing of ours lies. The
/// protocol leaves ESP undefined; BIOS loaders such as QEMU's and GRUB's leave their own stack in
/// low memory, and there are images that push before they have one. [MULTIBOOT "Machine state"]
pub(super) const LOADER_STACK: u64 = BOOT_DATA_START;

/// The processor's mode at entry. Interrupts are off and segments are flat in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryMode {
    /// 64-bit mode, paging on through the tables at `cr3`.
    Long64,
    /// 32-bit protected mode, paging off.
    Protected32,
}

/// General-purpose registers that the protocol defines; all others are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootRegisters {
    /// EAX in protected mode: a Multiboot's magic number.
    pub rax: u64,
    /// EBX in protected mode: the information block.
    pub rbx: u64,
    /// `boot_params` of Linux.
    pub rsi: u64,
    /// The top of a stack, where the protocol gives one.
    pub rsp: u64,
}

/// How to start the bootstrap processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootState {
    /// With or without paging.
    pub mode: EntryMode,
    /// RIP or EIP.
    pub entry: u64,
    /// What the protocol passes in registers.
    pub registers: BootRegisters,
    /// The PML4 of identity page tables over 4 GiB; none in protected mode.
    pub cr3: Option<SystemPhysical>,
    /// The global descriptor table and its limit.
    pub gdt: SystemPhysical,
    /// Bytes of the table less one.
    pub gdt_limit: u16,
    /// CS; the others are in `data_selector` (DS, ES, FS, GS, SS) and `task_selector` (TR).
    pub code_selector: u16,
    /// A flat, writable segment.
    pub data_selector: u16,
    /// A busy task state segment.
    pub task_selector: u16,
    /// What was loaded, for readers.
    pub description: String,
}

const CODE_SELECTOR: u16 = 0x10;
const DATA_SELECTOR: u16 = 0x18;
const TASK_SELECTOR: u16 = 0x20;

/// Flat segments of 4 GiB, present, ring 0, accessed. [APM2 "Legacy Segment Descriptors"]
const CODE_32: u64 = 0x00CF_9B00_0000_FFFF;
const CODE_64: u64 = 0x00AF_9B00_0000_FFFF;
const DATA: u64 = 0x00CF_9300_0000_FFFF;
/// A busy 32-bit task state segment at 0, which the PVH protocol wants in TR.
const TASK: u64 = 0x0000_8B00_0000_0067;

impl Loader<'_, '_> {
    /// Places the descriptor table and, in 64-bit mode, the page tables.
    pub(super) fn boot_state(
        &mut self,
        mode: EntryMode,
        entry: u64,
        registers: BootRegisters,
        description: String,
    ) -> Result<BootState, LoadError> {
        let code = if mode == EntryMode::Long64 { CODE_64 } else { CODE_32 };
        let table: Vec<u8> =
            [0, 0, code, DATA, TASK].into_iter().flat_map(u64::to_le_bytes).collect();
        let name = self.request.kernel.name;
        let gdt = self.place_low(name, &table, BOOT_DATA_START)?;
        let cr3 = match mode {
            EntryMode::Protected32 => None,
            EntryMode::Long64 => Some(SystemPhysical(self.identity_tables()?)),
        };
        Ok(BootState {
            mode,
            entry,
            registers,
            cr3,
            gdt: SystemPhysical(gdt),
            gdt_limit: table.len() as u16 - 1,
            code_selector: CODE_SELECTOR,
            data_selector: DATA_SELECTOR,
            task_selector: TASK_SELECTOR,
            description,
        })
    }

    /// One PML4, one page-directory-pointer table and four directories of 2 MiB pages.
    fn identity_tables(&mut self) -> Result<u64, LoadError> {
        const PRESENT_WRITABLE: u64 = 0b11;
        const LARGE: u64 = 1 << 7;
        let base = self.reserve_low(self.request.kernel.name, 6 * 4096, BOOT_DATA_START)?;
        let mut tables = vec![0u64; 6 * 512];
        tables[0] = (base + 0x1000) | PRESENT_WRITABLE;
        for directory in 0..4 {
            tables[512 + directory] =
                (base + 0x2000 + directory as u64 * 0x1000) | PRESENT_WRITABLE;
        }
        for (page, entry) in tables[1024..].iter_mut().enumerate() {
            *entry = (page as u64) << 21 | LARGE | PRESENT_WRITABLE;
        }
        let bytes: Vec<u8> = tables.into_iter().flat_map(u64::to_le_bytes).collect();
        self.write(base, &bytes)?;
        Ok(base)
    }
}
