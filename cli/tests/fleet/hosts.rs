//! Hosts that are made up, each different from its neighbours in what decides.

use std::fs;
use std::path::Path;

/// What an index chooses.
pub struct Choice {
    pub name: String,
    pub kernel: &'static str,
    pub is_amd: bool,
    pub can: bool,
    pub is_on: bool,
    pub vms: usize,
}

const KERNELS: [&str; 5] = ["5.15.100", "6.1.90", "6.6.30", "6.12.10", "6.18.2"];

impl Choice {
    pub fn of(index: usize) -> Choice {
        Choice {
            name: format!("node-{index:04}"),
            kernel: KERNELS[index % KERNELS.len()],
            is_amd: !index.is_multiple_of(4),
            can: !index.is_multiple_of(7),
            is_on: index.is_multiple_of(3),
            vms: 1 + index % 3,
        }
    }

    /// The command line of a machine: the first has the PIT that reinjects, as QEMU's default is.
    fn vm(&self, number: usize) -> String {
        let pit = if number == 0 { "" } else { "-global\0kvm-pit.lost_tick_policy=discard\0" };
        let name = match number {
            2 => "b\u{200b}\"q\\\u{202e}".to_owned(),
            number => format!("vm{number}"),
        };
        format!(
            "/usr/bin/qemu-system-x86_64\0-name\0guest={name}\0-accel\0kvm\0-machine\0q35\0-cpu\0host\0-smp\x008\0{pit}"
        )
    }

    pub fn write(&self, root: &Path) {
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let parameter = if self.is_on { "Y\n" } else { "N\n" };
        if self.is_amd {
            let flags = if self.can { "svm npt avic x2avic cx16" } else { "svm npt cx16" };
            put(
                "proc/cpuinfo",
                &format!(
                    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC \
                     9654\nstepping\t: 1\nflags\t\t: {flags}\n"
                ),
            );
            put("sys/module/kvm_amd/initstate", "live\n");
            put("sys/module/kvm_amd/refcnt", "0\n");
            put("sys/module/kvm_amd/parameters/avic", parameter);
            put("sys/module/kvm_amd/parameters/npt", "Y\n");
            put("sys/module/kvm_amd/parameters/enable_ipiv", "Y\n");
            put("sys/class/iommu/ivhd0/amd-iommu/features", "25bf732fa2295afe:1d\n");
        } else {
            let flags = if self.can {
                "vnmi posted_intr tsc_offset vtpr ept vpid apicv vapic_reg vid shadow_vmcs"
            } else {
                "vnmi tsc_offset vtpr ept vpid"
            };
            put(
                "proc/cpuinfo",
                &format!(
                    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Intel(R) \
                     Xeon(R) Platinum 8480+\nstepping\t: 8\nflags\t\t: vmx cx16\nvmx flags\t: {flags}\n"
                ),
            );
            put("sys/module/kvm_intel/initstate", "live\n");
            put("sys/module/kvm_intel/refcnt", "0\n");
            put("sys/module/kvm_intel/parameters/enable_apicv", parameter);
        }
        put("proc/sys/kernel/osrelease", &format!("{}\n", self.kernel));
        put("proc/cmdline", "quiet\n");
        put(
            "proc/interrupts",
            "           CPU0\n PIN:   0   Posted-interrupt notification event\n",
        );
        put("sys/module/kvm/refcnt", "1\n");
        for number in 0..self.vms {
            put(&format!("proc/{}/cmdline", 4000 + number), &self.vm(number));
        }
    }
}
