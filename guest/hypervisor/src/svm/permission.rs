//! Which MSRs and ports the guest reaches by itself.
//! [APM2 "MSR Intercepts"] [APM2 "IOIO Intercepts"]
//!
//! With x2AVIC, reads of every register of the APIC but the current count go to the processor, and
//! so do the four writes that it accelerates; everything else is intercepted, which the permission
//! map decides before AVIC does.

use arch::apic::{MSR_FIRST, MSR_LAST};
use arch::msr;
use arch::svm::avic::{self, register};
use arch::svm::msr::permission_bit;
use core::sync::atomic::{AtomicU8, Ordering};

const MSR_MAP_SIZE: usize = arch::svm::msr::PERMISSION_MAP_SIZE as usize;
const PORT_MAP_SIZE: usize = arch::svm::msr::IO_PERMISSION_MAP_SIZE as usize;

#[repr(C, align(4096))]
struct Map<const SIZE: usize>([AtomicU8; SIZE]);

pub struct PermissionMaps {
    /// For a guest whose APIC is software's.
    software: Map<MSR_MAP_SIZE>,
    x2avic: Map<MSR_MAP_SIZE>,
    ports: Map<PORT_MAP_SIZE>,
}

/// Exchanged by VMLOAD and VMSAVE, so that the guest may write them.
const EXCHANGED: [u32; 11] = [
    msr::FS_BASE,
    msr::GS_BASE,
    msr::KERNEL_GS_BASE,
    msr::STAR,
    msr::LSTAR,
    msr::CSTAR,
    msr::SFMASK,
    msr::SYSENTER_CS,
    msr::SYSENTER_ESP,
    msr::SYSENTER_EIP,
    msr::PAT,
];

impl<const SIZE: usize> Map<SIZE> {
    const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; SIZE])
    }

    /// Set bits intercept.
    fn intercept_all(&self) {
        self.0.iter().for_each(|byte| byte.store(0xFF, Ordering::Relaxed));
    }
}

impl Map<MSR_MAP_SIZE> {
    fn open(&self, msr: u32, read: bool, write: bool) {
        let Some(bit) = permission_bit(msr) else { return };
        let mask = (u8::from(read) | u8::from(write) << 1) << (bit % 8);
        self.0[bit as usize / 8].fetch_and(!mask, Ordering::Relaxed);
    }
}

impl PermissionMaps {
    pub const fn new() -> Self {
        Self { software: Map::new(), x2avic: Map::new(), ports: Map::new() }
    }

    /// All ports are intercepted, and all MSRs but those said above.
    pub fn build(&self) {
        self.ports.intercept_all();
        for map in [&self.software, &self.x2avic] {
            map.intercept_all();
            EXCHANGED.iter().for_each(|&msr| map.open(msr, true, true));
        }
        let accelerated_writes = [
            register::TASK_PRIORITY,
            register::END_OF_INTERRUPT,
            register::INTERRUPT_COMMAND_LOW,
            register::SELF_IPI,
        ];
        for msr in MSR_FIRST..=MSR_LAST {
            let offset = ((msr - MSR_FIRST) << 4) as u16;
            let is_readable = avic::msr_access(msr).is_some_and(|access| access.is_readable);
            let read = is_readable && offset != register::TIMER_CURRENT_COUNT;
            self.x2avic.open(msr, read, accelerated_writes.contains(&offset));
        }
    }

    pub fn msrs(&self, is_x2avic: bool) -> u64 {
        core::ptr::from_ref(if is_x2avic { &self.x2avic } else { &self.software }) as u64
    }

    pub fn ports(&self) -> u64 {
        core::ptr::from_ref(&self.ports) as u64
    }
}
