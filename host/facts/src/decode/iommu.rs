//! IOMMU units of sysfs. The AMD feature file changed its format twice; see [`features`].

use crate::inputs::Inputs;
use reading::iommu::FeatureFormat;
use reading::{AmdFeatures, Fact, Iommu, IommuKind, Kernel, KernelFeature, Reading};

/// Most units that are read; the largest machines have 128.
const UNITS_LIMIT: usize = 1024;

pub fn units(inputs: &Inputs, kernel: Option<&Kernel>) -> Fact<Vec<Iommu>> {
    const FOLDER: &str = "sys/class/iommu/";
    let place = "/sys/class/iommu";
    let mut names: Vec<&str> = vec![];
    for (path, _) in inputs.below(FOLDER) {
        if let Some(name) = path[FOLDER.len()..].split('/').next()
            && names.last() != Some(&name)
            && names.len() < UNITS_LIMIT
        {
            names.push(name);
        }
    }
    names.sort_by_key(|name| {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        (name.len() - digits.len(), digits.parse::<u32>().unwrap_or(0))
    });
    if names.is_empty() {
        return match inputs.was_searched("sys/class/iommu") {
            true => Fact::absent(place),
            false => Fact::unreadable(place, "not recorded in this input"),
        };
    }
    Fact {
        place: place.into(),
        reading: Reading::Value(names.iter().map(|name| unit(inputs, name, kernel)).collect()),
    }
}

fn unit(inputs: &Inputs, name: &str, kernel: Option<&Kernel>) -> Iommu {
    let text = |file: &str| inputs.text(&format!("sys/class/iommu/{name}/{file}"));
    let number = |file: &str| {
        text(file).and_then(|text| hexadecimal(&text).ok_or(format!("'{text}' is not a number")))
    };
    let is_amd = inputs.has_below(&format!("sys/class/iommu/{name}/amd-iommu/"));
    Iommu {
        name: name.into(),
        kind: if is_amd { IommuKind::AmdVi } else { IommuKind::VtD },
        amd: text("amd-iommu/features").and_then(|text| features(&text, kernel)),
        cap: number("intel-iommu/cap"),
        ecap: number("intel-iommu/ecap"),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    let text = text.trim();
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The largest second register that any known machine has: bits 13:0 are assigned.
const SECOND_LIMIT: u64 = 0x3FFF;

/// Reads the feature file in any of its formats.
///
/// `EFR` up to 5.19; `EFR2:EFR` from 6.0; `EFR:EFR2` from 6.7 (commit 7b7563a93437). The values
/// themselves tell which is which, since the second register has few bits and the first many; the
/// version decides what they leave open. Distribution kernels carry the change under older
/// versions.
pub fn features(text: &str, kernel: Option<&Kernel>) -> Result<AmdFeatures, String> {
    let no_number = || format!("'{text}' is none of EFR, EFR2:EFR, EFR:EFR2");
    let Some((left, right)) = text.split_once(':') else {
        let efr = hexadecimal(text).ok_or_else(no_number)?;
        return Ok(AmdFeatures { efr, efr2: None, format: FeatureFormat::EfrOnly });
    };
    let (left, right) =
        (hexadecimal(left).ok_or_else(no_number)?, hexadecimal(right).ok_or_else(no_number)?);
    let first = AmdFeatures { efr: left, efr2: Some(right), format: FeatureFormat::FirstFirst };
    let second = AmdFeatures { efr: right, efr2: Some(left), format: FeatureFormat::SecondFirst };
    if left > SECOND_LIMIT && right <= SECOND_LIMIT {
        return Ok(first);
    }
    if right > SECOND_LIMIT && left <= SECOND_LIMIT {
        return Ok(second);
    }
    match kernel.and_then(|kernel| kernel.has(KernelFeature::FirstRegisterFirst)) {
        Some(true) => Ok(first),
        Some(false) => Ok(second),
        None if left == 0 => Ok(second),
        None if right == 0 => Ok(first),
        None => Err(format!(
            "'{text}': which is the first register depends on the kernel, which is not known"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(release: &str) -> Option<Kernel> {
        Kernel::parse(release, None)
    }

    #[test]
    fn feature_file_reads_in_all_three_formats() {
        let genoa = (0x25bf732fa2295afe, Some(0x53d));
        let rows = [
            ("58f77ef22294ade", "5.19.0", (0x058f77ef22294ade, None), FeatureFormat::EfrOnly),
            ("53d:25bf732fa2295afe", "6.1.20", genoa, FeatureFormat::SecondFirst),
            ("25bf732fa2295afe:53d", "6.8.4", genoa, FeatureFormat::FirstFirst),
            // A distribution that took the change into an older version.
            ("25bf732fa2295afe:53d", "5.14.0-503.el9.x86_64", genoa, FeatureFormat::FirstFirst),
            (
                "0:25bf732fa2295afe",
                "6.1.20",
                (0x25bf732fa2295afe, Some(0)),
                FeatureFormat::SecondFirst,
            ),
            (
                "25bf732fa2295afe:0",
                "6.18.1",
                (0x25bf732fa2295afe, Some(0)),
                FeatureFormat::FirstFirst,
            ),
            ("29d7:0", "6.18.1", (0x29d7, Some(0)), FeatureFormat::FirstFirst),
            ("0:29d7", "6.1.1", (0x29d7, Some(0)), FeatureFormat::SecondFirst),
        ];
        for (text, release, (efr, efr2), format) in rows {
            let got = features(text, kernel(release).as_ref());
            assert_eq!(got, Ok(AmdFeatures { efr, efr2, format }), "{text} on {release}");
        }
    }

    #[test]
    fn two_plausible_registers_without_a_kernel_are_not_guessed() {
        assert!(features("29d7:10", None).is_err());
        assert!(features("", None).is_err());
        assert!(features("x:y", kernel("6.8.0").as_ref()).is_err());
    }

    #[test]
    fn a_register_is_a_value_absent_unreadable_or_not_understood() {
        let cap = |fill: &dyn Fn(&mut Inputs)| {
            let mut inputs = Inputs::new("test");
            fill(&mut inputs);
            unit(&inputs, "dmar0", None).cap.reading
        };
        let file = "sys/class/iommu/dmar0/intel-iommu/cap";
        let put = |bytes: &'static [u8]| {
            cap(&|inputs| {
                inputs.insert(file, bytes.to_vec());
            })
        };
        assert_eq!(put(b"c9de008cee690462\n"), Reading::Value(0xc9de_008c_ee69_0462));
        let found = Reading::NotUnderstood("'c9de008cee69046z' is not a number".into());
        assert_eq!(put(b"c9de008cee69046z\n"), found);
        assert_eq!(put(b""), Reading::NotUnderstood("'' is not a number".into()));
        assert_eq!(cap(&|inputs| inputs.mark_searched("sys")), Reading::Absent);
        assert_eq!(
            cap(&|inputs| inputs.insert_unreadable(file, "permission denied")),
            Reading::Unreadable("permission denied".into())
        );
        let reason = Reading::Unreadable("not recorded in this input".into());
        assert_eq!(cap(&|_| ()), reason);
    }
}
