use super::*;
use crate::svm::AVIC_IPI_ERRATUM;

#[test]
fn every_model_that_comes_with_the_machine_parses_bears_its_name_and_lacks_nothing() {
    for name in CpuModel::names() {
        let as_it_comes = CpuModel::as_it_comes(name).unwrap().features;
        assert_eq!(CpuModel::named(name).unwrap().features, as_it_comes);
        assert_eq!(CpuModel::named(name).map(|model| model.name), Ok(name.to_owned()));
    }
}

#[test]
fn the_signature_of_zen_4_is_split_as_real_parts_show_it() {
    assert_eq!(CpuModel::named("zen4").unwrap().signature(), 0x00A1_0F11);
}

#[test]
fn signatures_of_intel_parts_are_split_as_real_parts_show_them() {
    let rows = [
        ("ivy-bridge-ep", 0x0003_06E4),
        ("haswell-ep", 0x0003_06F2),
        ("skylake-sp", 0x0005_0654),
        ("ice-lake-sp", 0x0006_06A6),
        ("sapphire-rapids", 0x0008_06F8),
    ];
    for (name, signature) in rows {
        assert_eq!(CpuModel::named(name).unwrap().signature(), signature, "{name}");
    }
}

#[test]
fn models_announce_vmx_where_the_capabilities_of_their_parts_are_known() {
    for name in CpuModel::names() {
        let model = CpuModel::named(name).unwrap();
        let is_known = model.virtualization().is_some();
        assert_eq!(model.has(Feature::Vmx), is_known, "{name}");
        assert_eq!(crate::vmx::Vmx::new(&model).capabilities.is_some(), is_known, "{name}");
    }
}

#[test]
fn each_generation_has_the_avic_that_its_parts_show() {
    let rows = [
        ("zen2", true, false, false, true),
        ("zen3", false, false, false, false),
        ("zen4", true, true, true, false),
        ("zen5", true, true, true, false),
    ];
    for (name, avic, x2avic, vnmi, erratum) in rows {
        let model = CpuModel::named(name).unwrap();
        let has = |feature| model.has(feature);
        let shown = (has(Feature::Avic), has(Feature::X2avic), has(Feature::Vnmi));
        assert_eq!(shown, (avic, x2avic, vnmi), "{name}");
        assert_eq!(model.has_erratum(AVIC_IPI_ERRATUM), erratum, "{name}");
    }
}

#[test]
fn an_erratum_that_is_not_modelled_is_refused() {
    let text = include_str!("../../../models/zen2.toml").replace("1235", "1");
    let error = CpuModel::parse(&text).unwrap_err();
    assert_eq!(error, ModelError::File("errata: 1 is not modelled; there are 1235".to_owned()));
}

const ZEN4: &str = include_str!("../../../models/zen4.toml");

#[test]
fn a_file_that_says_nonsense_is_refused_with_the_key_and_what_is_allowed() {
    let rows = [
        ("stepping = 1", "steping = 1", "unknown field `steping`, expected one of `name`"),
        ("stepping = 1", "", "missing field `stepping`"),
        ("family = 0x19", "family = -1", "family"),
        ("\"avic\"", "\"avick\"", "features: \"avick\" is none; there are avx, avx2, avic"),
        ("AuthenticAMD", "AMD", "vendor is \"AMD\", must be 12 characters"),
        ("\"0x25BF_732F_A229_5AFE\"", "\"25\"", "must be 0x and up to 16 hexadecimal digits"),
        ("\"svm\"", "\"svm\", \"vmx\"", "the table [vmx] with the part's capability MSRs"),
        ("l3 = 33554432", "l3 = 33554432, l4 = 1", "unknown field `l4`"),
    ];
    for (right, wrong, message) in rows {
        assert!(ZEN4.contains(right), "{right}");
        let error = CpuModel::parse(&ZEN4.replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn raw_leaves_are_answered_as_they_are_where_nothing_else_makes_them() {
    let raw = "\n[[leaves.raw]]\nleaf = 0x8000_0027\nsubleaf = 1\neax = 0x11\nedx = 0xFFFF_FFFF\n\
               [[leaves.raw]]\nleaf = 0xC\nebx = 7\n";
    let model = CpuModel::parse(&format!("{ZEN4}{raw}")).unwrap();
    let [eax, ebx, ecx, edx] = [0x11, 0, 0, 0xFFFF_FFFF];
    assert_eq!(model.cpuid(0x8000_0027, 1), crate::system::cpuid::Leaf { eax, ebx, ecx, edx });
    assert_eq!(model.cpuid(0x8000_0027, 0), Default::default());
    assert_eq!(model.cpuid(0xC, 0xFF).ebx, 7);
    assert_eq!(model.cpuid(0x8000_0000, 0).eax, 0x8000_0027, "software asks for it");
    let plain = CpuModel::named("zen4").unwrap();
    assert_eq!(plain.cpuid(0x8000_0000, 0).eax, 0x8000_0021);
    for (leaf, message) in [
        ("0x7", "leaves.raw has leaf 0x7, which follows from the model's features"),
        ("0x8000_0008", "leaves.raw has leaf 0x80000008"),
        ("0x24", "leaves.raw: 0x24 is beyond last_leaf, which is 0xd: raise that"),
    ] {
        let text = format!("{ZEN4}\n[[leaves.raw]]\nleaf = {leaf}\n");
        let error = CpuModel::parse(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn features_can_be_taken_away_and_those_that_are_implemented_added() {
    let rows = [
        ("zen4,-avic,-x2avic", Feature::Avic, false),
        ("zen3,+avic", Feature::Avic, true),
        ("zen5,+x2avic_ext", Feature::X2avicExt, true),
        ("zen5", Feature::X2avicExt, false),
        ("zen5", Feature::ExtLvtAvicAccessChange, true),
        ("zen5,-svm", Feature::X2avic, false),
        ("zen4,-x2apic", Feature::X2avic, false),
        ("zen4,-x2apic", Feature::Avic, true),
        ("generic,+avic,+svm", Feature::Avic, true),
    ];
    for (name, feature, expected) in rows {
        assert_eq!(CpuModel::named(name).unwrap().has(feature), expected, "{name}");
    }
    for (name, part) in [
        ("zen4,avic", "must be +FEATURE or -FEATURE"),
        ("zen4,+hypervisor", "hypervisor is not implemented"),
        ("zen4,-avick", "no feature is named"),
        ("generic,+avic", "avic needs svm, which the model lacks; add +svm"),
        ("zen4,-avic,+x2avic", "x2avic needs avic"),
    ] {
        let error = CpuModel::named(name).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_unknown_model_is_refused_with_the_list() {
    let error = CpuModel::named("zen9").unwrap_err().to_string();
    assert!(error.contains("zen9") && error.contains("generic"), "{error}");
}
