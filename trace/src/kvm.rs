//! The events of KVM's tracepoints, whatever file or ring they were read from.
//!
//! One variant per tracepoint that tells something about exits or interrupts; fields keep the
//! meaning the kernel gives them and are decoded no further, so that a reader decides nothing.
//! Leaves out tracepoints of paging and emulation, which are read past.

use serde::{Deserialize, Serialize};

/// Who saw an event, where and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Nanoseconds of the recording's clock.
    pub time_ns: u64,
    /// Thread group, which stands for the virtual machine; 0 where the recording does not say.
    pub process: u32,
    /// The thread, which stands for the virtual CPU.
    pub thread: u32,
    /// The host CPU.
    pub cpu: u32,
}

/// What a memory-mapped access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MmioKind {
    /// The read starts; its value is not known yet.
    UnsatisfiedRead,
    Read,
    Write,
}

impl MmioKind {
    /// Decodes `kvm_mmio`'s type field.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::UnsatisfiedRead),
            1 => Some(Self::Read),
            2 => Some(Self::Write),
            _ => None,
        }
    }
}

/// What `kvm_exit` tells; `isa` as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exit {
    pub isa: u32,
    pub reason: u32,
    pub info1: u64,
    pub info2: u64,
    pub interruption: u32,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KvmEvent {
    /// `kvm_entry`: the guest runs from here on.
    Entry { vcpu: u32 },
    /// `kvm_exit`: the guest stopped.
    Exit(Exit),
    /// `kvm_mmio`
    Mmio { kind: MmioKind, address: u64, value: u64 },
    /// `kvm_pio`
    PortIo { is_write: bool, port: u32 },
    /// `kvm_msr`
    Msr { is_write: bool, index: u32, value: u64 },
    /// `kvm_apic`: the software APIC's register at this offset was accessed.
    Apic { is_write: bool, register: u32, value: u64 },
    /// `kvm_hypercall`, or `kvm_hv_hypercall` where it is one of Hyper-V's.
    Hypercall { number: u64, is_hyperv: bool },
    /// `kvm_apicv_inhibit_changed`: the mask is the one after the change.
    Inhibit { is_set: bool, reason: u32, mask: u64 },
    /// `kvm_avic_incomplete_ipi`
    IncompleteIpi { vcpu: u32, icr: u64, cause: u32, index: u32 },
    /// `kvm_avic_unaccelerated_access`
    UnacceleratedAccess { vcpu: u32, register: u32, is_trap: bool, is_write: bool, vector: u32 },
    /// `kvm_avic_ga_log`
    GuestLog { vm: u32, vcpu: u32 },
    /// `kvm_avic_doorbell`
    Doorbell { vcpu: u32, apic: u32 },
    /// `kvm_avic_kick_vcpu_slowpath`
    KickSlowPath { icr: u64, index: u32 },
    /// `kvm_inj_virq`: KVM injects an interrupt at the next entry.
    InjectInterrupt { vector: u32, is_soft: bool, is_reinjected: bool },
    /// `kvm_apic_accept_irq`, or `kvm_apicv_accept_irq` where it was posted to hardware.
    AcceptInterrupt { apic: u32, vector: u8, delivery_mode: u8, is_level: bool, is_posted: bool },
    /// `kvm_apic_ipi`
    SendIpi { icr_low: u32, destination: u32 },
    /// `kvm_msi_set_irq`
    Msi { address: u64, data: u64 },
    /// `kvm_set_irq`: a line of the interrupt controllers moves.
    Line { gsi: u32, level: i32 },
    /// `kvm_eoi` and `kvm_pv_eoi`
    EndOfInterrupt { apic: u32, vector: i32, is_paravirtual: bool },
    /// `kvm_pi_irte_update`: a device's interrupt is (or stops being) posted.
    PostedRoute { host_irq: u32, vcpu: u32, vector: u32, is_set: bool },
    /// `kvm_userspace_exit`
    UserspaceExit { reason: u32, errno: i32 },
    /// `kvm_vcpu_wakeup`: how long a halted vCPU was gone.
    Wakeup { halted_ns: u64, has_waited: bool },
    /// `kvm_nested_vmexit`: the guest's guest exited, on its way to KVM.
    NestedExit { reason: u32 },
}

/// What an access inside an exit was, before it is made an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccessKind {
    /// Nothing was recorded between the exit and the entry.
    #[default]
    None,
    Msr,
    PortIo,
    Mmio,
}

/// The one access that was recorded inside an exit, its fields as the kernel wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access {
    pub kind: AccessKind,
    pub time_ns: u64,
    /// Whether it writes; of memory-mapped accesses, the kind of [`MmioKind`].
    pub direction: u32,
    /// MSR, port or address.
    pub address: u64,
    pub value: u64,
}

impl Access {
    /// `None` if there was none or no kernel writes such a one.
    pub const fn event(&self) -> Option<KvmEvent> {
        let is_write = self.direction != 0;
        Some(match self.kind {
            AccessKind::None => return None,
            AccessKind::Msr => {
                KvmEvent::Msr { is_write, index: self.address as u32, value: self.value }
            }
            AccessKind::PortIo => KvmEvent::PortIo { is_write, port: self.address as u32 },
            AccessKind::Mmio => match MmioKind::from_number(self.direction) {
                Some(kind) => KvmEvent::Mmio { kind, address: self.address, value: self.value },
                None => return None,
            },
        })
    }
}

/// An exit and at most one access in it, of one thread on one CPU, that follow each other in a
/// recording. Nearly all of a long recording is made of these and of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Of the exit.
    pub stamp: Stamp,
    pub exit: Exit,
    pub access: Access,
}

impl Departure {
    /// The same as single events, in order.
    pub fn events(&self) -> impl Iterator<Item = (Stamp, KvmEvent)> {
        let exit = (self.stamp, KvmEvent::Exit(self.exit));
        let at = Stamp { time_ns: self.access.time_ns, ..self.stamp };
        let access = self.access.event().map(|event| (at, event));
        [Some(exit), access].into_iter().flatten()
    }
}
