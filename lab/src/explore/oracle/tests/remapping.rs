//! Who would interrupt a vCPU that sleeps as if it ran, by the tables in memory.

use super::super::*;
use arch::address::{Linear, SystemPhysical};
use arch::amd_vi::register as amd_register;
use arch::amd_vi::register::DeviceTableBase;
use arch::amd_vi::{Control, GuestEntry, InterruptControl, InterruptHalf};
use arch::identity::CpuIndex;
use arch::svm::vmcb::{SIZE, Vmcb, control, save};
use arch::vmx::apicv::{NotificationControl, POSTED_CONTROL_OFFSET};
use arch::vmx::control::{PrimaryControls, TertiaryControls};
use arch::vmx::field;
use arch::vt_d::register as intel_register;
use arch::vt_d::register::RemappingTableAddress;
use arch::vt_d::{GlobalCommand, PostedEntry};
use board::topology::Topology;
use board::{Configuration, server_iommu};
use cpu::vmx::{VMCS_SIZE, Vmcs};
use cpu::{Activity, CpuModel};

const BLOCK: SystemPhysical = SystemPhysical(0x10_0000);
const PAGE: SystemPhysical = SystemPhysical(0x10_1000);
const DESCRIPTOR: SystemPhysical = SystemPhysical(0x10_2000);
const ENTRIES: SystemPhysical = SystemPhysical(0x10_3000);
const FUNCTIONS: SystemPhysical = SystemPhysical(0x20_0000);
const FUNCTION: RequesterId = RequesterId(0xE8);
/// Of the function's message.
const INDEX: u32 = 5;
/// Of notifications, and of the hypervisor's.
const OWN: u8 = 0xF2;
const WAKE_UP: u8 = 0xF1;
const HALT: u32 = 12;

fn machine(model: &str) -> Machine {
    let model = CpuModel::named(model).expect("a model that comes with the machine");
    let topology = Topology::of_cores(2).expect("two processors");
    let iommu = server_iommu(&model);
    let mut machine =
        Machine::new(&Configuration { iommu, ..Configuration::of(model, topology, 16 << 20) })
            .expect("a machine");
    machine.state.cpus[1].pending.set_activity(Activity::Halted);
    machine
}

fn write(machine: &mut Machine, offset: u64, size: u8, value: u64) {
    let iommu = machine.state.wiring.iommu.as_mut().expect("one that servers have");
    let _ = iommu.write(&mut machine.memory, offset, size, value);
}

/// What is raised of a vCPU that sleeps and has nothing to take, after a message of the function.
fn judge(mut machine: Machine, halt: Event, address: u64, data: u32) -> Vec<(Rule, Way)> {
    let (cpu, at) = (CpuIndex(1), Picoseconds(1));
    let (vcpu, rip, address) = (VirtualCpu(BLOCK), Linear(0), Device(address));
    let message = Event::MessageSignalled { requester: FUNCTION, address, data };
    let mut oracle = Oracle::default();
    let entry = Event::Entry { vcpu, injected: 0, rip };
    [message, entry, halt].into_iter().for_each(|event| oracle.observe(&Record { at, cpu, event }));
    for look in 1..=100 {
        machine.state.now = Picoseconds(look * LOOK.0);
        oracle.look(&machine);
    }
    oracle.take().into_iter().map(|alarm| (alarm.rule, alarm.way)).collect()
}

/// On AMD's, with this remapping entry.
fn judge_entry(entry: GuestEntry, flags: u64) -> Vec<(Rule, Way)> {
    let mut machine = machine("zen4");
    let mut bytes = vec![0; SIZE];
    let mut vmcb = Vmcb::new(&mut bytes[..]).expect("as many bytes as it has");
    vmcb.set(control::AVIC_BACKING_PAGE, PAGE.0);
    vmcb.set(save::RFLAGS, flags);
    machine.memory.write(BLOCK, &bytes).expect("RAM");
    let half = InterruptHalf::new()
        .with_is_valid(true)
        .with_table_length(9)
        .with_table_line(ENTRIES.0 >> 6)
        .with_control(InterruptControl::Remap);
    let at = FUNCTIONS.offset(u64::from(FUNCTION.0) * 32 + 16);
    machine.memory.write(at, &half.into_bits().to_le_bytes()).expect("RAM");
    let at = ENTRIES.offset(u64::from(INDEX) * 16);
    machine.memory.write(at, &entry.into_bits().to_le_bytes()).expect("RAM");
    let base = DeviceTableBase::new().with_frame(FUNCTIONS.0 >> 12).with_last_page(1);
    write(&mut machine, amd_register::DEVICE_TABLE_BASE, 8, base.into_bits());
    let on = Control::new().with_is_enabled(true).with_has_wide_remapping_entries(true);
    let on = on.with_guest_mode(Control::VIRTUAL_APIC);
    write(&mut machine, amd_register::CONTROL, 8, on.into_bits());
    let (vcpu, rip, code) = (VirtualCpu(BLOCK), Linear(0), ExitCode::Hlt);
    let halt = Event::SvmExit { vcpu, code, info1: 0, info2: 0, interrupt_info: 0, rip };
    judge(machine, halt, 0xFEE0_0000, INDEX)
}

#[test]
fn no_remapping_entry_says_of_a_vcpu_that_sleeps_that_it_runs() {
    let right = GuestEntry::new().with_is_enabled(true).with_is_guest(true).with_backing_page(PAGE);
    let wrong = right.with_is_running(true);
    assert_eq!(judge_entry(wrong, 0x202), [(Rule::SaidToRun, Way::Device)], "once");
    for (what, entry) in [
        ("as it is", right.with_logs(true)),
        ("it posts to another", wrong.with_backing_page(DESCRIPTOR)),
        ("it posts nothing", wrong.with_is_guest(false)),
        ("it is off", wrong.with_is_enabled(false)),
    ] {
        assert_eq!(judge_entry(entry, 0x202), [], "{what}");
    }
    assert_eq!(judge_entry(wrong, 2), [], "nothing would wake it");
}

/// On Intel's, with this vector of notifications, and posting or not by a function's entry and by
/// its guest's other processors.
fn judge_descriptor(vector: u8, is_posted: bool, virtualizes_ipis: bool) -> Vec<(Rule, Way)> {
    let mut machine = machine("sapphire-rapids");
    let mut bytes = vec![0; VMCS_SIZE];
    let mut vmcs = Vmcs::new(&mut bytes[..]).expect("as many bytes as it has");
    vmcs.set(field::control::VIRTUAL_APIC_ADDRESS, PAGE.0);
    vmcs.set(field::control::POSTED_INTERRUPT_DESCRIPTOR, DESCRIPTOR.0);
    vmcs.set(field::control::POSTED_INTERRUPT_VECTOR, OWN.into());
    vmcs.set(field::guest::RFLAGS, 0x202);
    if virtualizes_ipis {
        vmcs.set(field::control::PRIMARY, PrimaryControls::TERTIARY_CONTROLS.bits().into());
        vmcs.set(field::control::TERTIARY, TertiaryControls::IPI_VIRTUALIZATION.bits());
    }
    machine.memory.write(BLOCK, &bytes).expect("RAM");
    let control = NotificationControl::new().with_vector(vector).into_bits();
    let at = DESCRIPTOR.offset(POSTED_CONTROL_OFFSET);
    machine.memory.write(at, &control.to_le_bytes()).expect("RAM");
    let entry = PostedEntry::new().with_is_present(true).with_is_posted(is_posted);
    let entry = entry.with_descriptor(DESCRIPTOR).into_bits();
    let at = ENTRIES.offset(u64::from(INDEX) * 16);
    machine.memory.write(at, &entry.to_le_bytes()).expect("RAM");
    let table = RemappingTableAddress::new().with_frame(ENTRIES.0 >> 12).with_size(7);
    write(&mut machine, intel_register::REMAPPING_TABLE_ADDRESS, 8, table.into_bits());
    let set = GlobalCommand::SET_REMAPPING_TABLE;
    write(&mut machine, intel_register::GLOBAL_COMMAND, 4, set.bits().into());
    let on = set | GlobalCommand::REMAPPING_ENABLE;
    write(&mut machine, intel_register::GLOBAL_COMMAND, 4, on.bits().into());
    let halt = Event::VmxExit {
        vcpu: VirtualCpu(BLOCK),
        reason: HALT,
        qualification: 0,
        guest_physical: 0,
        interruption: 0,
        vectoring: 0,
        instruction: 0,
        rip: Linear(0),
    };
    judge(machine, halt, 0xFEE0_0010 | u64::from(INDEX) << 5, 0)
}

#[test]
fn what_is_posted_to_a_vcpu_that_sleeps_is_announced_to_its_hypervisor() {
    assert_eq!(judge_descriptor(OWN, true, false), [(Rule::SaidToRun, Way::Device)]);
    assert_eq!(judge_descriptor(OWN, false, true), [(Rule::SaidToRun, Way::Physical)]);
    assert_eq!(judge_descriptor(OWN, false, false), [], "nobody posts");
    assert_eq!(judge_descriptor(WAKE_UP, true, true), [], "the hypervisor wakes it");
}
