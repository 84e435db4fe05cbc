use super::*;

fn redact(path: &str, text: &str) -> String {
    let mut redactor = Redactor::new([path].into_iter()).unwrap();
    String::from_utf8(redactor.file(path, text.as_bytes())).unwrap()
}

/// None of these stands where it stood in what a file held. Elsewhere a short one may, by chance:
/// what stands for one secret can be what another was.
fn gone(path: &str, rows: &[(&str, &[&str])]) {
    for (before, words) in rows {
        let after = redact(path, before);
        assert_eq!(before.len(), after.len(), "{before} became {after}");
        for word in *words {
            assert!(before.contains(word), "{before} has no {word}");
            for (at, _) in before.match_indices(word) {
                assert_ne!(&after[at..at + word.len()], *word, "{before} became {after}");
            }
        }
    }
}

#[test]
fn identities_become_others_of_the_same_form() {
    for before in [
        "12345678-1234-1234-1234-123456789abc",
        "52:54:00:12:34:56",
        "52-54-00-AB-CD-EF",
        "5254.0012.3456",
        "525400123456",
        "50:06:01:60:3c:e0:11:22",
        "0002:c903:0012:3456",
        "192.168.1.10",
        "2001:db8::1",
        "fe80::5054:ff:fe12:3456",
        "naa.600508b1001c79ade5178f0626caaa9c",
        "AQDabcDEF/012+345_678==",
        "eyJhbGciOi.JIUzI1NiJ9-x_y",
    ] {
        let text = format!("<a b='{before}'/> {before}. {before}\n");
        let after = redact("etc/libvirt/qemu/a.xml", &text);
        assert!(!after.contains(before), "{before}: {after}");
        assert_eq!(after.len(), text.len(), "{after}");
        let first = &after[6..6 + before.len()];
        assert_eq!(after.matches(first).count(), 3, "the same one everywhere: {after}");
        assert_ne!(redact("etc/libvirt/qemu/a.xml", &text), after, "another one each time");
    }
    for kept in ["127.0.0.1", "0.0.0.0", "::1", "0000:c1:00.0", "c1:00.0", "6.18.4", "2024-05-01"] {
        let text = format!("x {kept} y");
        assert!(redact("etc/pve/qemu-server/1.conf", &text).contains(kept), "{kept}");
    }
}

#[test]
fn same_address_is_the_same_in_every_form() {
    let after =
        redact("etc/libvirt/qemu/a.xml", "52:54:00:12:34:56 52-54-00-12-34-56 525400123456");
    let words: Vec<String> = after.split(' ').map(|word| word.replace([':', '-'], "")).collect();
    assert_eq!(words[0], words[1], "{after}");
}

#[test]
fn secrets_of_numbers_and_known_words_go_where_secrets_stand() {
    gone(
        "etc/libvirt/qemu/a.xml",
        &[
            ("<graphics type='vnc' passwd='1234'/>", &["1234"]),
            ("<password>4711</password>", &["4711"]),
            ("<entry name='asset'>815</entry><entry name=\"serial\">816</entry>", &["815", "816"]),
            ("<description>root kvm 471147\namd 471248</description>", &["471147", "471248"]),
            ("<title>intel kvm</title>", &["intel", "kvm"]),
            ("<name>windows</name>", &["windows"]),
            ("<oemStrings><entry>on 99</entry></oemStrings>", &["99"]),
            ("<qemu:arg value='-p'/><qemu:arg value='hunter'/>", &["hunter"]),
        ],
    );
    gone(
        "etc/pve/qemu-server/1.conf",
        &[
            ("# root password is 4711 avic", &["4711", "avic"]),
            ("cipassword: 4711", &["4711"]),
            ("password = 4711\n", &["4711"]),
            ("Authorization: Bearer 4711\n", &["4711"]),
            ("\"serial\": \"4711\"", &["4711"]),
            ("Serial Number: x4711y", &["4711"]),
            ("args: --password 4711 -p 4712", &["4711", "4712"]),
            ("listen: 10.11.12.13x 10.11.12.139q.", &["10.11.12.13"]),
            ("netroot=iscsi:root:4711@host", &["root:4711@"]),
            ("iscsi://root:4711@host/1", &["4711"]),
            ("-iscsi user=root,password=47,,11", &["47", "11"]),
            ("file.cookie=4711,server.0.key=4712", &["4711", "4712"]),
            ("X-Amz-Signature=4711&sig=4712", &["4711", "4712"]),
            ("smbios type=11,value=4711,value=4712", &["4711", "4712"]),
        ],
    );
}

#[test]
fn what_rules_need_is_untouched() {
    for (path, line) in [
        (
            "etc/pve/qemu-server/1.conf",
            "args: -global kvm-pit.lost_tick_policy=discard -machine pc-q35-9.0,accel=kvm,kernel-irqchip=split",
        ),
        ("etc/pve/qemu-server/1.conf", "hostpci0: 0000:41:00.0,pcie=1"),
        ("proc/cpuinfo", "flags : avic x2avic"),
        ("sys/class/iommu/ivhd0/amd-iommu/features", "a5bf732fa2295afe:53d"),
        ("cpuid.txt", "CPUID 8000000A: 00000001-00008000-00000000-119BFCFF"),
        (
            "cpuid.txt",
            "   0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x119bfcff",
        ),
        ("avicenna/msr/0.txt", "MSR 0x0000048b: 0x00007fff00000000"),
        ("etc/modprobe.d/a.conf", "options kvm_amd avic=1 nested=0"),
        ("avicenna/dmesg.txt", "AMD-Vi: Virtual APIC enabled"),
    ] {
        assert_eq!(redact(path, line), line);
    }
}

#[test]
fn lists_keep_what_concerns_virtual_machines() {
    let list = "USER PID COMMAND\njoe 7 /usr/bin/qemu-system-x86_64 -S\njoe 8 sh -c 4711\n";
    let after = redact("sos_commands/process/ps_auxwww", list);
    assert!(!after.contains("joe") && !after.contains("4711"), "{after}");
    assert!(after.contains(" 7 /usr/bin/qemu-system-x86_64 -S\n"), "{after}");
    let log = "usb 1-1: SerialNumber: 4711\n[ 0.1] kvm: avic\n";
    assert_eq!(redact("sos_commands/kernel/dmesg", log), "[ 0.1] kvm: avic\n");
    let dump = "MSDM @ 0x0\n    0000: 4D 53  MSDM\n\nDMAR @ 0x0\n    0000: 44 4D\n";
    assert_eq!(redact("acpidump.txt", dump), "DMAR @ 0x0\n    0000: 44 4D\n");
}

#[test]
fn names_of_files_keep_their_order_and_lead_to_what_they_name() {
    let paths = [
        "etc/modprobe.d/acme.conf",
        "etc/modprobe.d/acme2.conf",
        "etc/modprobe.d/blacklist.conf",
        "etc/modprobe.d/kvm.conf",
        "etc/modprobe.d/zeta.conf",
        "lib/modprobe.d/acme.conf",
    ];
    let mut redactor = Redactor::new(paths.into_iter()).unwrap();
    let new: Vec<String> = paths.iter().map(|path| redactor.path(path)).collect();
    assert!(new[..5].is_sorted(), "{new:?}");
    assert!(*new[0] < *"etc/modprobe.d/avicenna.conf", "{new:?}");
    assert!(!new.concat().contains("acme") && !new.concat().contains("zeta"), "{new:?}");
    assert_eq!(new[3], paths[3]);
    assert_eq!(new[0].rsplit('/').next(), new[5].rsplit('/').next(), "one hides the other");
    let name = redactor.path("etc/libvirt/qemu/windows-1.xml");
    let text = redactor.file("etc/libvirt/qemu/windows-1.xml", b"<name>windows-1</name>");
    let text = String::from_utf8(text).unwrap();
    let inner = text.trim_start_matches("<name>").trim_end_matches("</name>");
    assert_eq!(name, format!("etc/libvirt/qemu/{inner}.xml"));
    assert_eq!(redactor.path("proc/4711/cmdline"), "proc/4711/cmdline");
    assert!(
        redactor.path("sos_commands/process/ps_auxwww").starts_with("sos_commands/process/ps_")
    );
}

#[test]
fn texts_stay_well_formed() {
    let xml = "<?xml version='1.0' encoding='UTF-8'?>\n<!-- secret -->\n<domain type='kvm' \
               xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><acme a='&#x41;&amp;b'>\
               <![CDATA[x]]></acme></domain>";
    let after = redact("etc/libvirt/qemu/a.xml", xml);
    roxmltree::Document::parse(&after).unwrap_or_else(|error| panic!("{error}: {after}"));
    let json = r#"{"acme\n\u0041": ["x\"y", 1e5, true, null], "key": "a\\"}"#;
    let after = redact("etc/kernelstub/configuration", json);
    serde_json::from_str::<serde_json::Value>(&after)
        .unwrap_or_else(|error| panic!("{error}: {after}"));
}

#[test]
fn endless_line_is_dropped_whole() {
    let after = redact("etc/default/grub", &("a=b\n".to_owned() + &"x".repeat(1 << 20)));
    assert!(after.len() < 100, "{after}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_redacted_without_a_panic(before in "\\PC{0,200}") {
        for path in ["etc/libvirt/qemu/a.xml", "cpuid.txt", "proc/1/cmdline", "proc/cpuinfo"] {
            redact(path, &before);
        }
    }
}
