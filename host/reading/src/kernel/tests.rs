use super::*;

#[test]
fn stable_level_comes_from_the_banner_where_the_release_hides_it() {
    let debian = "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) \
                  12.2.0) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-1 (2026-10-01)";
    let rows = [
        ("6.18.44", None, Some((6, 18, 44)), false),
        ("6.1.0-56-amd64", Some(debian), Some((6, 1, 192)), false),
        ("6.1.0-56-amd64", None, None, false),
        ("5.15.0-204.147.6.el8uek.x86_64", None, None, true),
        ("6.17.0-rc3", None, None, false),
        ("7.3.1-arch1-1", None, Some((7, 3, 1)), false),
    ];
    for (release, banner, stable, backports) in rows {
        let kernel = Kernel::parse(release, banner).unwrap();
        let got = kernel.stable.map(|v| (v.major, v.minor, v.patch));
        assert_eq!((got, kernel.has_backports()), (stable, backports), "{release}");
    }
    assert_eq!(Kernel::parse("not a version", None), None);
}

/// Releases as the distributions of sixteen vendors print them, and whether they have x2AVIC, AVIC
/// by default and Intel's IPI virtualization as far as that is documented: upstream's by version;
/// Red Hat's, Oracle's, Ubuntu's and Proxmox's by the sources of the rows of `backport`; the
/// others' by number alone, which says yes and never no.
#[test]
fn releases_of_distributions_are_never_wrong_for_certain() {
    use KernelFeature as F;
    const YES: Option<bool> = Some(true);
    const NO: Option<bool> = Some(false);
    let rows: [(&str, [Option<bool>; 3]); 86] = [
        // Upstream
        ("5.15.168", [NO, NO, NO]),
        ("5.19.17", [NO, NO, NO]),
        ("6.0.0", [YES, NO, YES]),
        ("6.1.100", [YES, NO, YES]),
        ("6.17.0-rc3", [YES, NO, YES]),
        ("6.18.0-rc1", [YES, YES, YES]),
        ("6.18.44", [YES, YES, YES]),
        ("7.3.1", [YES, YES, YES]),
        // Debian, whose stable kernels take upstream's stable updates
        ("5.10.0-32-amd64", [NO, NO, NO]),
        ("6.1.0-56-amd64", [YES, NO, YES]),
        ("6.1.0-21-cloud-amd64", [YES, NO, YES]),
        ("6.12.41+deb13-amd64", [YES, NO, YES]),
        ("6.5.0-0.deb12.4-amd64", [YES, NO, YES]),
        // Arch, Gentoo, Fedora, Alpine, Manjaro, NixOS, ELRepo
        ("7.3.1-arch1-1", [YES, YES, YES]),
        ("5.18.16-arch1-1", [NO, NO, NO]),
        ("6.6.30-1-lts", [YES, NO, YES]),
        ("6.9.7-zen1-1-zen", [YES, NO, YES]),
        ("6.6.21-gentoo", [YES, NO, YES]),
        ("5.17.6-300.fc36.x86_64", [NO, NO, NO]),
        ("6.8.5-301.fc40.x86_64", [YES, NO, YES]),
        ("6.18.3-200.fc43.x86_64", [YES, YES, YES]),
        ("6.6.32-0-virt", [YES, NO, YES]),
        ("6.9.3-3-MANJARO", [YES, NO, YES]),
        ("5.4.277-1.el8.elrepo.x86_64", [NO, NO, NO]),
        ("6.18.2-1.el9.elrepo.x86_64", [YES, YES, YES]),
        // Red Hat and those who build from its source
        ("3.10.0-1160.el7.x86_64", [None, None, None]),
        ("4.18.0-240.el8.x86_64", [NO, NO, NO]),
        ("4.18.0-348.23.1.el8_5.x86_64", [NO, NO, NO]),
        ("4.18.0-477.27.1.el8_8.x86_64", [NO, NO, NO]),
        ("4.18.0-477.90.1.el8_8.x86_64", [None, NO, NO]),
        ("4.18.0-500.el8.x86_64", [None, NO, NO]),
        ("4.18.0-513.5.1.el8_9.x86_64", [YES, NO, NO]),
        ("4.18.0-553.el8_10.x86_64", [YES, NO, NO]),
        ("4.18.0-553.999.1.el8_10.x86_64", [YES, None, None]),
        ("4.18.0-553.el8_10.centos.plus.x86_64", [None, None, None]),
        ("5.14.0-70.13.1.el9_0.x86_64", [NO, NO, NO]),
        ("5.14.0-162.23.1.el9_1.x86_64", [NO, NO, NO]),
        ("5.14.0-162.99.1.el9_1.x86_64", [None, NO, None]),
        ("5.14.0-250.el9.x86_64", [None, NO, None]),
        ("5.14.0-284.11.1.el9_2.x86_64", [YES, NO, YES]),
        ("5.14.0-427.13.1.el9_4.x86_64", [YES, NO, YES]),
        ("5.14.0-503.11.1.el9_5.x86_64", [YES, NO, YES]),
        ("5.14.0-503.11.1.el9_5.x86_64+rt", [YES, NO, YES]),
        ("5.14.0-700.el9.x86_64", [YES, None, YES]),
        ("5.14.0-427.13.1.el9_4.cloudlinux.x86_64", [None, None, None]),
        ("5.14.0-427.44.1.vz9.80.6", [None, None, None]),
        ("6.12.0-55.9.1.el10_0.x86_64", [YES, NO, YES]),
        // Oracle
        ("5.4.17-2136.320.7.1.el8uek.x86_64", [None, None, None]),
        ("5.15.0-100.96.32.el8uek.x86_64", [None, None, None]),
        ("5.15.0-204.146.1.el8uek.x86_64", [YES, None, None]),
        ("5.15.0-204.147.6.el8uek.x86_64", [YES, None, None]),
        ("5.15.0-209.161.7.2.el9uek.x86_64", [YES, None, None]),
        ("6.12.0-0.20.20.el9uek.x86_64", [YES, None, YES]),
        // SUSE
        ("5.14.21-150500.55.19-default", [None, None, None]),
        ("5.3.18-150300.59.106-default", [None, None, None]),
        ("6.4.0-150600.23.7-default", [YES, None, YES]),
        ("6.18.2-1-default", [YES, YES, YES]),
        ("6.12.0-160000.5-default", [YES, None, YES]),
        // Ubuntu
        ("5.4.0-150-generic", [NO, NO, NO]),
        ("5.4.0-999-generic", [None, None, None]),
        ("5.15.0-91-generic", [NO, NO, NO]),
        ("5.15.0-185-generic", [NO, NO, NO]),
        ("5.15.0-186-generic", [None, None, None]),
        ("6.5.0-45-generic", [YES, None, YES]),
        ("6.14.0-37-generic", [YES, None, YES]),
        ("5.15.0-1050-aws", [None, None, None]),
        ("6.8.0-31-generic", [YES, None, YES]),
        ("6.8.0-1008-azure", [YES, None, YES]),
        ("5.19.0-50-lowlatency", [None, None, None]),
        // Proxmox
        ("5.15.158-2-pve", [NO, NO, NO]),
        ("5.15.102-1-pve", [NO, NO, NO]),
        ("5.13.19-6-pve", [None, None, None]),
        ("6.2.16-20-pve", [YES, None, YES]),
        ("6.8.12-4-pve", [YES, None, YES]),
        ("6.14.11-1-pve", [YES, None, YES]),
        // Amazon
        ("5.10.223-211.872.amzn2.x86_64", [None, None, None]),
        ("6.1.115-126.197.amzn2023.x86_64", [YES, None, YES]),
        // openEuler, Anolis, Alibaba, Tencent, Kylin
        ("5.10.0-136.12.0.86.oe2203sp1.x86_64", [None, None, None]),
        ("6.6.0-72.0.0.76.oe2403sp1.x86_64", [YES, None, YES]),
        ("5.10.134-16.an8.x86_64", [None, None, None]),
        ("5.10.134-17.2.al8.x86_64", [None, None, None]),
        ("5.4.119-19.0009.28.tl3", [None, None, None]),
        // Others with trees of their own: ChromeOS, Azure Linux, XCP-ng, veLinux
        ("6.1.90+", [YES, None, YES]),
        ("5.15.153.1-2.cm2", [None, None, None]),
        ("4.19.0+1", [None, None, None]),
        ("5.15.0-velinux1u3-amd64", [None, None, None]),
    ];
    let mut wrong = vec![];
    for (release, truth) in rows {
        let kernel = Kernel::parse(release, None).unwrap();
        let features = [F::X2avic, F::AvicByDefault, F::IntelIpiv];
        for (feature, truth) in features.into_iter().zip(truth) {
            if kernel.has(feature) != truth {
                wrong.push((release, feature, kernel.has(feature)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn what_the_host_shows_counts_more_than_the_number() {
    let kernel = Kernel::parse("5.14.21-150500.55.19-default", None).unwrap();
    assert_eq!(kernel.has(KernelFeature::IntelIpiv), None);
    let shown = kernel.with(vec![(KernelFeature::IntelIpiv, true)]);
    assert_eq!(shown.has(KernelFeature::IntelIpiv), Some(true));
    let bottlerocket =
        "Linux version 5.15.160 (builder@buildkitsandbox) (x86_64-bottlerocket-linux-gnu-gcc)";
    let kernel = Kernel::parse("5.15.160", Some(bottlerocket)).unwrap();
    assert_eq!(kernel.has(KernelFeature::X2avic), None);
}
