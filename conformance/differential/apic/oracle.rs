//! Our APICs and KVM's, side by side.

use arch::apic::{InterruptMessage, LocalVector, Mode, Register, Scope};
use arch::identity::{ApicId, CpuIndex, Vector};
use arch::time::Picoseconds;
use bus::Effect;
use interrupt::{Acceptance, LocalApic, LocalApicModel, route};
use kvm_bindings::{
    KVM_CAP_X2APIC_API, KVM_MAX_CPUID_ENTRIES, Msrs, kvm_enable_cap, kvm_lapic_state, kvm_msi,
    kvm_msr_entry,
};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

pub const NOW: Picoseconds = Picoseconds::ZERO;
const XAPIC: u64 = 0xFEE0_0800;
const X2APIC: u64 = 0xFEE0_0C00;

/// Identifiers have 32 bits in KVM's interfaces.
pub const WIDE_IDS: u64 = 1;
/// ... and FFh is not a broadcast to APICs in x2APIC mode.
pub const WIDE_BROADCAST: u64 = 2;

/// The two sets of local APICs.
pub struct Pair {
    pub vm: VmFd,
    pub ours: Vec<LocalApic>,
    pub theirs: Vec<VcpuFd>,
}

/// Registers that both sides keep on the page in all modes.
const STATE: [Register; 15] = [
    Register::TaskPriority,
    Register::SpuriousVector,
    Register::ErrorStatus,
    Register::Command,
    Register::LocalVector(LocalVector::Timer),
    Register::LocalVector(LocalVector::Thermal),
    Register::LocalVector(LocalVector::Performance),
    Register::LocalVector(LocalVector::Lint0),
    Register::LocalVector(LocalVector::Lint1),
    Register::LocalVector(LocalVector::Error),
    Register::InitialCount,
    Register::DivideConfiguration,
    Register::Id,
    Register::Version,
    Register::LogicalDestination,
];

impl Pair {
    /// One APIC per identifier on each side, in xAPIC mode and enabled. `None`, with a notice,
    /// where KVM cannot be had.
    pub fn new(ids: &[u32], x2apic_api: u64) -> Option<Self> {
        match Self::open(ids, x2apic_api) {
            Ok(pair) => Some(pair),
            Err(error) => {
                eprintln!("skipped: KVM's local APIC is not available: {error}");
                None
            }
        }
    }

    fn open(ids: &[u32], x2apic_api: u64) -> Result<Self, kvm_ioctls::Error> {
        let kvm = Kvm::new()?;
        let vm = kvm.create_vm()?;
        let mut cap = kvm_enable_cap { cap: KVM_CAP_X2APIC_API, ..Default::default() };
        cap.args[0] = x2apic_api;
        vm.enable_cap(&cap)?;
        vm.create_irq_chip()?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?;
        let mut theirs = Vec::new();
        for id in ids {
            let vcpu = vm.create_vcpu(u64::from(*id))?;
            vcpu.set_cpuid2(&cpuid)?;
            theirs.push(vcpu);
        }
        let ours = ids.iter().map(|id| LocalApic::new(model(*id))).collect();
        let mut pair = Self { vm, ours, theirs };
        for cpu in 0..ids.len() {
            pair.write(cpu, Register::SpuriousVector, 0x1FF);
        }
        Ok(pair)
    }

    pub fn cpus(&self) -> std::ops::Range<usize> {
        0..self.ours.len()
    }

    /// Writes IA32_APIC_BASE on both sides.
    pub fn enter_x2apic_mode(&mut self, cpu: usize) {
        self.ours[cpu].write_base(X2APIC, NOW, 46).expect("a legal transition");
        for base in [XAPIC, X2APIC] {
            assert!(self.set_msr(cpu, 0x1B, base), "KVM refuses {base:x}");
        }
    }

    /// Writes a register on both sides and leaves both pages equal. In xAPIC mode KVM's page is
    /// replaced as a whole, since nothing but a running guest can write single registers.
    pub fn write(&mut self, cpu: usize, register: Register, value: u32) {
        if self.ours[cpu].is_x2apic() {
            let msr = register.msr().expect("an MSR");
            let mut out = Vec::new();
            self.ours[cpu].write_msr(msr, value.into(), NOW, &mut out).expect("a legal write");
            assert!(self.set_msr(cpu, msr, value.into()));
        } else {
            self.ours[cpu].write_mmio(register.offset(), 4, value.into(), NOW, &mut Vec::new());
            self.copy_to_kvm(cpu);
        }
    }

    /// Gives KVM's APIC the registers of ours.
    pub fn copy_to_kvm(&mut self, cpu: usize) {
        let mut page = self.theirs[cpu].get_lapic().expect("KVM_GET_LAPIC");
        for register in vectors().chain(STATE) {
            set(&mut page, register, self.read(cpu, register));
        }
        if self.ours[cpu].mode() == Mode::XApic {
            let format = self.read(cpu, Register::DestinationFormat);
            set(&mut page, Register::DestinationFormat, format);
            set(&mut page, Register::CommandHigh, self.read(cpu, Register::CommandHigh));
        }
        self.theirs[cpu].set_lapic(&page).expect("KVM_SET_LAPIC");
    }

    /// Reads a register of ours.
    pub fn read(&mut self, cpu: usize, register: Register) -> u32 {
        let apic = &mut self.ours[cpu];
        match apic.mode() {
            Mode::X2Apic => register
                .msr()
                .and_then(|msr| apic.read_msr(msr, NOW).ok())
                .map_or(0, |value| value as u32),
            _ => apic.read_mmio(register.offset(), 4, NOW) as u32,
        }
    }

    /// Reads a register of KVM's.
    pub fn read_kvm(&self, cpu: usize, register: Register) -> u32 {
        get(&self.theirs[cpu].get_lapic().expect("KVM_GET_LAPIC"), register)
    }

    /// Whether KVM takes the write.
    pub fn set_msr(&self, cpu: usize, index: u32, data: u64) -> bool {
        let entry = kvm_msr_entry { index, data, ..Default::default() };
        let msrs = Msrs::from_entries(&[entry]).expect("one entry");
        self.theirs[cpu].set_msrs(&msrs).expect("KVM_SET_MSRS") == 1
    }

    /// What KVM reads, if it does not refuse.
    pub fn msr(&self, cpu: usize, index: u32) -> Option<u64> {
        let entry = kvm_msr_entry { index, ..Default::default() };
        let mut msrs = Msrs::from_entries(&[entry]).expect("one entry");
        let read = self.theirs[cpu].get_msrs(&mut msrs).expect("KVM_GET_MSRS");
        (read == 1).then(|| msrs.as_slice()[0].data)
    }

    /// KVM's answer to a device's message: how many APICs took it.
    pub fn signal(&self, address: u64, data: u32) -> usize {
        let msi = kvm_msi {
            address_lo: address as u32,
            address_hi: (address >> 32) as u32,
            data,
            ..Default::default()
        };
        // KVM answers -1 for a message without any target, which the call reports as EPERM.
        self.vm.signal_msi(msi).map_or(0, |count| usize::try_from(count).unwrap_or(0))
    }

    /// Delivers to ours as a board does: how many took it.
    pub fn deliver(
        &mut self,
        message: &InterruptMessage,
        scope: Scope,
        sender: Option<usize>,
    ) -> usize {
        let mut into = Vec::new();
        let sender = sender.map(|sender| CpuIndex(sender as u16));
        route::targets(message, scope, sender, &self.ours, &mut into);
        into.iter()
            .filter(|cpu| self.ours[usize::from(cpu.0)].accept(message) != Acceptance::Ignored)
            .count()
    }

    /// Delivers every interprocessor interrupt of `effects` to ours.
    pub fn deliver_all(&mut self, effects: &[Effect], sender: usize) {
        for effect in effects {
            if let Effect::Interrupt { message, scope } = effect {
                self.deliver(message, *scope, Some(sender));
            }
        }
    }

    /// Asserts that IRR, ISR and TMR agree everywhere, then forgets all requests on both sides.
    pub fn compare_vectors(&mut self, what: &str) {
        for cpu in self.cpus() {
            let page = self.theirs[cpu].get_lapic().expect("KVM_GET_LAPIC");
            for register in vectors() {
                let (ours, theirs) = (self.read(cpu, register), get(&page, register));
                assert_eq!(ours, theirs, "{register:?} of processor {cpu} (ours, KVM's): {what}");
            }
        }
    }

    /// Takes and ends everything on ours and copies the empty sets to KVM.
    pub fn forget_requests(&mut self) {
        for cpu in self.cpus() {
            let apic = &mut self.ours[cpu];
            let priority = apic.task_priority();
            apic.set_task_priority(0);
            while apic.pending().is_some() {
                apic.acknowledge();
                let end = Register::EndOfInterrupt;
                let mut out = Vec::new();
                if apic.is_x2apic() {
                    let msr = end.msr().expect("EOI has an MSR");
                    apic.write_msr(msr, 0, NOW, &mut out).expect("EOI takes zero");
                } else {
                    apic.write_mmio(end.offset(), 4, 0, NOW, &mut out);
                }
            }
            apic.set_task_priority(priority);
            self.copy_to_kvm(cpu);
        }
    }
}

/// What KVM's model is most like: no extended space, no CMCI, level-triggered IPIs, and no
/// suppression of the EOI broadcast beside its in-kernel I/O APIC, which has no EOI register.
pub fn model(id: u32) -> LocalApicModel {
    LocalApicModel {
        version: 0x14,
        last_local_vector: 5,
        id_is_writable: true,
        has_level_triggered_ipis: true,
        supports_eoi_broadcast_suppression: false,
        ..LocalApicModel::intel(ApicId(id), id == 0)
    }
}

/// The registers that hold IRR, ISR and TMR.
pub fn vectors() -> impl Iterator<Item = Register> {
    (0..8).flat_map(|index| {
        [Register::Request(index), Register::InService(index), Register::TriggerMode(index)]
    })
}

pub fn get(page: &kvm_lapic_state, register: Register) -> u32 {
    let offset = usize::from(register.offset());
    u32::from_le_bytes(core::array::from_fn(|byte| page.regs[offset + byte] as u8))
}

fn set(page: &mut kvm_lapic_state, register: Register, value: u32) {
    let offset = usize::from(register.offset());
    for (byte, value) in value.to_le_bytes().into_iter().enumerate() {
        page.regs[offset + byte] = value as _;
    }
}

/// A vector for the `n`th message, so that neighbours differ.
pub fn vector(n: u32) -> Vector {
    Vector(16 + (n % 240) as u8)
}
