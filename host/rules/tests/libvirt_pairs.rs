//! Domain XML and the command line libvirt makes of it must give the same machine.

use reading::Kernel;
use rules::configuration::{self, Hints};
use rules::inhibit::{Reason, Vendor, predict};
use rules::vm::{Accelerator, Setting, VmConfiguration};
use std::path::{Path, PathBuf};

fn data_directory() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let candidates = [
        std::env::var_os("AVICENNA_DATA").map(PathBuf::from),
        Some(workspace.join("../shared/data")),
    ];
    candidates
        .into_iter()
        .flatten()
        .map(|path| path.join("libvirt/qemuxmlconfdata"))
        .find(|p| p.is_dir())
}

fn machine(path: &Path) -> VmConfiguration {
    let text = std::fs::read_to_string(path).unwrap();
    let contents = configuration::read("test", &text, None, &Hints::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(contents.vms.len(), 1, "{}", path.display());
    contents.vms.into_iter().next().unwrap()
}

/// Inhibits by name and duration, as if KVM ran the machine: most of the pairs are for TCG.
fn inhibits(vm: &VmConfiguration, kernel: &str) -> Vec<(Reason, String)> {
    let mut vm = vm.clone();
    if vm.accelerator.value == Accelerator::Tcg {
        vm.accelerator = Setting::by_default(Accelerator::Kvm, "test");
    }
    let of = |vendor| {
        predict(vendor, Kernel::parse(kernel, None).as_ref(), None, &vm).into_iter().map(
            move |one| (one.reason, format!("{vendor:?} {:?} {:?}", one.certainty, one.duration)),
        )
    };
    of(Vendor::Amd).chain(of(Vendor::Intel)).collect()
}

#[test]
fn xml_and_the_command_line_made_of_it_are_the_same_machine() {
    let Some(directory) = data_directory() else {
        println!("skipped: no libvirt data; set AVICENNA_DATA");
        return;
    };
    let mut compared = 0;
    let mut names: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for arguments in names.iter().filter(|path| path.extension().is_some_and(|e| e == "args")) {
        let name = arguments.file_name().unwrap().to_str().unwrap();
        // NAME.ARCH-VERSION.args belongs to NAME.xml.
        let stem = name.split('.').next().unwrap();
        let made = arguments.with_extension("xml");
        let sources = [directory.join(format!("{stem}.xml")), made];
        let told = machine(arguments);
        for xml in sources.iter().filter(|path| path.is_file()) {
            let described = machine(xml);
            let context = format!("{name} and {}", xml.display());
            assert_eq!(described.accelerator.value, told.accelerator.value, "{context}");
            assert_eq!(described.irqchip.value, told.irqchip.value, "{context}");
            assert_eq!(described.pit.value, told.pit.value, "{context}");
            assert_eq!(described.hpet.value, told.hpet.value, "{context}");
            assert_eq!(described.hyperv.has_synic(), told.hyperv.has_synic(), "{context}");
            assert_eq!(described.hyperv.has_avic(), told.hyperv.has_avic(), "{context}");
            assert_eq!(described.hyperv.has_evmcs(), told.hyperv.has_evmcs(), "{context}");
            assert_eq!(described.kvm_hidden.value, told.kvm_hidden.value, "{context}");
            assert_eq!(described.vcpus.value, told.vcpus.value, "{context}");
            assert_eq!(described.max_apic_id.value, told.max_apic_id.value, "{context}");
            let confidential = |vm: &VmConfiguration| vm.confidential.as_ref().map(|c| c.value);
            assert_eq!(confidential(&described), confidential(&told), "{context}");
            for kernel in ["5.14", "5.15", "5.18", "6.1", "6.12", "6.18", "7.3"] {
                assert_eq!(
                    inhibits(&described, kernel),
                    inhibits(&told, kernel),
                    "{context}, {kernel}"
                );
            }
            compared += 1;
        }
    }
    println!("{compared} pairs compared");
    assert!(compared > 0);
}
