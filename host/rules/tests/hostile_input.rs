//! Readers get text from anywhere: they never panic, always end, and stay within their bounds.

use proptest::prelude::*;
use reading::Kernel;
use rules::configuration::{self, Hints, Kind};
use rules::lint::{Target, fix::fixed};
use std::time::Instant;

/// Pieces that make random text look like each format, so that it gets past the first look.
const PIECES: [&str; 64] = [
    "qemu-system-x86_64",
    "kvm",
    " -enable-kvm",
    " -machine ",
    "q35",
    "pc-q35-4.0",
    ",kernel-irqchip=",
    "split",
    " -cpu host",
    ",hv_synic",
    ",,",
    "=",
    "'",
    "\"",
    "\\",
    "\\\n",
    "\n",
    "\0",
    " ",
    "$X",
    "${",
    "$(",
    "`",
    "(",
    ")",
    "{\"driver\":",
    "\"intel-iommu\"",
    "}",
    "[",
    "]",
    ":",
    "-global kvm-pit.lost_tick_policy=discard",
    "<domain type='kvm'>",
    "</domain>",
    "<clock>",
    "<timer name='pit'/>",
    "<vcpu>",
    "4294967296",
    "<!--",
    "-->",
    "&amp;",
    "[machine]\n",
    "[device \"a\"]\n",
    "driver = \"",
    "ostype: win11\n",
    "cores: 99999999\n",
    "args: ",
    "machine: ",
    "kubevirt.io/v1",
    "domain:\n  ",
    "- ",
    "  ",
    "features: {",
    "&a ",
    "*a",
    "options kvm_amd ",
    "avic=1",
    "GRUB_CMDLINE_LINUX=\"",
    "#",
    "starting up libvirt version:",
    "é",
    "\u{feff}",
    "-smp 4294967295,sockets=4294967295,cores=4294967295,threads=4294967295",
    "\t",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..60)
        .prop_map(|list| list.concat())
}

fn read_as_everything(text: &str) {
    let _ = configuration::read("x", text, None, &Hints::default());
    for kind in Kind::ALL {
        let _ = configuration::read("x", text, Some(kind), &Hints::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn text_like_an_input_never_panics(text in pieces()) {
        read_as_everything(&text);
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        read_as_everything(&text);
    }

    #[test]
    fn repairing_never_panics_and_a_second_time_changes_nothing(text in pieces()) {
        for kind in Kind::ALL {
            let target = Target { kernel: Kernel::parse("5.15", None), ..Target::default() };
            if let Ok(once) = fixed("x", &text, Some(kind), &target) {
                let twice = fixed("x", &once.text, Some(kind), &target);
                prop_assert_eq!(twice.unwrap().text, once.text);
            }
        }
    }

    #[test]
    fn positions_lie_inside_the_text(text in pieces()) {
        for kind in Kind::ALL {
            if let Ok(contents) = configuration::read("x", &text, Some(kind), &Hints::default()) {
                for vm in contents.vms {
                    let places = [vm.machine.position(), vm.irqchip.position(), vm.pit.position()];
                    for at in places.into_iter().flatten().chain([vm.span]) {
                        prop_assert!(at.start <= at.end && at.end <= text.len());
                        prop_assert!(text.is_char_boundary(at.start) && text.is_char_boundary(at.end));
                    }
                }
            }
        }
    }
}

#[test]
fn large_and_deep_inputs_end_soon() {
    let deep_xml = "<a>".repeat(200_000);
    let closed_xml = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let deep_yaml = format!("kubevirt.io/ domain: {}", "[".repeat(100_000));
    let deep_yaml_maps = "{a: ".repeat(100_000);
    let long_line = format!("qemu-system-x86_64 -m {}", "x".repeat(8 << 20));
    let many_words = "qemu-system-x86_64 ".repeat(300_000);
    let many_pairs = format!("qemu-system-x86_64 -cpu host{}", ",hv-synic=on".repeat(300_000));
    let deep_json = format!("qemu-system-x86_64 -device '{}'", "{\"a\":".repeat(100_000));
    let recursive = "A=\"$A $A\"\nqemu-system-x86_64 $A\n".to_owned();
    let parentheses = "(".repeat(1 << 20);
    let expansions = "$(".repeat(1 << 16);
    let keys = "a: b\n".repeat(200_000);
    for text in [
        deep_xml,
        closed_xml,
        deep_yaml,
        deep_yaml_maps,
        long_line,
        many_words,
        many_pairs,
        deep_json,
        recursive,
        parentheses,
        expansions,
        keys,
    ] {
        let started = Instant::now();
        read_as_everything(&text);
        let seconds = started.elapsed().as_secs();
        assert!(seconds < 60, "{seconds} s for {}…", text.chars().take(40).collect::<String>());
    }
}

#[test]
fn many_machines_are_judged_and_repaired_in_time_that_grows_with_them() {
    let one = "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=on -cpu host,hv-synic,hv-stimer\n";
    let started = Instant::now();
    let repaired = fixed("x", &one.repeat(20_000), None, &Target::default()).unwrap();
    assert_eq!(repaired.repaired, 3 * 20_000);
    let seconds = started.elapsed().as_secs();
    assert!(seconds < 60, "{seconds} s");
}

#[test]
fn an_input_beyond_the_limit_is_refused() {
    let text = " ".repeat(configuration::MAX_BYTES + 1);
    let error = configuration::read("x", &text, None, &Hints::default()).unwrap_err();
    assert!(error.to_string().contains("too big"), "{error}");
}
