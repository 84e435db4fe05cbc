use super::commands;
use crate::configuration::{Hints, detect, read};
use crate::position::Lines;

/// The words of each command, joined by a bar where a blank is in none.
fn words(text: &str) -> Vec<String> {
    let found = commands(text).unwrap();
    let words = |command: &super::Command<'_>| {
        command.words.iter().map(|word| word.text.to_string()).collect::<Vec<_>>().join("|")
    };
    found.iter().map(words).collect()
}

#[test]
fn commands_of_a_unit_are_joined_as_systemd_joins_them() {
    for (text, expected) in [
        ("[Service]\nType=simple\nExecStart=/usr/bin/q -a \\\n  -b\n", &["/usr/bin/q|-a|-b"][..]),
        // A comment between the lines of one value is left out of it.
        ("[Service]\nExecStart=/q -a \\\n# no\n;no\n  -b\nUser=x -c\n", &["/q|-a|-b"]),
        ("[Unit]\nDescription=q \\\n -x\n[Service]\nExecStart=/q -a\n", &["/q|-a"]),
        ("# top\n\n[Service]\nExecStartPre=-/r -s\nExecStart=!!/q -a\n", &["/r|-s", "/q|-a"]),
        // A blank line ends a value.
        ("[Service]\nExecStart=/q -a \\\n\nUser=-b\n", &["/q|-a"]),
        ("[Service]\r\nExecStart=/q -a \\\r\n  -b\r\n", &["/q|-a|-b"]),
        ("[Service]\nEnvironment=\"A=-a -b\" B=-c\nExecStart=/q $A $B $C\n", &["/q|-a|-b|-c|$C"]),
        // Another file may say otherwise, and what has characters of its own is not followed.
        ("[Service]\nEnvironmentFile=-/etc/q\nEnvironment=A=-a\nExecStart=/q $A\n", &["/q|$A"]),
        ("[Service]\nEnvironment=\"A=%i\"\nExecStart=/q $A\n", &["/q|$A"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn scalars_and_lists_of_yaml_are_pieces_of_their_own() {
    for (text, expected) in [
        ("a:\n  shell: >\n    q -a\n    -b\n  x: 1\n", &["q|-a|-b", "1"][..]),
        // Lines that are indented more stay lines, but not in what no shell reads.
        ("shell: >\n  q -a\n    -b\n", &["q|-a", "-b"]),
        ("command: >-\n  q -a\n    -b\n\n  -c\n", &["q|-a|-b|-c"]),
        ("shell: |\n  q -a\n  r -b\n", &["q|-a", "r|-b"]),
        ("command: |\n  q -a\n  -b\n", &["q|-a|-b"]),
        ("- shell: q -a\n    -b # no\n- shell: r\n", &["q|-a|-b", "r"]),
        ("a: \"q -a\n  -b\"\nb: 'r -c'\n", &["q|-a|-b", "r|-c"]),
        // One script's end is not another's.
        ("a: exit 1\nb: q -a\n", &["q|-a"]),
        ("command: [q, -a, \"b c\", 'd']\n", &["q|-a|b c|d"]),
        ("command:\n  - q\n  - -a\n  - b,c\nx: y\n", &["q|-a|b,c", "y"]),
        ("command: [\"q\", \"a\\tb\"]\nx: y\n", &["y"]),
        ("x: \"a \\\" b\"\ny: z\n", &["z"]),
        // A block in a list of words, that begins as if it were quoted.
        ("command:\n  - q\n  - |\n    '\u{e4}\nx: y\n", &["y"]),
        ("shell: q -m {{ mem | default(2) }} -s\n", &["q|-m|${___________________}|-s"]),
        ("---\nshell: >\r\n  q -a\r\n  -b\r\n", &["q|-a|-b"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn words_that_only_speak_of_a_monitor_start_none() {
    for text in [
        "- run: cargo build --package cloud-hypervisor --features \"kvm\" --target x\n",
        "- run: cargo build --features kvm --no-default-features\n",
        "parts:\n  options:\n    - --disable-tcg\n    - --enable-kvm\n",
        "git clone --branch cloud-hypervisor --depth 1 x\n",
    ] {
        assert_eq!(detect(text), None, "{text}");
    }
    for text in ["kvm --enable-kvm -m 1G\n", "sudo -E kvm -m 1G\n", "-enable-kvm\n"] {
        assert!(detect(text).is_some(), "{text}");
    }
}

#[test]
fn lines_of_a_file_that_a_script_writes_are_joined_as_in_that_file() {
    for (text, expected) in [
        ("cat >u <<EOF\nq -a \\\\\n  -b\nEOF\nr -c\n", &["cat", "q|-a|-b", "EOF", "r|-c"][..]),
        ("cat >u <<'EOF'\nq -a \\\n  -b\nEOF\n", &["cat", "q|-a|-b", "EOF"]),
        // In a script itself, a backslash that is escaped is one.
        ("q -a \\\\\nr -b\n", &["q|-a|\\", "r|-b"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn every_word_stands_where_it_is_said_to_stand() {
    for text in [
        "[Service]\nEnvironment=\"A=-smp 4\"\nExecStart=-/usr/bin/qemu-system-x86_64 $A \\\n  -enable-kvm\n",
        "- name: ä\n  command: >\n    qemu-system-x86_64 -enable-kvm\n    -smp 4\n",
        "x:\n  command: [qemu-system-x86_64, -enable-kvm, -smp, \"4\"]\n",
    ] {
        let contents = read("f", text, None, &Hints::default()).unwrap();
        assert_eq!(contents.vms.len(), 1, "{text}");
        let at = contents.vms[0].vcpus.position().unwrap();
        assert_eq!(contents.vms[0].vcpus.value, 4, "{text}");
        let place =
            Lines::new(text).position(text.find("-smp").unwrap(), text.find("-smp").unwrap() + 1);
        assert_eq!(at.line, place.line, "{text}");
    }
}

#[test]
fn files_that_others_make_machines_from_are_named_and_not_judged() {
    for (text, word) in [
        ("config:\n  raw.qemu: -cpu host\n  raw.qemu.conf: |-\n    [global]\n", "Incus"),
        ("resource \"libvirt_domain\" \"a\" {\n  vcpu = 4\n}\n", "Terraform"),
        ("Vagrant.configure(\"2\") do |config|\nend\n", "Vagrant"),
        ("[DEFAULT]\ndebug = true\n[libvirt]\ncpu_mode = host-passthrough\n", "nova"),
        ("{\n  boot.kernelParams = [ \"amd_iommu=off\" ];\n}\n", "NixOS"),
    ] {
        assert_eq!(detect(text), None, "{text}");
        let error = read("f", text, None, &Hints::default()).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("avicenna"), "{text}: {error}");
    }
    // A command line in a file of NixOS is one.
    let text = "{\n  boot.kernelParams = [ ];\n  script = ''\n    qemu-system-x86_64 -enable-kvm\n  '';\n}\n";
    assert!(detect(text).is_some());
}
