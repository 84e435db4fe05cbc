//! MSRs: which ones the guest reaches by itself, and what the others do.
//! [APM2 "MSR Intercepts"] [APM2 "IOIO Intercepts"]
//!
//! With x2AVIC, reads of every register of the APIC but the current count go to the processor, and so
//! do the four writes that it accelerates; everything else is intercepted, which the permission map
//! decides before AVIC does.

use crate::svm::control;
use crate::vapic;
use crate::vcpu::{Owned, Vcpu};
use arch::apic::{ApicBase, MSR_FIRST, MSR_LAST, Mode};
use arch::control::Efer;
use arch::msr;
use arch::svm::avic::{self, register};
use arch::svm::msr::permission_bit;
use arch::svm::vmcb::save;
use core::sync::atomic::{AtomicU8, Ordering};
use runtime::instruction;

const MSR_MAP_SIZE: usize = arch::svm::msr::PERMISSION_MAP_SIZE as usize;
const PORT_MAP_SIZE: usize = arch::svm::msr::IO_PERMISSION_MAP_SIZE as usize;

#[repr(C, align(4096))]
struct Map<const SIZE: usize>([AtomicU8; SIZE]);

static SOFTWARE: Map<MSR_MAP_SIZE> = Map([const { AtomicU8::new(0) }; MSR_MAP_SIZE]);
static X2AVIC: Map<MSR_MAP_SIZE> = Map([const { AtomicU8::new(0) }; MSR_MAP_SIZE]);
static PORTS: Map<PORT_MAP_SIZE> = Map([const { AtomicU8::new(0) }; PORT_MAP_SIZE]);

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

pub fn build_maps() {
    PORTS.intercept_all();
    SOFTWARE.intercept_all();
    X2AVIC.intercept_all();
    for map in [&SOFTWARE, &X2AVIC] {
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
        X2AVIC.open(msr, read, accelerated_writes.contains(&offset));
    }
}

pub fn permission_map(is_x2avic: bool) -> u64 {
    core::ptr::from_ref(if is_x2avic { &X2AVIC } else { &SOFTWARE }) as u64
}

pub fn port_map() -> u64 {
    core::ptr::from_ref(&PORTS) as u64
}

/// The guest's access must raise #GP.
pub struct Refused;

/// What a RDMSR that exited reads.
pub fn read(vcpu: &Vcpu, owned: &mut Owned, msr: u32) -> Result<u64, Refused> {
    match msr {
        msr::TSC => Ok(instruction::time_stamp()),
        ApicBase::MSR => Ok(owned.apic_base.into_bits()),
        // The guest does not see that it is one.
        msr::EFER => Ok(owned.vmcb().get(save::EFER) & !Efer::SVM.bits()),
        MSR_FIRST..=MSR_LAST => {
            let access = avic::msr_access(msr).filter(|access| access.is_readable);
            if owned.apic_base.mode() != Mode::X2Apic || access.is_none() {
                return Err(Refused);
            }
            Ok(vapic::read_msr(vcpu, owned, ((msr - MSR_FIRST) << 4) as u16))
        }
        _ => Err(Refused),
    }
}

/// What a WRMSR that exited does.
pub fn write(vcpu: &Vcpu, owned: &mut Owned, msr: u32, value: u64) -> Result<(), Refused> {
    match msr {
        ApicBase::MSR => write_apic_base(vcpu, owned, ApicBase::from_bits(value)),
        msr::EFER => write_efer(owned, Efer::from_bits_retain(value)),
        MSR_FIRST..=MSR_LAST => {
            let writable = avic::msr_access(msr).and_then(|access| access.writable);
            if owned.apic_base.mode() != Mode::X2Apic
                || writable.is_none_or(|bits| value & !bits != 0)
            {
                return Err(Refused);
            }
            vapic::write_msr(vcpu, owned, ((msr - MSR_FIRST) << 4) as u16, value);
            Ok(())
        }
        _ => Err(Refused),
    }
}

/// SVME stays set, as VMRUN demands; LMA is the processor's.
fn write_efer(owned: &mut Owned, value: Efer) -> Result<(), Refused> {
    let known = Efer::SYSCALL | Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE | Efer::NO_EXECUTE;
    if !known.contains(value) {
        return Err(Refused);
    }
    let mut vmcb = owned.vmcb();
    let active = Efer::from_bits_retain(vmcb.get(save::EFER)) & Efer::LONG_MODE_ACTIVE;
    let value = (value - Efer::LONG_MODE_ACTIVE) | active | Efer::SVM;
    vmcb.set(save::EFER, value.bits());
    Ok(())
}

/// The page stays where it is; the mode may change as the manual's diagram says.
fn write_apic_base(vcpu: &Vcpu, owned: &mut Owned, value: ApicBase) -> Result<(), Refused> {
    let (old, new) = (owned.apic_base.mode(), value.mode());
    let allowed = crate::machine::has_x2apic() || !value.is_x2apic();
    if !old.may_become(new) || !allowed || value.address() != ApicBase::RESET_ADDRESS {
        return Err(Refused);
    }
    owned.apic_base = value.with_is_bootstrap(owned.apic_base.is_bootstrap());
    if old != new {
        vapic::change_mode(vcpu, owned, new);
        control::update_acceleration(vcpu, owned);
        vcpu.update_residence(owned);
    }
    Ok(())
}
