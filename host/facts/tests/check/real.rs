//! Real machines' tables, registers and CPUID, read from a folder of collected data. Skipped, with
//! a notice, where the data is not there: set AVICENNA_DATA to its folder.

use crate::fixture::Host;
use facts::{acpi, cpuid};
use reading::{cpu::Register, iommu::Efr};
use rules::Answer;
use rules::capability::Row;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn data(folder: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = std::env::var_os("AVICENNA_DATA")
        .map(PathBuf::from)
        .into_iter()
        .chain(["../shared/data", "../../shared/data"].map(|path| workspace.join(path)))
        .find(|path| path.is_dir());
    let found = root.map(|root| root.join(folder)).filter(|path| path.is_dir());
    if found.is_none() {
        println!("skipped: no {folder} in AVICENNA_DATA or ../shared/data");
    }
    found
}

/// Rows of a CSV file by the header's names. A quote protects commas.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| {
        let mut fields = vec![String::new()];
        let mut is_quoted = false;
        for c in line.chars() {
            match c {
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => fields.push(String::new()),
                _ => fields.last_mut().unwrap().push(c),
            }
        }
        fields
    });
    let names = lines.next().unwrap();
    lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect()
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// The few tables that are kept here, and all where the collection is there.
fn acpi_folders() -> Vec<PathBuf> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/acpi");
    [kept].into_iter().chain(data("acpi")).collect()
}

/// The collection has a folder for the tables.
fn table(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).or_else(|_| fs::read(folder.join("tables").join(name))).unwrap()
}

#[test]
fn real_ivrs_tables_read_as_recorded() {
    acpi_folders().iter().for_each(|folder| check_ivrs(folder));
}

fn check_ivrs(folder: &Path) {
    let mut expected: BTreeMap<String, Vec<BTreeMap<String, String>>> = BTreeMap::new();
    for row in rows(&folder.join("ivrs.csv")) {
        expected.entry(row["hwid"].clone()).or_default().push(row);
    }
    for (hwid, blocks) in &expected {
        let bytes = table(folder, &format!("IVRS_{hwid}.aml"));
        let table = acpi::ivrs(&bytes).unwrap_or_else(|damage| panic!("{hwid}: {damage}"));
        assert_eq!(table.blocks.len(), blocks.len(), "{hwid}");
        assert_eq!(table.checksum_is_right, blocks[0]["checksum"] == "ok", "{hwid}");
        assert_eq!(u64::from(table.iv_info), hexadecimal(&blocks[0]["ivinfo"]), "{hwid}");
        for (block, row) in table.blocks.iter().zip(blocks) {
            assert_eq!(u64::from(block.kind), hexadecimal(&row["type"]), "{hwid}");
            assert_eq!(u64::from(block.flags), hexadecimal(&row["flags"]), "{hwid}");
            assert_eq!(
                u64::from(block.attributes),
                hexadecimal(&row["featinfo_or_attr"]),
                "{hwid}"
            );
            let register = |name: &str| (!row[name].is_empty()).then(|| hexadecimal(&row[name]));
            assert_eq!((block.efr, block.efr2), (register("efr"), register("efr2")), "{hwid}");
        }
    }
    println!("{} IVRS tables", expected.len());
}

#[test]
fn real_dmar_tables_read_as_recorded() {
    acpi_folders().iter().for_each(|folder| check_dmar(folder));
}

fn check_dmar(folder: &Path) {
    let expected = rows(&folder.join("dmar.csv"));
    for row in &expected {
        let hwid = &row["hwid"];
        let bytes = table(folder, &format!("DMAR_{hwid}.aml"));
        let table = acpi::dmar(&bytes).unwrap_or_else(|damage| panic!("{hwid}: {damage}"));
        let found = [
            u64::from(table.flags),
            u64::from(table.has_interrupt_remapping()),
            u64::from(table.opts_out_of_x2apic()),
            u64::from(table.opts_in_to_dma_control()),
        ];
        let wanted = ["flags", "intr_remap", "x2apic_opt_out", "dma_ctrl_optin"]
            .map(|name| hexadecimal(&row[name]));
        assert_eq!(found, wanted, "{hwid}");
        assert_eq!(table.checksum_is_right, row["checksum"] == "ok", "{hwid}");
        assert!(!table.units.is_empty(), "{hwid}");
    }
    println!("{} DMAR tables", expected.len());
}

#[test]
fn known_feature_registers_answer_as_their_machines_do() {
    let Some(folder) = data("acpi") else { return };
    for row in rows(&folder.join("efr_known.csv")) {
        let efr = hexadecimal(&row["efr"]);
        let found =
            [Efr(efr).has_x2apic(), Efr(efr).has_guest_apic(), Efr(efr).has_guest_apic_mode()];
        let wanted =
            ["xt_x2apic(b2)", "ga_GASup(b7)", "gam_GAMSup(b23:21)"].map(|name| row[name] == "1");
        assert_eq!(found, wanted, "{efr:#x}");

        // The whole host, in each format the kernel has used.
        let efr2 = row["efr2"].trim_start_matches("0x").to_string();
        let is_usable = row["iommu_avic_usable"] == "yes";
        let is_snp = row["iommu_avic_usable"].contains("SNP");
        let second = if efr2.is_empty() { "0" } else { &efr2 };
        let forms = [
            (format!("{efr:x}"), "5.15.100"),
            (format!("{second}:{efr:x}"), "6.1.50"),
            (format!("{efr:x}:{second}"), "6.18.44"),
        ];
        for (features, kernel) in forms {
            let mut host = Host::amd().with(&[
                ("sys/class/iommu", None),
                ("sys/firmware", None),
                ("avicenna/dmesg.txt", None),
            ]);
            host.put("sys/class/iommu/ivhd0/amd-iommu/features", features.clone().into_bytes());
            host.put("proc/sys/kernel/osrelease", kernel.as_bytes().to_vec());
            if is_snp {
                host.put(
                    "avicenna/dmesg.txt",
                    b"AMD-Vi: Force to disable Virtual APIC due to SNP".to_vec(),
                );
            }
            let report = host.report();
            let answer = report.finding(Row::named("iommu-guest-apic-on").unwrap()).unwrap();
            assert_eq!(
                answer.answer,
                Answer::from(is_usable),
                "{features} on {kernel}: {}",
                answer.reason
            );
        }
    }
}

#[test]
fn real_processors_of_libvirt_read_and_answer() {
    let Some(folder) = data("libvirt/cputestdata") else { return };
    let (mut amd, mut intel) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if !text.contains("<cpuid eax_in") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let processors = cpuid::parse(&text);
        assert_eq!(processors.len(), 1, "{name}");
        let cpuid = &processors[0].cpuid;
        let vendor = cpuid.vendor().unwrap_or_else(|| panic!("{name}"));
        let inputs = facts::recorded(&path).unwrap();
        let report = rules::capability::check(&facts::facts(&inputs));
        let answer =
            |id: &str| report.finding(Row::named(id).unwrap()).map(|finding| finding.answer);
        if vendor.has_svm() {
            amd += 1;
            let avic = cpuid.bit(0x8000_000A, Register::Edx, 13);
            assert_eq!(answer("cpu-avic"), Some(Answer::from(avic)), "{name}");
        } else if vendor.has_vmx() {
            intel += 1;
            let vmx = cpuid.bit(1, Register::Ecx, 5);
            assert_eq!(answer("cpu-vmx"), Some(Answer::from(vmx)), "{name}");
            // Without capability registers the model tells, if it does.
            let by_model = [
                ("Xeon-E5-2630-v3.xml", Answer::Yes),
                ("Xeon-E5-2650-v4.xml", Answer::Yes),
                ("Xeon-Platinum-8268.xml", Answer::Yes),
                ("Xeon-E5-2650.xml", Answer::No),
                ("Core-i7-8700.xml", Answer::No),
                ("Xeon-E7-4820.xml", Answer::Unknown),
            ];
            let known = by_model.iter().find(|(end, _)| name.ends_with(end));
            let expected =
                if vmx == Some(true) { known.map(|known| known.1) } else { Some(Answer::No) };
            let posted = answer("cpu-posted-interrupts");
            assert!(expected.is_none() || posted == expected, "{name}: {posted:?}");
        }
        assert_ne!(
            report.answers[0].answer,
            Answer::Yes,
            "{name}: a processor alone never proves that the feature is on"
        );
    }
    println!("{amd} AMD and {intel} Intel processors");
    assert!(amd >= 10 && intel >= 30);
}

#[test]
fn real_lscpu_reports_answer_by_their_flags() {
    let Some(folder) = data("lscpu/raw") else { return };
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let report = rules::capability::check(&facts::facts(&facts::recorded(&path).unwrap()));
        let flags = text.lines().find(|line| line.starts_with("Flags:")).unwrap_or("");
        if let Some(row) = report.finding(Row::named("cpu-avic").unwrap()) {
            let listed = flags.split_whitespace().any(|flag| flag == "avic");
            assert_eq!(row.answer, Answer::from(listed), "{}", path.display());
        }
        count += 1;
    }
    println!("{count} lscpu reports");
}

#[test]
fn recorded_inhibits_give_the_share_of_time_that_kvm_had() {
    let Some(folder) = data("inhibit") else { return };
    // Outcomes by the kernel: reinjection is never cleared, and discarding clears it at once.
    let rows = [
        ("pc-default", true),
        ("pc-default-xapic", true),
        ("pc-hyperv", true),
        ("pc-nopit-hpet", true),
        ("pc-pit-discard", false),
    ];
    for (name, is_inhibited) in rows {
        let packed = fs::read(folder.join(format!("inhibit-{name}.trace.txt.zst"))).unwrap();
        let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
        let trace = facts::watch::parse(&text);
        let numbering = trace::inhibit::Numbering::of_kernel("6.1.0").unwrap();
        let seen = trace.observe(&trace.threads(), &numbering);
        let share = seen.active_share().unwrap();
        println!(
            "{name}: active {:.1} % of {:.1} s, {} changes",
            share * 100.0,
            seen.seconds,
            seen.changes
        );
        assert_eq!(share < 0.1, is_inhibited, "{name}: {seen:?}");
        let reinjects = seen.reasons.iter().any(|(reason, seconds)| {
            *reason == trace::inhibit::Reason::PitReinject && *seconds > seen.seconds * 0.5
        });
        assert_eq!(reinjects, is_inhibited, "{name}: {:?}", seen.reasons);
    }
}
