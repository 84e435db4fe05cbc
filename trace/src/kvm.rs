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
    /// A read, with the value that the guest gets.
    Read,
    /// A write, with the value that the guest wrote.
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
    /// 1 is VMX, 2 is SVM: see [`super::exit_reason::Isa`].
    pub isa: u32,
    /// In VMX all 32 bits of the exit-reason field, in SVM the low half of EXITCODE.
    pub reason: u32,
    /// The exit qualification; EXITINFO1.
    pub info1: u64,
    /// The IDT-vectoring information; EXITINFO2.
    pub info2: u64,
    /// The VM-exit interruption information; the low half of EXITINTINFO.
    pub interruption: u32,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KvmEvent {
    /// `kvm_entry`: the guest runs from here on.
    Entry {
        /// KVM's number of it.
        vcpu: u32,
    },
    /// `kvm_exit`: the guest stopped.
    Exit(Exit),
    /// `kvm_mmio`
    Mmio {
        /// How far the access has come.
        kind: MmioKind,
        /// Guest-physical.
        address: u64,
        /// What was read or written; 0 of a read that starts.
        value: u64,
    },
    /// `kvm_pio`
    PortIo {
        /// OUT or OUTS, not IN or INS.
        is_write: bool,
        /// I/O address.
        port: u32,
    },
    /// `kvm_msr`
    Msr {
        /// WRMSR, not RDMSR.
        is_write: bool,
        /// What ECX held.
        index: u32,
        /// EDX:EAX.
        value: u64,
    },
    /// `kvm_apic`: the software APIC's register at this offset was accessed.
    Apic {
        /// Not a read.
        is_write: bool,
        /// Offset on the register page, also of an access by MSR.
        register: u32,
        /// What was read or written.
        value: u64,
    },
    /// `kvm_hypercall`, or `kvm_hv_hypercall` where it is one of Hyper-V's.
    Hypercall {
        /// What the guest asks for, by its hypervisor's numbers.
        number: u64,
        /// The guest speaks Hyper-V's interface.
        is_hyperv: bool,
    },
    /// `kvm_apicv_inhibit_changed`: the mask is the one after the change.
    Inhibit {
        /// The reason was set, and not cleared.
        is_set: bool,
        /// A bit number that only the kernel's own [`super::inhibit::Numbering`] explains.
        reason: u32,
        /// A bit for each reason that holds.
        mask: u64,
    },
    /// `kvm_avic_incomplete_ipi`
    IncompleteIpi {
        /// The sender, by KVM's number.
        vcpu: u32,
        /// What the sender wrote, all 64 bits.
        icr: u64,
        /// [`arch::svm::avic::IncompleteIpiReason`], as its bits.
        cause: u32,
        /// Into the table of APIC IDs, of the target at fault.
        index: u32,
    },
    /// `kvm_avic_unaccelerated_access`
    UnacceleratedAccess {
        /// Whose, by KVM's number.
        vcpu: u32,
        /// Offset on the register page.
        register: u32,
        /// The access was made before the exit; clear, it is to be made again or emulated.
        is_trap: bool,
        /// Not a read.
        is_write: bool,
        /// Of a level-triggered EOI, else 0.
        vector: u32,
    },
    /// `kvm_avic_ga_log`
    GuestLog {
        /// AVIC's number of the virtual machine.
        vm: u32,
        /// Whom the IOMMU found not running, by KVM's number.
        vcpu: u32,
    },
    /// `kvm_avic_doorbell`
    Doorbell {
        /// Who is to look at its IRR, by KVM's number.
        vcpu: u32,
        /// APIC ID of the host CPU that it runs on.
        apic: u32,
    },
    /// `kvm_avic_kick_vcpu_slowpath`
    KickSlowPath {
        /// What the sender wrote, all 64 bits.
        icr: u64,
        /// Of the target that AVIC reported.
        index: u32,
    },
    /// `kvm_inj_virq`: KVM injects an interrupt at the next entry.
    InjectInterrupt {
        /// The one injected.
        vector: u32,
        /// INT n of the guest itself, not an interrupt.
        is_soft: bool,
        /// Its delivery was cut off by an exit before.
        is_reinjected: bool,
    },
    /// `kvm_apic_accept_irq`, or `kvm_apicv_accept_irq` where it was posted to hardware.
    AcceptInterrupt {
        /// The receiver's APIC ID.
        apic: u32,
        /// The one to be requested.
        vector: u8,
        /// The three bits that a message has.
        delivery_mode: u8,
        /// Trigger mode: level, not edge.
        is_level: bool,
        /// By AVIC, or through a posted-interrupt descriptor.
        is_posted: bool,
    },
    /// `kvm_apic_ipi`
    SendIpi {
        /// The ICR's low dword.
        icr_low: u32,
        /// The ICR's destination.
        destination: u32,
    },
    /// `kvm_msi_set_irq`
    Msi {
        /// Of the message.
        address: u64,
        /// Of the message.
        data: u64,
    },
    /// `kvm_set_irq`: a line of the interrupt controllers moves.
    Line {
        /// Global system interrupt.
        gsi: u32,
        /// 1 asserted, 0 not.
        level: i32,
    },
    /// `kvm_eoi` and `kvm_pv_eoi`
    EndOfInterrupt {
        /// Whose.
        apic: u32,
        /// -1 if none was in service.
        vector: i32,
        /// By a word of memory that guest and KVM share, with no exit.
        is_paravirtual: bool,
    },
    /// `kvm_pi_irte_update`: a device's interrupt is (or stops being) posted.
    PostedRoute {
        /// The host's number of the device's interrupt.
        host_irq: u32,
        /// Who receives it, by KVM's number.
        vcpu: u32,
        /// In the guest.
        vector: u32,
        /// Posted from now on, and not remapped to the host.
        is_set: bool,
    },
    /// `kvm_userspace_exit`
    UserspaceExit {
        /// `KVM_EXIT_…`, if `errno` is not negative.
        reason: u32,
        /// What the ioctl returns, negative where it failed.
        errno: i32,
    },
    /// `kvm_vcpu_wakeup`: how long a halted vCPU was gone.
    Wakeup {
        /// Nanoseconds, with what was polled.
        halted_ns: u64,
        /// It slept; clear, polling was enough.
        has_waited: bool,
    },
    /// `kvm_nested_vmexit`: the guest's guest exited, on its way to KVM.
    NestedExit {
        /// As [`Exit::reason`].
        reason: u32,
    },
}

/// What an access inside an exit was, before it is made an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccessKind {
    /// Nothing was recorded between the exit and the entry.
    #[default]
    None,
    /// `kvm_msr`
    Msr,
    /// `kvm_pio`
    PortIo,
    /// `kvm_mmio`
    Mmio,
}

/// The one access that was recorded inside an exit, its fields as the kernel wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// Which tracepoint it was.
    pub kind: AccessKind,
    /// Of the same clock as the exit's.
    pub time_ns: u64,
    /// Whether it writes; of memory-mapped accesses, the kind of [`MmioKind`].
    pub direction: u32,
    /// MSR, port or address.
    pub address: u64,
    /// What was read or written; 0 of ports.
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
    /// Why the guest stopped.
    pub exit: Exit,
    /// [`AccessKind::None`] if there was none.
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
