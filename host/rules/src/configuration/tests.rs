//! Readers against inputs as people and tools write them.

use super::dialect::module_options;
use super::{Hints, Kind, ModuleOption, detect, read};
use crate::finding::Position;
use crate::vm::{
    Accelerator, Confidential, Exposure, Guest, Irqchip, MachineFamily, Manager, Pit,
    VmConfiguration, Vmm,
};
use reading::version::Version;

fn read_one(text: &str) -> (Kind, VmConfiguration) {
    let contents =
        read("test", text, None, &Hints::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(contents.vms.len(), 1, "{text}");
    (contents.kind, contents.vms.into_iter().next().unwrap())
}

#[test]
fn irqchip_and_pit_follow_from_options_and_machine_type() {
    use Irqchip as I;
    use Pit as P;
    for (options, irqchip, pit) in [
        ("-enable-kvm", I::Kernel, P::KernelReinject),
        ("-accel kvm -M q35", I::Kernel, P::KernelReinject),
        ("-accel kvm -M pc-q35-4.0", I::Split, P::UserSpace),
        ("-machine type=pc-q35-4.0+pve0,accel=kvm", I::Split, P::UserSpace),
        ("-accel kvm -M pc-q35-4.0,kernel_irqchip=on", I::Kernel, P::KernelReinject),
        ("-machine q35,kernel-irqchip=split", I::Split, P::UserSpace),
        ("-accel kvm,kernel-irqchip=split", I::Split, P::UserSpace),
        ("-machine q35,kernel_irqchip=off", I::UserSpace, P::UserSpace),
        ("-machine q35 -machine kernel_irqchip=off", I::UserSpace, P::UserSpace),
        ("-no-kvm-irqchip", I::UserSpace, P::UserSpace),
        ("-machine q35,pit=off", I::Kernel, P::Absent),
        ("-machine microvm,accel=kvm", I::Split, P::UserSpace),
        ("-machine microvm,kernel-irqchip=on", I::Kernel, P::KernelReinject),
        ("-enable-kvm -global kvm-pit.lost_tick_policy=discard", I::Kernel, P::KernelDiscard),
        (
            "-enable-kvm -global driver=kvm-pit,property=lost_tick_policy,value=discard",
            I::Kernel,
            P::KernelDiscard,
        ),
        ("-enable-kvm -global kvm-pit.lost_tick_policy=delay", I::Kernel, P::KernelReinject),
        ("-enable-kvm -global kvm-pit.lost_tick_policy=slew", I::Kernel, P::Unknown),
        ("-enable-kvm -no-kvm-pit-reinjection", I::Kernel, P::KernelDiscard),
        (
            "-machine q35,confidential-guest-support=t -object tdx-guest,id=t",
            I::Split,
            P::UserSpace,
        ),
        ("-machine $MACHINE", I::Unknown, P::Unknown),
        ("-enable-kvm $OPTIONS", I::Unknown, P::Unknown),
        ("-enable-kvm -readconfig /etc/vm.cfg", I::Unknown, P::Unknown),
        (
            "-enable-kvm -M q35 -readconfig /usr/share/qemu-server/pve-q35-4.0.cfg",
            I::Kernel,
            P::KernelReinject,
        ),
        ("-enable-kvm -M q35 -set device.a.b=c", I::Kernel, P::KernelReinject),
        ("-M never-heard-of", I::Unknown, P::Unknown),
    ] {
        let (kind, vm) = read_one(&format!("qemu-system-x86_64 {options}"));
        assert_eq!(kind, Kind::CommandLine);
        assert_eq!((vm.irqchip.value, vm.pit.value), (irqchip, pit), "{options}");
    }
}

#[test]
fn the_accelerator_is_the_first_of_the_list_or_follows_from_the_name() {
    use Accelerator as A;
    for (command, expected) in [
        ("qemu-system-x86_64 -m 1G", A::Tcg),
        ("qemu-system-x86_64 -enable-kvm", A::Kvm),
        ("qemu-system-x86_64 --enable-kvm", A::Kvm),
        ("qemu-system-x86_64 -M accel=kvm:tcg", A::Kvm),
        ("qemu-system-x86_64 -machine accel=tcg", A::Tcg),
        ("qemu-system-x86_64 -accel kvm -accel tcg", A::Kvm),
        ("qemu-system-x86_64 -accel tcg -accel kvm", A::Tcg),
        ("qemu-system-x86_64 -accel whpx", A::Other),
        ("/usr/bin/kvm -id 100 -name x", A::Kvm),
        ("/usr/bin/kvm -machine accel=tcg,type=pc+pve0", A::Tcg),
        ("/usr/libexec/qemu-kvm -S", A::Kvm),
        ("sudo taskset -c 1 qemu-system-x86_64 -enable-kvm", A::Kvm),
        ("ExecStart=/usr/bin/qemu-system-x86_64 -enable-kvm", A::Kvm),
    ] {
        assert_eq!(read_one(command).1.accelerator.value, expected, "{command}");
    }
}

#[test]
fn cpu_features_are_read_in_every_spelling() {
    for (cpu, check) in [
        ("host,hv_synic,hv_stimer", "synic stimer"),
        ("host,hv-synic=on,hv-stimer=yes,hv-apicv=on", "synic stimer avic"),
        ("host,+hv-synic,-hv-stimer", "synic"),
        ("host,hv-passthrough", "synic stimer avic evmcs vapic ipi"),
        ("host,hv_passthrough=on,hv-evmcs=off", "synic stimer avic vapic ipi"),
        ("host,hv-synic=off", ""),
        ("host", ""),
    ] {
        let (_, vm) = read_one(&format!("qemu-system-x86_64 -enable-kvm -cpu {cpu}"));
        let h = &vm.hyperv;
        let on = [
            (h.has_synic(), "synic"),
            (h.has_stimer(), "stimer"),
            (h.has_avic(), "avic"),
            (h.has_evmcs(), "evmcs"),
            (h.has_vapic(), "vapic"),
            (h.has_ipi(), "ipi"),
        ];
        let names: Vec<_> = on.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        assert_eq!(names.join(" "), check, "{cpu}");
    }
    for (cpu, x2apic, nested) in [
        ("host", Exposure::Exposed, Exposure::HostDecides),
        ("EPYC-Milan", Exposure::Exposed, Exposure::Hidden),
        ("EPYC,-x2apic,+svm", Exposure::Hidden, Exposure::Exposed),
        ("host,x2apic=off,svm=off", Exposure::Hidden, Exposure::Hidden),
    ] {
        let (_, vm) = read_one(&format!("qemu-system-x86_64 -enable-kvm -cpu {cpu}"));
        assert_eq!((vm.x2apic.value, vm.nested.value), (x2apic, nested), "{cpu}");
    }
}

#[test]
fn variables_and_arrays_of_a_script_are_followed_and_unknown_ones_are_said() {
    let script = "#!/bin/bash\nargs=(\n  -machine q35,kernel-irqchip=split\n  -enable-kvm\n)\n\
                  args+=( -smp 4 )\nOPTS=\"-cpu host,x2apic=off\"\n\
                  qemu-system-x86_64 \"${args[@]}\" $OPTS -m 1G\n";
    let (_, vm) = read_one(script);
    assert_eq!(vm.irqchip.value, Irqchip::Split);
    assert_eq!(vm.x2apic.value, Exposure::Hidden);
    assert_eq!(vm.vcpus.value, 4);
    assert!(vm.unresolved.is_empty());
    let at = vm.irqchip.position().unwrap();
    assert_eq!(&script[at.start..at.end], "kernel-irqchip=split");
    assert_eq!(at.line, 3);

    let (_, vm) = read_one("qemu-system-x86_64 \"$@\" -m 1G");
    assert!(vm.accelerator.is_unknown() && vm.pit.is_unknown());
    assert_eq!(vm.unresolved.len(), 1);
}

#[test]
fn positions_point_at_what_decides() {
    let text = "qemu-system-x86_64 \\\n  -machine 'q35,accel=kvm' \\\n  \
                -device '{\"driver\":\"intel-iommu\",\"intremap\":\"on\",\"eim\":\"off\"}' \\\n  \
                -cpu host,hv_synic\n";
    let (_, vm) = read_one(text);
    let shown = |at: Position| &text[at.start..at.end];
    assert_eq!(shown(vm.accelerator.position().unwrap()), "accel=kvm");
    assert_eq!(shown(vm.machine.position().unwrap()), "q35");
    let viommu = vm.viommu.unwrap().value;
    assert_eq!(shown(viommu.eim.position().unwrap()), "\"eim\":\"off\"");
    let synic = vm.hyperv.synic.unwrap().position().unwrap();
    assert_eq!((synic.line, shown(synic)), (4, "hv_synic"));
}

#[test]
fn kinds_are_recognized_by_content() {
    for (text, expected) in [
        ("qemu-system-x86_64 -m 1G", Some(Kind::CommandLine)),
        ("-enable-kvm -m 1G", Some(Kind::CommandLine)),
        ("firecracker --api-sock /tmp/x", Some(Kind::CommandLine)),
        ("crosvm run --cpus 4 bzImage", Some(Kind::CommandLine)),
        ("cloud-hypervisor --kernel vmlinux --cpus boot=4", Some(Kind::CommandLine)),
        ("qemu-system-x86_64\0-m\0\x31G\0", Some(Kind::ProcessCommandLine)),
        ("# QEMU\n[machine]\n  type = \"q35\"\n", Some(Kind::Readconfig)),
        ("<domain type='kvm'/>", Some(Kind::LibvirtXml)),
        (
            "2026-01-01 00:00:00.000+0000: starting up libvirt version: 11.3.0, qemu version: 10.0.2\n",
            Some(Kind::LibvirtLog),
        ),
        ("ostype: l26\ncores: 4\nscsihw: virtio-scsi-pci\n", Some(Kind::Proxmox)),
        ("# a note\nsmbios1: uuid=0\nbios: ovmf\namd-sev: type=es\n", Some(Kind::Proxmox)),
        ("scsi0: local:vm-1-disk-0,size=32G\nscsi1: local:vm-1-disk-1\n", Some(Kind::Proxmox)),
        ("agent: 1\n", Some(Kind::Proxmox)),
        ("machine: q35,viommu=intel\n", Some(Kind::Proxmox)),
        ("[sandbox]\nenable = \"on\"\n[machine]\ntype = \"q35\"\n", Some(Kind::Readconfig)),
        ("name: web\nmemory: 4\n", None),
        ("agent: 1\nimage: other\n", None),
        ("ostype: l26\ncores: 4\nargs: -cpu host -enable-kvm\n", Some(Kind::Proxmox)),
        (
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {domain: {}}\n",
            Some(Kind::Kubevirt),
        ),
        ("# x\noptions kvm_amd avic=1\n", Some(Kind::Modprobe)),
        ("BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet", Some(Kind::KernelCommandLine)),
        ("GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"amd_iommu=on\"\n", Some(Kind::KernelCommandLine)),
        ("title Arch\nlinux /vmlinuz\noptions root=/dev/sda1 rw\n", Some(Kind::KernelCommandLine)),
        ("hello world", None),
        ("  \n", None),
    ] {
        assert_eq!(detect(text), expected, "{text}");
    }
}

#[test]
fn other_vmms_are_known_by_their_defaults() {
    for (command, vmm, irqchip, pit) in [
        ("firecracker --api-sock a", Vmm::Firecracker, Irqchip::Kernel, Pit::KernelReinject),
        ("crosvm run -c 4 k", Vmm::Crosvm, Irqchip::Kernel, Pit::KernelReinject),
        ("crosvm run --split-irqchip k", Vmm::Crosvm, Irqchip::Split, Pit::UserSpace),
        ("cloud-hypervisor --cpus boot=2", Vmm::CloudHypervisor, Irqchip::Split, Pit::Absent),
        ("lkvm run -c 2 -k b", Vmm::Kvmtool, Irqchip::Kernel, Pit::KernelReinject),
    ] {
        let (_, vm) = read_one(command);
        assert_eq!((vm.vmm, vm.irqchip.value, vm.pit.value), (vmm, irqchip, pit), "{command}");
        assert!(vm.is_kvm());
    }
}

#[test]
fn libvirt_xml_says_what_libvirt_tells_qemu() {
    let domain = |inner: &str| {
        format!(
            "<domain type='kvm'><name>x</name><vcpu>2</vcpu><os><type arch='x86_64' machine='q35'>hvm</type>\
             </os>{inner}</domain>"
        )
    };
    for (inner, irqchip, pit) in [
        ("", Irqchip::Kernel, Pit::KernelReinject),
        (
            "<clock><timer name='pit' tickpolicy='delay'/></clock>",
            Irqchip::Kernel,
            Pit::KernelReinject,
        ),
        (
            "<clock><timer name='pit' tickpolicy='catchup'/></clock>",
            Irqchip::Kernel,
            Pit::KernelReinject,
        ),
        (
            "<clock><timer name='pit' tickpolicy='discard'/></clock>",
            Irqchip::Kernel,
            Pit::KernelDiscard,
        ),
        ("<clock><timer name='pit' present='no'/></clock>", Irqchip::Kernel, Pit::Unknown),
        ("<features><ioapic driver='qemu'/></features>", Irqchip::Split, Pit::UserSpace),
        ("<features><ioapic driver='kvm'/></features>", Irqchip::Kernel, Pit::KernelReinject),
        ("<launchSecurity type='tdx'/>", Irqchip::Split, Pit::UserSpace),
        (
            "<commandline><arg value='-global'/><arg value='kvm-pit.lost_tick_policy=discard'/></commandline>",
            Irqchip::Kernel,
            Pit::KernelDiscard,
        ),
    ] {
        let (kind, vm) = read_one(&domain(inner));
        assert_eq!((kind, vm.manager), (Kind::LibvirtXml, Manager::Libvirt));
        assert_eq!((vm.irqchip.value, vm.pit.value), (irqchip, pit), "{inner}");
    }
    let windows = "<metadata><os id='http://microsoft.com/win/11'/></metadata>";
    assert_eq!(read_one(&domain(windows)).1.guest.value, Guest::Windows);
    let sev = "<launchSecurity type='sev'><policy>0x0005</policy></launchSecurity>";
    assert_eq!(read_one(&domain(sev)).1.confidential.unwrap().value, Confidential::SevEs);
}

#[test]
fn a_log_gives_every_start_with_its_versions() {
    let log = "2026-01-01 10:00:00.000+0000: starting up libvirt version: 11.3.0, package: 1, \
               qemu version: 7.2.0, kernel: 6.1.0-56-amd64, hostname: h\n\
               LC_ALL=C \\\nPATH=/bin \\\n/usr/bin/qemu-system-x86_64 \\\n-name guest=a,debug-threads=on \\\n\
               -machine pc-q35-7.2,usb=off \\\n-accel kvm \\\n-msg timestamp=on\nchar device redirected\n\
               2026-01-01 11:00:00.000+0000: shutting down, reason=shutdown\n\
               2026-01-02 10:00:00.000+0000: starting up libvirt version: 11.3.0, \
               qemu version: 10.0.2qemu-10.0.2, kernel: 6.18.1, hostname: h\n\
               /usr/bin/qemu-system-x86_64 \\\n-name guest=a \\\n\
               -machine pc-q35-10.0,kernel_irqchip=split \\\n-accel kvm\n";
    let contents = read("a.log", log, None, &Hints::default()).unwrap();
    assert_eq!(contents.vms.len(), 2);
    let first = &contents.vms[0];
    assert_eq!(first.kernel.as_ref().unwrap().release, "6.1.0-56-amd64");
    assert_eq!(first.vmm_version, Version::parse("7.2.0"));
    assert_eq!(first.pit.value, Pit::KernelReinject);
    let second = &contents.vms[1];
    assert_eq!(second.irqchip.value, Irqchip::Split);
    let at = second.irqchip.position().unwrap();
    assert_eq!(&log[at.start..at.end], "kernel_irqchip=split");
}

#[test]
fn proxmox_adds_what_windows_and_iommus_need() {
    for (lines, irqchip, pit, synic) in [
        ("ostype: l26\n", Irqchip::Kernel, Pit::KernelReinject, false),
        ("ostype: win11\n", Irqchip::Kernel, Pit::KernelDiscard, true),
        ("ostype: wxp\n", Irqchip::Kernel, Pit::KernelReinject, false),
        ("ostype: l26\nmachine: q35,viommu=intel\n", Irqchip::Split, Pit::UserSpace, false),
        (
            "ostype: l26\nargs: -global kvm-pit.lost_tick_policy=discard\n",
            Irqchip::Kernel,
            Pit::KernelDiscard,
            false,
        ),
        (
            "ostype: l26\n[before]\nargs: -machine pit=off\n",
            Irqchip::Kernel,
            Pit::KernelReinject,
            false,
        ),
    ] {
        let text = format!("cores: 4\nscsihw: x\nnet0: y\n{lines}");
        let (kind, vm) = read_one(&text);
        assert_eq!((kind, vm.manager), (Kind::Proxmox, Manager::Proxmox), "{lines}");
        let read = (vm.irqchip.value, vm.pit.value, vm.hyperv.has_synic());
        assert_eq!(read, (irqchip, pit, synic), "{lines}");
    }
}

#[test]
fn text_that_only_speaks_of_qemu_starts_no_machine() {
    for text in [
        "if [ ! -e /dev/kvm ] || ! command -v \"qemu-system-$(uname -m)\" > /dev/null; then\n exit 1\nfi\n",
        "QEMUCMD := qemu-system-x86_64\n",
        "echo \"qemu-system-x86_64 -m 1G\"\n",
        "echo qemu-system-x86_64 -m 1G\n",
        "find . -name 'qemu-system-*' -exec mv {} {}-old \\;\n",
        "apt-get install qemu-system-x86 qemu-system-modules-spice -y\n",
        "make -j4 \"qemu-system-${target}\"\n",
        "qemu-system-x86_64 -cpu help\n",
        "qemu-system-x86_64 -machine '?'\n",
        "qemu-system-x86_64 -device virtio-net,help\n",
        "qemu-system-x86_64 --version\n",
    ] {
        let got = read("x.sh", text, None, &Hints::default());
        assert!(got.is_err(), "{text}: {got:?}");
    }
    for text in [
        "qemu-system-x86_64 disk.img\n",
        "exec qemu-system-x86_64 \"$@\"\n",
        "sudo /usr/bin/kvm -m 1G\n",
        "[ -e /dev/kvm ] && qemu-system-x86_64 -m 1G\n",
        "numactl -N 0 qemu-system-x86_64 -boot c\n",
        "ExecStart=/usr/bin/qemu-system-x86_64 -m 1G\n",
    ] {
        assert_eq!(read("x.sh", text, None, &Hints::default()).unwrap().vms.len(), 1, "{text}");
    }
}

#[test]
fn proxmox_says_what_runs_the_machine_and_how() {
    let read = |lines: &str| read_one(&format!("scsihw: x\nnet0: y\n{lines}")).1;
    let plain = read("cores: 2\n");
    assert_eq!(plain.accelerator.value, Accelerator::Kvm);
    assert_eq!(plain.machine.value.family, MachineFamily::I440fx);
    assert_eq!(read("arch: aarch64\n").machine.value.family, MachineFamily::Foreign);
    assert_eq!(read("arch: x86_64\n").machine.value.family, MachineFamily::I440fx);
    assert_eq!(read("kvm: 0\n").accelerator.value, Accelerator::Tcg);
    assert_eq!(read("template: 1\n").accelerator.value, Accelerator::Tcg);
    assert_eq!(read("template: 0\n").accelerator.value, Accelerator::Kvm);
    let kind = |lines: &str| read(lines).confidential.map(|kind| kind.value);
    assert_eq!(kind("amd-sev: type=es,no-debug=1\n"), Some(Confidential::SevEs));
    assert_eq!(kind("amd-sev: snp\n"), Some(Confidential::SevSnp));
    assert_eq!(kind("intel-tdx: type=tdx\n"), Some(Confidential::Tdx));
    assert_eq!(read("intel-tdx: type=tdx\n").irqchip.value, Irqchip::Split);
    assert_eq!(read("ostype: solaris\n").x2apic.value, Exposure::Hidden);
    let evmcs =
        |machine: &str| read(&format!("ostype: win11\nmachine: {machine}\n")).hyperv.has_evmcs();
    for (machine, expected) in [
        ("pc-q35-10.1", false),
        ("pc-q35-11.0+pve1", false),
        ("pc-q35-11.0+pve2", true),
        ("pc-q35-11.1", true),
        ("q35", false),
    ] {
        assert_eq!(evmcs(machine), expected, "{machine}");
    }
}

#[test]
fn xml_of_several_documents_gives_each_domain_with_its_place() {
    let domain = |name: &str| format!("<domain type='kvm'>\n <name>{name}</name>\n</domain>\n");
    let text = format!("{}\n{}{}", domain("first"), domain("é"), domain("third"));
    let contents = read("x.xml", &text, None, &Hints::default()).unwrap();
    let names: Vec<_> = contents.vms.iter().map(|vm| vm.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["first", "é", "third"]);
    for vm in &contents.vms {
        let source = &text[vm.span.start..vm.span.end];
        assert!(source.starts_with("<domain") && source.ends_with("</domain>"), "{source}");
        let at = vm.accelerator.position().unwrap();
        assert_eq!(&text[at.start..at.end], "type='kvm'");
    }
    assert_eq!(contents.vms[2].span.line, 8);

    // Documents longer and shorter than what is looked at first.
    let filler = "<x/>".repeat(20_000);
    let long = format!("<domain type='kvm'><name>l</name>{filler}</domain>");
    let many = format!("{}{long}\n{}", domain("é").repeat(3_000), domain("last"));
    let contents = read("x.xml", &many, None, &Hints::default()).unwrap();
    assert_eq!(contents.vms.len(), 3_002);
    assert_eq!(contents.vms[3_001].name.as_deref(), Some("last"));
    let cut = format!("{}<domain", domain("a"));
    let error = read("x.xml", &cut, None, &Hints::default());
    assert_eq!(error.unwrap_err().position.map(|at| at.line), Some(4));
}

#[test]
fn xml_that_only_speaks_of_domains_has_no_machine() {
    for text in [
        "<capabilities><guest><arch><domain type='kvm'><emulator>q</emulator></domain></arch></guest></capabilities>",
        "<domainCapabilities><domain>kvm</domain></domainCapabilities>",
        "<network><name>n</name><domain name='example.com'/></network>",
    ] {
        let error = read("x.xml", text, None, &Hints::default()).unwrap_err();
        assert!(error.message.starts_with("no virtual machine"), "{error}");
    }
}

#[test]
fn kubevirt_is_read_through_its_nesting() {
    let manifest = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: wïn\nspec:\n  \
                    template:\n    spec:\n      domain:\n        cpu:\n          cores: 4\n        \
                    clock:\n          utc: {}\n          timer:\n            hpet:\n              \
                    present: false\n            pit:\n              tickPolicy: delay\n        \
                    features:\n          hyperv:\n            synic: {}\n            synictimer:\n              \
                    direct: {}\n            vapic:\n              enabled: false\n        devices: {}\n";
    let (kind, vm) = read_one(manifest);
    assert_eq!((kind, vm.manager), (Kind::Kubevirt, Manager::KubeVirt));
    assert_eq!(vm.name.as_deref(), Some("wïn"));
    assert_eq!(vm.pit.value, Pit::KernelReinject);
    let at = vm.pit.position().unwrap();
    assert_eq!(&manifest[at.start..at.end], "delay");
    assert!(vm.hyperv.has_synic() && vm.hyperv.has_stimer() && !vm.hyperv.has_vapic());
    assert_eq!((vm.vcpus.value, vm.hpet.value), (4, false));

    let refers =
        manifest.replace("spec:\n  template", "spec:\n  preference: {name: w}\n  template");
    let refers = refers.replace("            pit:\n              tickPolicy: delay\n", "");
    assert!(read_one(&refers).1.pit.is_unknown());
}

#[test]
fn module_options_carry_their_places() {
    for (text, expected) in [
        ("# c\noptions kvm-amd avic=1 nested=0\n", vec!["kvm_amd.avic=1", "kvm_amd.nested=0"]),
        ("options kvm_amd \\\n  avic=1\n", vec!["kvm_amd.avic=1"]),
        ("options kvm_amd avic\nblacklist x\n", vec!["kvm_amd.avic"]),
        (
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet kvm-amd.avic=1\"\nGRUB_CMDLINE_LINUX=''\n",
            vec!["quiet", "kvm_amd.avic=1"],
        ),
        (
            "root=/dev/sda1 amd_iommu=on kvm_intel.enable_apicv=0\n",
            vec!["root=/dev/sda1", "amd_iommu=on", "kvm_intel.enable_apicv=0"],
        ),
    ] {
        let contents = read("test", text, None, &Hints::default()).unwrap();
        let read: Vec<_> = contents.options.iter().map(written).collect();
        assert_eq!(read, expected, "{text}");
        for option in &contents.options {
            let value = option.value.clone().unwrap_or_default();
            assert_eq!(&text[option.value_at.start..option.value_at.end], value, "{text}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_place() {
    for (text, kind, part) in [
        ("<domain><x></domain>", Kind::LibvirtXml, "well-formed"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><domain>&b;</domain>", Kind::LibvirtXml, "well-formed"),
        ("<network/>", Kind::LibvirtXml, "no virtual machine"),
        ("[machine]\nnonsense\n", Kind::Readconfig, "2:1"),
        ("a: [b\n", Kind::Kubevirt, "not YAML"),
        ("echo hello", Kind::CommandLine, "no virtual machine"),
    ] {
        let error = read("test", text, Some(kind), &Hints::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(read("test", "hello", None, &Hints::default()).is_err());
    assert!("qemu".parse::<Kind>().is_err());
}

#[test]
fn module_options_are_read_as_modprobe_reads_them() {
    let given = |text: &str| -> Vec<String> {
        let lines = crate::position::Lines::new(text);
        let options = module_options::modprobe(&lines).unwrap();
        let show = |option: &ModuleOption| {
            format!("{}.{}={}", option.module, option.name, option.value.as_deref().unwrap_or("1"))
        };
        options.iter().map(show).collect()
    };
    for (text, expected) in [
        ("options kvm-amd avic=1 nested\n", vec!["kvm_amd.avic=1", "kvm_amd.nested=1"]),
        (
            "options kvm_amd \\\n  nested=1 \\\n  avic=0\n",
            vec!["kvm_amd.nested=1", "kvm_amd.avic=0"],
        ),
        ("# off for now \\\noptions kvm_amd avic=0\n", vec![]),
        ("options kvm_amd nested=1 # avic=0\n", vec!["kvm_amd.nested=1", "kvm_amd.avic=0"]),
        ("options kvm_amd avic=1 \\ \navic=0\n", vec!["kvm_amd.avic=1", "kvm_amd.\\=1"]),
        (
            "install kvm_amd /bin/true\nblacklist kvm_amd\noptions\noptions kvm_amd\n",
            vec!["kvm_amd.$(install kvm_amd /bin/true)=1"],
        ),
    ] {
        assert_eq!(given(text), expected, "{text:?}");
    }
}

#[test]
fn options_go_from_continued_lines_and_nothing_else_changes() {
    let without = |text: &str| {
        module_options::without(text, "kvm_amd", |name, value| name == "avic" && value == "0")
    };
    for (text, expected) in [
        (
            "options kvm_amd \\\n  nested=1 \\\n  avic=0\noptions x y\n",
            "options kvm_amd \\\n  nested=1 \\\n\noptions x y\n",
        ),
        ("options kvm_amd \\\n  avic=0\noptions x y\n", "options x y\n"),
        ("options kvm-amd avic=0 nested=1", "options kvm-amd nested=1"),
        ("# avic=0 \\\noptions kvm_amd avic=0\n", "# avic=0 \\\noptions kvm_amd avic=0\n"),
        ("options kvm_amd avic=1\n", "options kvm_amd avic=1\n"),
    ] {
        assert_eq!(without(text), expected, "{text:?}");
        assert_eq!(without(expected), expected, "again");
    }
}

#[test]
fn cloud_hypervisors_enlightenments_inhibit_before_version_53() {
    let hyperv = |program: &str, cpus: &str| {
        let (_, vm) = read_one(&format!("{program} --kernel vmlinux --cpus {cpus}"));
        (vm.hyperv.has_synic(), vm.hyperv.has_avic())
    };
    assert_eq!(hyperv("cloud-hypervisor", "boot=2"), (false, false));
    assert_eq!(hyperv("cloud-hypervisor", "boot=2,kvm_hyperv=on"), (true, false));
    assert_eq!(
        hyperv("/opt/cloud-hypervisor-v52.0/ch-remote/cloud-hypervisor", "boot=2,kvm_hyperv=on"),
        (true, false)
    );
    assert_eq!(
        hyperv("/opt/cloud-hypervisor-v53.0/cloud-hypervisor", "kvm_hyperv=on,boot=2"),
        (true, true)
    );
}

#[test]
fn firecracker_configuration_is_a_machine_with_a_reinjecting_pit() {
    let text = "{\n  \"boot-source\": { \"kernel_image_path\": \"vmlinux\" },\n  \"drives\": [],\n  \
                \"machine-config\": { \"vcpu_count\": 4, \"mem_size_mib\": 1024 }\n}\n";
    let (kind, vm) = read_one(text);
    assert_eq!(
        (kind, vm.vmm, vm.pit.value),
        (Kind::Firecracker, Vmm::Firecracker, Pit::KernelReinject)
    );
    assert_eq!((vm.vcpus.value, vm.guest.value), (4, Guest::Linux));
    assert_eq!(vm.vcpus.position().unwrap().line, 4);
    assert!(read("test", "{\"boot-source\": {}, \"drives\": [", None, &Hints::default()).is_err());
}

/// As a kernel command line has it.
fn written(option: &ModuleOption) -> String {
    let value = option.value.as_deref().map_or(String::new(), |value| format!("={value}"));
    let module =
        if option.module.is_empty() { String::new() } else { format!("{}.", option.module) };
    format!("{module}{}{value}", option.name)
}
