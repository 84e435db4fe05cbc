//! The published check of IOMMU AVIC, beside ours: it takes what stands after the last colon of the
//! feature file for the feature register, which since Linux 6.7 is the second register.

use crate::fixture::Host;
use rules::Answer::{self, No, Yes};
use rules::capability::Row;

/// What the published script answers for the content of the first unit's feature file.
fn published_script(features: &str) -> Answer {
    let bitmap = features.rsplit(':').next().unwrap_or(features);
    let bitmap = u64::from_str_radix(bitmap, 16).expect("a number, as the script assumes");
    let needed = 1 << 7 | 1 << 21;
    Answer::from(bitmap & needed == needed)
}

fn ours(features: &str, kernel: &str) -> Answer {
    let mut host = Host::amd().with(&[("sys/class/iommu", None), ("avicenna/dmesg.txt", None)]);
    host.put("sys/class/iommu/ivhd0/amd-iommu/features", features.as_bytes().to_vec());
    host.put("proc/sys/kernel/osrelease", kernel.as_bytes().to_vec());
    let report = host.report();
    let answer = |id| {
        report
            .finding(Row::named(id).unwrap())
            .map(|finding| finding.answer)
            .expect("a row for the unit")
    };
    answer("iommu-guest-apic").and(answer("iommu-guest-apic-mode"))
}

#[test]
fn published_script_is_wrong_from_6_7_on_and_ours_is_right_on_every_kernel() {
    // Features of EPYC 9004 as three eras of kernels print them; the machine can do it.
    let rows = [
        ("25bf732fa2295afe", "5.15.100", Yes, Yes),
        ("1d:25bf732fa2295afe", "6.1.60", Yes, Yes),
        ("25bf732fa2295afe:1d", "6.7.0", No, Yes),
        ("25bf732fa2295afe:1d", "6.12.10", No, Yes),
        ("25bf732fa2295afe:53d", "6.18.44", No, Yes),
        // EPYC 7003 cannot, and both say so.
        ("841f77e022094ace:0", "6.12.10", No, No),
        // B550: GASup is clear although the kernel prints GA_vAPIC.
        ("58f77ef22294a5a:0", "6.12.10", No, No),
    ];
    for (features, kernel, script, right) in rows {
        let found = (published_script(features), ours(features, kernel));
        println!("{features:22} on {kernel:9}: published script {}, avicenna {}", found.0, found.1);
        assert_eq!(found, (script, right), "{features} on {kernel}");
    }
}
