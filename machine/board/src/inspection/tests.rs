use super::*;
use crate::topology::Topology;
use crate::{Configuration, Machine};
use arch::svm::vmcb::{InterruptControl, Vmcb, control};
use cpu::CpuModel;

fn machine(model: &str, has_iommu: bool) -> Machine {
    let model = CpuModel::named(model).expect("a model");
    let iommu = has_iommu.then(|| crate::server_iommu(&model)).flatten();
    let topology = Topology::of_cores(2).expect("two cores");
    let configuration = Configuration { iommu, ..Configuration::of(model, topology, 64 << 20) };
    Machine::new(&configuration).expect("a machine")
}

fn look(machine: &Machine, name: &str, cpu: u16, at: Option<u64>) -> Result<Vec<Sheet>, Absent> {
    let subject = Subject::named(name).expect(name);
    let query = Query { subject, cpu: CpuIndex(cpu), at: at.map(SystemPhysical) };
    View { state: &machine.state, memory: &machine.memory }.look(query)
}

#[test]
fn every_subject_shows_something_or_says_what_is_missing() {
    let places = [None, Some(0x20_0000), Some(0x20_0008), Some(0xFEE0_0000), Some(u64::MAX)];
    for (model, has_iommu) in [("zen4", false), ("zen4", true), ("sapphire-rapids", true)] {
        let machine = machine(model, has_iommu);
        for (name, ..) in Subject::ALL {
            for (cpu, at) in [0, 1, 2, u16::MAX].into_iter().flat_map(|c| places.map(|p| (c, p))) {
                match look(&machine, name, cpu, at) {
                    Ok(sheets) => {
                        let is_there = sheets.iter().all(|sheet| sheet.section.contains('"'));
                        assert!(is_there && !sheets.is_empty(), "{model} {name} {at:x?}");
                    }
                    Err(absent) => assert!(!absent.to_string().is_empty(), "{model} {name}"),
                }
            }
        }
    }
}

#[test]
fn what_is_not_there_is_refused_with_what_would_be_right() {
    let (amd, intel) = (machine("zen4", false), machine("sapphire-rapids", false));
    for (machine, name, cpu, at, why) in [
        (&amd, "registers", 2, None, "numbered from 0 to 1"),
        (&amd, "registers", 0, Some(0), "name a processor"),
        (&amd, "vmcs", 0, None, "AMD's, `vmcb`"),
        (&amd, "pid", 0, None, "`vapic`"),
        (&amd, "vmcb", 1, None, "processor 1 runs no guest"),
        (&amd, "vmcb", 0, Some(0x1008), "a multiple of 4096"),
        (&amd, "vmcb", 0, Some(1 << 40), "no VMCB can be at"),
        (&intel, "vmcb", 0, None, "Intel's, `vmcs`"),
        (&intel, "vmcs", 0, None, "runs no guest"),
        (&amd, "irte", 0, None, "no IOMMU"),
    ] {
        let said = look(machine, name, cpu, at).expect_err(name).to_string();
        assert!(said.contains(why), "{name}: {said}");
    }
}

#[test]
fn a_control_block_is_shown_by_the_names_and_sections_of_the_manual() {
    let mut machine = machine("zen4", false);
    let at = SystemPhysical(0x5000);
    let mut vmcb = Vmcb::new(vec![0; arch::svm::vmcb::SIZE]).expect("its size");
    vmcb.set(control::EXITCODE, 0x401);
    let interrupts = InterruptControl::new().with_avic_enabled(true).with_interrupt_vector(0x41);
    vmcb.set(control::INTERRUPT_CONTROL, interrupts);
    machine.memory.write(at, &vmcb.into_inner()).expect("RAM");
    let sheets = look(&machine, "vmcb", 0, Some(at.0)).expect("a VMCB");
    let shown = |name: &str| {
        let row = sheets[0].rows.iter().find(|row| row.name == name).expect(name);
        (row.place.as_str(), row.value, row.meaning.as_str(), row.section)
    };
    assert_eq!(
        shown("INTERRUPT_CONTROL"),
        (
            "060h",
            Some(0x41_8000_0000),
            "avic_enabled, interrupt_vector 0x41",
            "APM2 \"Virtual Interrupts\""
        )
    );
    let (place, value, meaning, section) = shown("EXITCODE");
    assert_eq!((place, value), ("070h", Some(0x401)));
    assert_eq!((meaning, section), ("AvicIncompleteIpi", control::SECTION));
}

#[test]
fn a_descriptor_s_requests_are_vectors() {
    let mut machine = machine("sapphire-rapids", false);
    let at = SystemPhysical(0x6040);
    machine.memory.write(at, &[0; 64]).expect("RAM");
    machine.memory.write(at.offset(7), &[0x03]).expect("RAM");
    machine.memory.write(at.offset(32), &[1, 0, 0xF2, 0]).expect("RAM");
    let sheets = look(&machine, "pid", 1, Some(at.0)).expect("a descriptor");
    let meanings: Vec<&str> = sheets[0].rows.iter().map(|row| row.meaning.as_str()).collect();
    assert_eq!(meanings, ["0x38-0x39", "is_outstanding, vector 0xf2"]);
}

#[test]
fn looking_changes_nothing() {
    let machine = machine("zen4", true);
    let before = machine.state_bytes().expect("a state");
    for (name, ..) in Subject::ALL {
        let _ = look(&machine, name, 0, None);
    }
    assert_eq!(machine.state_bytes().expect("a state"), before);
}
