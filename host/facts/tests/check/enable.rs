//! What `enable` writes on each kind of host: the file and the tool that the host really uses, or
//! nothing.

use crate::fixture::{Change, Host};
use rules::enable::{Action, Plan, plan_of};

/// AVIC off by an option, posting off by a kernel argument.
const WRONG: &[Change] = &[
    ("sys/module/kvm/refcnt", Some("1")),
    ("sys/module/kvm_amd/parameters/avic", Some("N")),
    ("etc/modprobe.d/kvm.conf", Some("options kvm_amd avic=0\n")),
    ("proc/cmdline", Some("root=/dev/sda1 quiet amd_iommu_intr=legacy")),
];

fn plan(changes: &[Change]) -> Plan {
    plan_of(&facts::facts(&Host::amd().with(WRONG).with(changes).inputs()))
}

/// The plan in short: `path` for a file, the command for a program, `tell` for the operator.
fn steps(plan: &Plan) -> Vec<String> {
    plan.steps
        .iter()
        .map(|step| match &step.action {
            Action::Write { path, .. } => path.clone(),
            Action::Run { command, .. } => command.join(" "),
            Action::Tell { instruction } => format!("tell: {instruction}"),
        })
        .collect()
}

fn written<'p>(plan: &'p Plan, wanted: &str) -> &'p str {
    let after = plan.steps.iter().find_map(|step| match &step.action {
        Action::Write { path, after, .. } if path == wanted => Some(after.as_str()),
        _ => None,
    });
    after.unwrap_or_else(|| panic!("{wanted} is not written: {:?}", steps(plan)))
}

const OPTIONS: [&str; 3] = [
    "/etc/modprobe.d/kvm.conf",
    "/etc/modprobe.d/avicenna.conf",
    "tell: modprobe -r kvm_amd kvm && modprobe kvm_amd",
];
const GRUB: Change =
    ("etc/default/grub", Some("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu_intr=legacy\"\n"));
const CMDLINE: Change =
    ("etc/kernel/cmdline", Some("root=/dev/sda1 quiet amd_iommu_intr=legacy\n"));
const MADE_ENTRY: Change = (
    "boot/efi/loader/entries/x-6.12.conf",
    Some(
        "# File created by /usr/lib/kernel/install.d/90-loaderentry.install\ntitle x\noptions root=x amd_iommu_intr=legacy\n",
    ),
);

#[test]
fn kernel_command_line_is_changed_through_what_the_host_uses() {
    let programs = |names: &'static str| ("avicenna/programs.txt", Some(names));
    let rows: &[(&str, &[Change], &[&str])] = &[
        (
            "Debian",
            &[programs("update-grub\ngrub-mkconfig"), GRUB],
            &["/etc/default/grub", "update-grub"],
        ),
        (
            "Arch",
            &[programs("grub-mkconfig\nkernel-install\nmkinitcpio"), GRUB],
            &["/etc/default/grub", "grub-mkconfig -o /boot/grub/grub.cfg"],
        ),
        (
            "openSUSE",
            &[programs("grub2-mkconfig\ndracut"), GRUB],
            &["/etc/default/grub", "grub2-mkconfig -o /boot/grub2/grub.cfg"],
        ),
        (
            "Fedora",
            &[programs("grubby\ngrub2-mkconfig\nkernel-install\ndracut"), GRUB],
            &["grubby --update-kernel=ALL --remove-args=amd_iommu_intr=legacy"],
        ),
        (
            "Silverblue",
            &[
                programs("rpm-ostree\ngrubby"),
                ("proc/cmdline", Some("ostree=/ostree/boot.0/x amd_iommu_intr=legacy")),
            ],
            &["rpm-ostree kargs --delete-if-present=amd_iommu_intr=legacy"],
        ),
        (
            "MicroOS",
            &[programs("transactional-update\ngrub2-mkconfig"), GRUB],
            &["/etc/default/grub", "transactional-update grub.cfg"],
        ),
        (
            "Tumbleweed with systemd-boot",
            &[programs("sdbootutil\nkernel-install\ndracut"), CMDLINE],
            &["/etc/kernel/cmdline", "sdbootutil update-all-entries"],
        ),
        (
            "Proxmox with its own boot partitions",
            &[
                programs("proxmox-boot-tool\nupdate-grub"),
                CMDLINE,
                GRUB,
                ("etc/kernel/proxmox-boot-uuids", Some("AAAA-BBBB")),
            ],
            &["/etc/kernel/cmdline", "/etc/default/grub", "proxmox-boot-tool refresh"],
        ),
        (
            "Proxmox with GRUB alone",
            &[programs("proxmox-boot-tool\nupdate-grub"), GRUB],
            &["/etc/default/grub", "update-grub"],
        ),
        (
            "Pop!_OS",
            &[
                programs("kernelstub\nkernel-install"),
                (
                    "etc/kernelstub/configuration",
                    Some(r#"{"user": {"kernel_options": ["quiet", "amd_iommu_intr=legacy"]}}"#),
                ),
            ],
            &["/etc/kernelstub/configuration", "kernelstub"],
        ),
        (
            "Pop!_OS before its first run",
            &[programs("kernelstub\nkernel-install")],
            &["kernelstub -d amd_iommu_intr=legacy"],
        ),
        (
            "Debian with systemd-boot",
            &[programs("kernel-install"), CMDLINE, MADE_ENTRY],
            &["/etc/kernel/cmdline", "kernel-install add-all"],
        ),
        (
            "Arch with unified images",
            &[
                programs("mkinitcpio\nkernel-install"),
                CMDLINE,
                ("etc/mkinitcpio.d/linux.preset", Some("default_uki=\"/efi/linux.efi\"\n")),
            ],
            &["/etc/kernel/cmdline", "mkinitcpio -P"],
        ),
        (
            "Arch with entries of its own",
            &[
                programs("mkinitcpio\nkernel-install"),
                (
                    "boot/loader/entries/arch.conf",
                    Some("title a\noptions root=x amd_iommu_intr=legacy\n"),
                ),
            ],
            &["/boot/loader/entries/arch.conf"],
        ),
    ];
    for (name, changes, expected) in rows {
        let plan = plan(changes);
        let all: Vec<&str> = OPTIONS.iter().chain(*expected).copied().collect();
        assert_eq!(steps(&plan), all, "{name}");
        assert_eq!(plan.expects.len(), 1, "{name}");
        for step in &plan.steps {
            if let Action::Run { command, undo, .. } = &step.action {
                assert_eq!(
                    command == undo,
                    !steps(&plan).iter().any(|step| {
                        ["grubby", "rpm-ostree", "kernelstub -d"]
                            .iter()
                            .any(|tool| step.starts_with(tool))
                    }),
                    "{name}: {undo:?}"
                );
            }
        }
    }
}

#[test]
fn host_that_is_not_known_is_told_and_nothing_is_written() {
    let nixos = ("etc/os-release", Some("ID=nixos\n"));
    let rows: &[(&str, &[Change], &[&str])] = &[
        ("nothing known", &[], &["/etc/modprobe.d/kvm.conf", "/etc/modprobe.d/avicenna.conf"]),
        ("NixOS", &[nixos, GRUB, ("avicenna/programs.txt", Some("grub-mkconfig"))], &[]),
        (
            "bootc, without a tool for it",
            &[("proc/cmdline", Some("ostree=/ostree/boot.0/x amd_iommu_intr=legacy")), GRUB],
            &["/etc/modprobe.d/kvm.conf", "/etc/modprobe.d/avicenna.conf"],
        ),
        (
            "Harvester, whose root is an image",
            &[
                ("proc/cmdline", Some("cos-img/filename=/cOS/active.img amd_iommu_intr=legacy")),
                ("avicenna/programs.txt", Some("grub2-mkconfig\ntransactional-update")),
                GRUB,
            ],
            &[],
        ),
        (
            "MicroOS without GRUB's defaults",
            &[("avicenna/programs.txt", Some("transactional-update\nkernel-install")), CMDLINE],
            &["/etc/modprobe.d/kvm.conf", "/etc/modprobe.d/avicenna.conf"],
        ),
    ];
    for (name, changes, files) in rows {
        let plan = plan(changes);
        let found = steps(&plan);
        let written: Vec<&str> =
            found.iter().map(String::as_str).filter(|step| !step.starts_with("tell: ")).collect();
        assert_eq!(written, *files, "{name}");
        let told = found.iter().any(|step| step.contains("remove 'amd_iommu_intr=legacy' from"));
        assert!(told, "{name}: {found:?}");
    }
    let nix = steps(&plan(&[nixos]));
    assert!(nix.iter().any(|step| step.contains("boot.extraModprobeConfig")), "{nix:?}");
}

#[test]
fn words_are_written_where_they_count_and_lists_keep_their_other_values() {
    let plan = plan(&[
        ("avicenna/programs.txt", Some("update-grub")),
        ("sys/module/kvm_amd/initstate", None),
        ("sys/module/kvm_amd/refcnt", None),
        ("proc/cmdline", Some("kvm_amd.avic=0 amd_iommu=off,force_isolation")),
        (
            "etc/default/grub",
            Some(
                "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"amd_iommu=off,force_isolation\"\n",
            ),
        ),
        (
            "etc/default/grub.d/50-cloud.cfg",
            Some("GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0 kvm_amd.avic=0\"\n"),
        ),
    ]);
    assert_eq!(
        steps(&plan),
        ["/etc/default/grub", "/etc/default/grub.d/50-cloud.cfg", "update-grub"],
        "one command, however many files and reasons"
    );
    assert_eq!(
        written(&plan, "/etc/default/grub.d/50-cloud.cfg"),
        "GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0 kvm_amd.avic=1 amd_iommu=force_isolation\"\n"
    );
    assert_eq!(
        written(&plan, "/etc/default/grub"),
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n"
    );
}

#[test]
fn matter_of_choice_runs_no_program_twice() {
    let host = Host::intel().with(&[
        ("avicenna/programs.txt", Some("update-grub")),
        ("etc/default/grub", Some("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet intremap=nopost\"\n")),
        ("proc/cmdline", Some("quiet intremap=nopost")),
    ]);
    let mut host = host;
    host.put("sys/firmware/acpi/tables/DMAR", crate::fixture::dmar(3, 2));
    let plan = plan_of(&facts::facts(&host.inputs()));
    let runs = plan.steps.iter().filter(|step| matches!(step.action, Action::Run { .. }));
    assert_eq!(runs.clone().count(), 1, "{:?}", steps(&plan));
    assert!(runs.clone().all(|step| !step.is_optional));
    let optional = plan.steps.iter().find(|step| step.is_optional).unwrap();
    let Action::Write { before, after, .. } = &optional.action else { panic!("{optional:?}") };
    assert_eq!(
        before.as_deref(),
        Some("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"),
        "builds on the first"
    );
    assert_eq!(after, "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet intremap=no_x2apic_optout\"\n");
}

#[test]
fn initial_ram_disk_that_loads_the_module_is_made_again() {
    let rows: &[(&[Change], Option<&str>)] = &[
        (
            &[
                ("etc/initramfs-tools/modules", Some("# kvm_amd\nvfio\nkvm-amd\n")),
                ("avicenna/programs.txt", Some("update-initramfs\nupdate-grub")),
            ],
            Some("update-initramfs -u -k all"),
        ),
        (
            &[
                ("etc/dracut.conf.d/kvm.conf", Some("force_drivers+=\" kvm_amd \"\n")),
                ("avicenna/programs.txt", Some("dracut\ngrubby")),
            ],
            Some("dracut --regenerate-all --force"),
        ),
        (
            &[
                ("etc/mkinitcpio.conf", Some("MODULES=(kvm_amd vfio)\n")),
                ("avicenna/programs.txt", Some("mkinitcpio\ngrub-mkconfig")),
            ],
            Some("mkinitcpio -P"),
        ),
        (
            &[
                ("etc/initramfs-tools/modules", Some("# kvm_amd\nvfio\n")),
                ("avicenna/programs.txt", Some("update-initramfs\nupdate-grub")),
            ],
            None,
        ),
    ];
    for (changes, expected) in rows {
        let plan = plan(changes);
        let step = plan.steps.iter().find(|step| step.id == "initial-ram-disk");
        let command = step.and_then(|step| match &step.action {
            Action::Run { command, .. } => Some(command.join(" ")),
            _ => None,
        });
        assert_eq!(command.as_deref(), *expected, "{changes:?}");
    }
}

#[test]
fn option_in_a_continued_line_is_seen_taken_out_and_expected() {
    let plan = plan(&[(
        "etc/modprobe.d/kvm.conf",
        Some("options kvm_amd nested=1 \\\n  avic=0\noptions kvm nx_huge_pages=off\n"),
    )]);
    assert_eq!(
        written(&plan, "/etc/modprobe.d/kvm.conf"),
        "options kvm_amd nested=1 \\\n\noptions kvm nx_huge_pages=off\n"
    );
    let applied = |kvm: &'static str| {
        let changes = [
            ("etc/modprobe.d/avicenna.conf", Some("options kvm_amd avic=1\n")),
            ("etc/modprobe.d/kvm.conf", Some(kvm)),
        ];
        let facts = facts::facts(&Host::amd().with(WRONG).with(&changes).inputs());
        plan.expects[0].contradicted(&facts).map(|(value, _)| value)
    };
    assert_eq!(applied("options kvm_amd nested=1\n"), None);
    assert_eq!(applied("options kvm_amd nested=1 \\\n  avic=0\n").as_deref(), Some("0"));
}
