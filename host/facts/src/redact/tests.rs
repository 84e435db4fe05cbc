use super::*;

fn check(rows: &[(&str, &str)]) {
    for (before, after) in rows {
        assert_eq!(text(before), *after, "{before}");
    }
}

#[test]
fn identities_go_wherever_they_stand() {
    check(&[
        ("-uuid 12345678-1234-1234-1234-123456789abc", "-uuid <redacted:uuid>"),
        ("<uuid>12345678-1234-1234-1234-123456789ABC</uuid>", "<uuid><redacted:uuid></uuid>"),
        ("root=UUID=12345678-1234-1234-1234-123456789abc ro", "root=UUID=<redacted:uuid> ro"),
        ("virtio-net,mac=52:54:00:12:34:56,id=n0", "virtio-net,mac=<redacted:mac>,id=n0"),
        ("<mac address='52-54-00-ab-cd-ef'/>", "<mac address='<redacted:mac>'/>"),
        ("-vnc 192.168.1.10:1", "-vnc <redacted:address>:1"),
        ("listen=127.0.0.1 any=0.0.0.0", "listen=127.0.0.1 any=0.0.0.0"),
    ]);
}

#[test]
fn serial_numbers_go_and_serial_ports_stay() {
    check(&[
        ("-smbios type=1,serial=ABC123,sku=x", "-smbios type=1,serial=<redacted:serial>,sku=x"),
        ("virtio-blk-pci,drive=d0,serial=WD-9", "virtio-blk-pci,drive=d0,serial=<redacted:serial>"),
        ("<serial>S3RIAL</serial>", "<serial><redacted:serial></serial>"),
        ("<entry name='serial'>4711</entry>", "<entry name='serial'><redacted:serial></entry>"),
        ("<serial type='pty'>", "<serial type='pty'>"),
        ("-serial mon:stdio", "-serial mon:stdio"),
        ("-device isa-serial,chardev=c0", "-device isa-serial,chardev=c0"),
    ]);
}

#[test]
fn secrets_go_and_names_of_secret_objects_stay() {
    check(&[
        (
            "-object secret,id=sec0,data=QUJD/EVGR0hJ+w==",
            "-object secret,id=sec0,data=<redacted:secret>",
        ),
        ("key 0123456789abcdef0123456789abcdef end", "key <redacted:data> end"),
        ("-spice password=hunter2,port=5900", "-spice password=<redacted:secret>,port=5900"),
        ("password-secret=sec0", "password-secret=sec0"),
        ("api_token: abc123", "api_token: <redacted:secret>"),
        ("\"secretKey\": \"abc 123\", \"x\": 1", "\"secretKey\": \"<redacted:secret>\", \"x\": 1"),
        (
            "<graphics type='vnc' passwd='geheim'/>",
            "<graphics type='vnc' passwd='<redacted:secret>'/>",
        ),
        ("iscsi://joe:pw@san/lun", "iscsi://<redacted:user>@san/lun"),
        ("file=iscsi://joe%pa$$@san/iqn/0", "file=iscsi://<redacted:user>@san/iqn/0"),
        (
            "{\"url\":\"https://a:b@h/x@y\",\"cookie\":\"t=1\"}",
            "{\"url\":\"https://<redacted:user>@h/x@y\",\"cookie\":\"<redacted:secret>\"}",
        ),
        ("http://h/p@th https://u@h", "http://h/p@th https://<redacted:user>@h"),
        (
            "file=rbd:pool/vm:id=admin:key=AQDabc==:mon_host=h,if=none",
            "file=rbd:pool/vm:id=admin:key=<redacted:secret>,if=none",
        ),
        ("-object secret,id=s0,keyid=m0,iv=x", "-object secret,id=s0,keyid=m0,iv=x"),
        (
            "name=opt/com.coreos/config,string=TOP SECRET",
            "name=opt/com.coreos/config,string=<redacted:secret> SECRET",
        ),
        ("type=11,value=io.cred:root=pw", "type=11,value=<redacted:secret>"),
        (
            "driver=kvm-pit,property=lost_tick_policy,value=discard",
            "driver=kvm-pit,property=lost_tick_policy,value=discard",
        ),
    ]);
}

#[test]
fn secret_in_the_word_after_its_option_goes() {
    let words: Vec<String> = ["vmm", "--token", "s3cr3t", "--auth-token=abc", "--verbose", "x"]
        .map(String::from)
        .to_vec();
    assert_eq!(
        arguments(&words),
        ["vmm", "--token", "<redacted:secret>", "--auth-token=<redacted:secret>", "--verbose", "x"]
    );
}

#[test]
fn blank_in_a_word_belongs_to_the_secret() {
    let words = ["-spice", "port=1,password=two words,x=y", "name=opt/x,string=TOP SECRET"];
    assert_eq!(
        arguments(&words.map(String::from)),
        ["-spice", "port=1,password=<redacted:secret>,x=y", "name=opt/x,string=<redacted:secret>"]
    );
}

#[test]
fn what_rules_need_is_untouched() {
    let lines = [
        "-global kvm-pit.lost_tick_policy=discard -machine pc-q35-9.0,accel=kvm,kernel-irqchip=split",
        "flags : fpu vme avic x2avic v_spec_ctrl",
        "a5bf732fa2295afe:53d",
        "CPUID 8000000A: 00000001-00008000-00000000-119BFCFF",
        "   0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x119bfcff",
        "MSR 0x0000048b: 0x00007fff00000000",
        "AMD-Vi: Using global IVHD EFR:0x25bf732fa2295afe, EFR2:0x1d",
        "-device vfio-pci,host=0000:41:00.0",
        "Linux version 6.1.0-56-amd64 (x) #1 SMP Debian 6.1.192-1 (2026-10-01)",
        "options kvm_amd avic=1 nested=0",
    ];
    for line in lines {
        assert_eq!(text(line), line);
    }
}

#[test]
fn redaction_is_idempotent_and_keeps_lines() {
    let before = "password=a\nserial=b\r\nmac=52:54:00:12:34:56\nü=ö\n";
    let once = text(before);
    assert_eq!(text(&once), once);
    assert_eq!(once.lines().count(), before.lines().count());
}

#[test]
fn endless_line_is_dropped_whole() {
    assert_eq!(text(&"a".repeat(1 << 20)), "<redacted:long line>");
}

proptest::proptest! {
    #[test]
    fn any_text_is_redacted_without_a_panic(before in "\\PC{0,200}") {
        text(&before);
    }
}
