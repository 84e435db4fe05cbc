use super::options::{with_options, without_options};

#[test]
fn options_file_has_one_place_for_each_option() {
    let once = with_options("", "kvm_amd", &[("avic", "1")]);
    assert_eq!(
        once,
        "# Written by avicenna enable; avicenna rollback takes it back.\noptions kvm_amd avic=1\n"
    );
    assert_eq!(with_options(&once, "kvm_amd", &[("avic", "1")]), once, "idempotent");
    let both = with_options(&once, "kvm_amd", &[("nested", "0")]);
    assert!(both.ends_with("options kvm_amd avic=1\noptions kvm_amd nested=0\n"));
}

#[test]
fn only_contradicting_options_go() {
    let rows = [
        ("options kvm_amd avic=0 nested=1\n", "options kvm_amd nested=1\n"),
        ("options kvm-amd avic=0\n# note\n", "# note\n"),
        ("options kvm_amd avic=Y   nested=1\n", "options kvm_amd avic=Y   nested=1\n"),
        ("options kvm_intel avic=0\n", "options kvm_intel avic=0\n"),
        ("blacklist kvm_amd\n", "blacklist kvm_amd\n"),
        ("", ""),
    ];
    for (before, after) in rows {
        assert_eq!(without_options(before, "kvm_amd", &[("avic", "1")]), after, "{before}");
    }
}
