//! Secrets in every position of every format: none of them is in a snapshot.
//!
//! `AVICENNA_SEEDS` says how many corpora of 500 lines are tried, or which: 2000..3000.

use facts::Inputs;
use facts::snapshot::{Stamp, members};
use std::ops::Range;

/// Who writes the snapshots.
const STAMP: Stamp<'_> = Stamp { tool: "test", host: None, time: None };

/// A small generator that is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of(&mut self, letters: &str, length: usize) -> String {
        let letters: Vec<char> = letters.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const DIGITS: &str = "0123456789";
const HEXADECIMAL: &str = "0123456789abcdef";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A secret, and the pieces of it that may not be found: each so long that no made-up word holds it
/// by chance, of which there are 20,000 letters in a corpus.
fn secret(random: &mut Random) -> (String, Vec<String>) {
    let whole = |text: String| (text.clone(), vec![text]);
    match random.below(14) {
        0 => whole(format!("Zq{}7x", random.of(LOWER, 9))),
        1 => {
            let (first, second) = (random.of(BASE64, 22), random.of(BASE64, 21));
            whole(format!("q7{first}Zq{second}=="))
        }
        2 => whole(format!("q{}", random.of(HEXADECIMAL, 39))),
        3 => {
            let hex = |random: &mut Random, length| random.of(HEXADECIMAL, length);
            let parts = [8, 4, 4, 4, 12].map(|length| hex(random, length));
            whole(parts.join("-"))
        }
        4 => whole((0..6).map(|_| random.of(HEXADECIMAL, 2)).collect::<Vec<_>>().join(":")),
        5 => whole((0..8).map(|_| random.of(HEXADECIMAL, 2)).collect::<Vec<_>>().join(":")),
        6 => {
            whole(format!("2001:db8:{}::{}", 1000 + random.below(9000), 1000 + random.below(9000)))
        }
        7 => whole(format!(
            "{}.{}.{}.{}",
            11 + random.below(88),
            100 + random.below(156),
            100 + random.below(156),
            100 + random.below(156)
        )),
        8 => {
            let parts = [random.of(LOWER, 11), random.of(LOWER, 11)];
            (format!("q{}-x{}", parts[0], parts[1]), parts.to_vec())
        }
        9 => {
            let parts = [random.of(LOWER, 11), random.of(LOWER, 11)];
            (format!("{},,{}", parts[0], parts[1]), parts.to_vec())
        }
        10 => {
            let parts = [random.of(LOWER, 11), random.of(LOWER, 11), random.of(LOWER, 11)];
            (format!("{};{}}}{}", parts[0], parts[1], parts[2]), parts.to_vec())
        }
        11 => {
            let parts = [random.of(BASE64, 20), random.of(BASE64, 20)];
            let pieces = parts.iter().flat_map(|part| part.split(['+', '/']));
            let pieces = pieces.filter(|piece| piece.len() > 8).map(str::to_owned).collect();
            (format!("eyJ{}.{}-q_z", parts[0], parts[1]), pieces)
        }
        12 => whole(format!("naa.6{}", random.of(HEXADECIMAL, 31))),
        _ => whole(format!("1{}", random.of(DIGITS, 11))),
    }
}

/// A file's name and a line of it, with @ where a secret stands.
const LINES: &[(&str, &str)] = &[
    ("proc/7/cmdline", "-spice\0port=5900,password=@\0"),
    ("proc/7/cmdline", "-name\0guest=@,debug-threads=on\0"),
    ("proc/7/cmdline", "--token\0@\0"),
    ("proc/7/cmdline", "-p\0@\0"),
    ("proc/7/cmdline", "-object\0secret,id=s0,data=@\0"),
    ("proc/7/cmdline", "-drive\0file=@,if=none,id=d0\0"),
    ("proc/7/cmdline", "-drive\0file=/srv/@/x.img,serial=@\0"),
    ("proc/7/cmdline", "-drive\0file.driver=https,file.cookie=@,server.0.key=@\0"),
    (
        "proc/7/cmdline",
        "-blockdev\0{\"driver\":\"rbd\",\"user\":\"@\",\"key-secret\":\"x\",\"conf\":\"@\"}\0",
    ),
    ("proc/7/cmdline", "-smbios\0type=11,value=a,value=@\0"),
    ("proc/7/cmdline", "-fw_cfg\0name=opt/x,string=@\0"),
    ("proc/7/cmdline", "-netdev\0tap,id=n0,ifname=@,script=/etc/@\0"),
    ("proc/7/cmdline", "-device\0virtio-net-pci,netdev=n0,mac=@,id=@\0"),
    ("proc/7/cmdline", "-device\0@,acme=@\0"),
    ("proc/7/cmdline", "-acme\0@\0"),
    ("proc/7/cmdline", "-iscsi\0user=@,password=@\0"),
    ("proc/7/cmdline", "-append\0root=@ acme=@\0"),
    ("proc/7/cmdline", "-uuid\0@\0-vnc\0@:1,password=on\0-runas\0@\0"),
    ("proc/7/cmdline", "/home/@/bin/acme\0"),
    ("etc/libvirt/qemu/web.xml", "<name>@</name>\n"),
    (
        "etc/libvirt/qemu/web.xml",
        "<uuid>@</uuid><title>@</title><description>x @ y</description>\n",
    ),
    ("etc/libvirt/qemu/web.xml", "<graphics type='vnc' passwd='@' listen='@'/>\n"),
    ("etc/libvirt/qemu/web.xml", "<auth username='@'><secret type='ceph' uuid='@'/></auth>\n"),
    (
        "etc/libvirt/qemu/web.xml",
        "<source protocol='rbd' name='@'><host name='@' port='6789'/></source>\n",
    ),
    ("etc/libvirt/qemu/web.xml", "<mac address='@'/><target dev='@'/><alias name='@'/>\n"),
    ("etc/libvirt/qemu/web.xml", "<entry name='asset'>@</entry><entry name='x'>@</entry>\n"),
    ("etc/libvirt/qemu/web.xml", "<serial>@</serial><serial>@</serial>\n"),
    ("etc/libvirt/qemu/web.xml", "<oemStrings><entry>@</entry></oemStrings>\n"),
    ("etc/libvirt/qemu/web.xml", "<qemu:env name='API_TOKEN' value='@'/><qemu:arg value='@'/>\n"),
    ("etc/libvirt/qemu/web.xml", "<!-- @ --><acme @='x'><![CDATA[@]]></acme>\n"),
    (
        "etc/libvirt/qemu/web.xml",
        "<seclabel><label>@</label></seclabel><metadata><a:b>@</a:b></metadata>\n",
    ),
    (
        "var/log/libvirt/qemu/web.log",
        "2024-05-01 12:00:00.000+0000: starting up libvirt version: 9.0, hostname: @\n",
    ),
    (
        "var/log/libvirt/qemu/web.log",
        "HOME=/var/lib/@ USER=@ \\\n-spice 'password=@' \\\n--password @ \\\n",
    ),
    ("var/log/libvirt/qemu/web.log", "char device redirected to /dev/pts/@ (label @)\n"),
    ("etc/pve/qemu-server/100.conf", "# pw: @ and @\n"),
    ("etc/pve/qemu-server/100.conf", "name: @\nciuser: @\ncipassword: @\nsshkeys: @\n"),
    ("etc/pve/qemu-server/100.conf", "args: -spice password=@ -p @\n"),
    ("etc/pve/qemu-server/100.conf", "net0: virtio=@,bridge=@\nscsi0: local:@,serial=@\n"),
    ("etc/pve/qemu-server/100.conf", "smbios1: uuid=@,serial=@\ndescription: @\ntags: @\n"),
    ("proc/cmdline", "root=UUID=@ netroot=iscsi:bob:@ acme.token=@ ip=@\n"),
    ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"root=@ acme=@ password = '@'\"\n"),
    ("etc/kernel/cmdline", "root=@ rd.luks.uuid=@\n"),
    ("boot/loader/entries/x.conf", "title @\nmachine-id @\noptions root=@ acme\n"),
    (
        "etc/kernelstub/configuration",
        "{\"kernel_options\": [\"@\"], \"@\": \"x\", \"apikey\": \"@\"}\n",
    ),
    ("etc/modprobe.d/a.conf", "# @\noptions acme key=@\ninstall x /bin/@\n"),
    ("etc/dracut.conf", "hostonly=@ # @\n"),
    ("avicenna/dmesg.txt", "kvm: user @ at host @\n"),
    ("avicenna/dmesg.txt", "Command line: root=@ acme=@\n"),
    ("sos_commands/kernel/dmesg", "[ 1.0] scsi: @ @\n[ 1.1] AMD-Vi: acme=@\n"),
    ("sos_commands/kernel/uname_-a", "Linux @ 6.1.0-9-amd64 #1 SMP x86_64\n"),
    ("sos_commands/process/ps_aux", "@ 7 0.0 sh -c @\n"),
    ("sos_commands/process/ps_aux", "@ 8 0.0 /usr/bin/qemu-system-x86_64 -name @ --password @\n"),
    ("sos_commands/virsh/list", " 1 @ running\n"),
    ("sos_commands/virsh/dumpxml", "<domain><name>@</name><acme>@</acme></domain>\n"),
    ("sos_commands/virsh/net", "<ip address='@'><dhcp><host mac='@' name='@'/></dhcp></ip>\n"),
    ("etc/os-release", "NAME=\"@\"\nHOME_URL=\"https://@:@@example/\"\n"),
    ("proc/version", "Linux version 6.1.0 (@) (gcc @)\n"),
    ("avicenna/kvm-holders.txt", "7 @\n"),
];

/// Formats in which a hexadecimal number is what the processor or the kernel says, so that only
/// words can be told from it.
fn is_number(secret: &str) -> bool {
    secret.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn corpus(random: &mut Random) -> (Inputs, Vec<String>) {
    let mut files = std::collections::BTreeMap::<&str, String>::new();
    let mut pieces = vec![];
    for _ in 0..500 {
        let (path, line) = LINES[random.below(LINES.len())];
        let file = files.entry(path).or_insert_with(|| match path {
            "proc/7/cmdline" => "/usr/bin/qemu-system-x86_64\0".to_owned(),
            path if path.contains("ps_") => "USER PID %CPU COMMAND\n".to_owned(),
            _ => String::new(),
        });
        let mut parts = line.split('@');
        file.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (text, mut found) = loop {
                let one = secret(random);
                let is_told = path.starts_with("proc/cmdline")
                    || path.contains("dmesg")
                    || path == "proc/version";
                if !is_told || !is_number(&one.0) {
                    break one;
                }
            };
            file.push_str(&text);
            file.push_str(part);
            pieces.append(&mut found);
        }
    }
    let mut inputs = Inputs::new("corpus");
    for (path, text) in files {
        inputs.insert(path, text.into_bytes());
    }
    let (name, found) = (random.of(LOWER, 9), random.of(LOWER, 9));
    for folder in ["etc/libvirt/qemu", "var/log/libvirt/qemu", "etc/modprobe.d"] {
        inputs.insert(format!("{folder}/{name}.xml"), b"x".to_vec());
    }
    inputs.insert_unreadable(format!("etc/libvirt/qemu/{found}.xml"), "permission denied");
    pieces.extend([name, found]);
    (inputs, pieces)
}

#[test]
fn no_secret_is_in_any_snapshot() {
    let wanted = std::env::var("AVICENNA_SEEDS").unwrap_or("10".into());
    let (from, to) = wanted.split_once("..").unwrap_or(("0", &wanted));
    let seeds: Range<u64> = from.parse().unwrap()..to.parse().unwrap();
    let (mut tried, mut found) = (0, vec![]);
    for seed in seeds.clone() {
        let (inputs, pieces) = corpus(&mut Random(seed));
        let mut out = String::new();
        for member in members(&inputs, &STAMP).unwrap() {
            out.push_str(&member.path);
            out.push('\n');
            out.push_str(&String::from_utf8(member.bytes).unwrap());
        }
        let whole: String =
            inputs.files().map(|(path, content)| format!("{path} {content:?}")).collect();
        assert!(whole.contains(&pieces[pieces.len() - 1]), "the corpus holds what is looked for");
        tried += pieces.len();
        found.extend(pieces.into_iter().filter(|piece| out.contains(piece)).map(|piece| {
            let at = out.find(&piece).unwrap_or_default();
            let from = (0..=at.saturating_sub(60)).rev().find(|at| out.is_char_boundary(*at));
            format!("seed {seed}: {piece} in {:?}", &out[from.unwrap_or(0)..at + piece.len()])
        }));
    }
    println!("{tried} secrets in {} corpora, {} found", seeds.count(), found.len());
    assert!(found.is_empty(), "{} of {tried}: {:#?}", found.len(), &found[..found.len().min(10)]);
}
