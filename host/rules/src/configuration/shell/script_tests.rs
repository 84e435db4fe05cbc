//! Scripts as people write them, and the command lines that come out of them.

use super::run;
use crate::configuration::Hints;
use crate::configuration::{self as reader, Kind};
use crate::vm::{Accelerator, Irqchip, VmConfiguration};

/// The words of every command called `q`, open ones as they are written.
fn words(script: &str) -> Vec<String> {
    run(script)
        .unwrap()
        .iter()
        .filter_map(|command| {
            let texts: Vec<&str> = command.words.iter().map(|word| word.text.as_ref()).collect();
            let program = texts.iter().position(|text| *text == "q")?;
            Some(texts[program + 1..].join(" "))
        })
        .collect()
}

#[test]
fn assignments_count_in_the_order_in_which_they_are_made() {
    for (script, expected) in [
        ("M=a; q $M; M=b; q $M", vec!["a", "b"]),
        ("q $M; M=a", vec!["$M"]),
        ("M=a q $M", vec!["$M"]),
        ("export M=a\nq $M", vec!["a"]),
        ("M=a; M+=,b; q \"$M\"", vec!["a,b"]),
        ("A=(-x); A+=(-y \"-z w\"); q \"${A[@]}\"", vec!["-x -y -z w"]),
        ("M=a; unset M; q x$M", vec!["x"]),
        ("M=a; (M=b; q $M); q $M", vec!["b", "a"]),
        ("M=a; true | M=b; q $M", vec!["a"]),
        ("M=a; . ./settings; q $M", vec!["$M"]),
        ("read M; q $M", vec!["$M"]),
    ] {
        assert_eq!(words(script), expected, "{script}");
    }
}

#[test]
fn what_depends_on_a_condition_is_open_unless_every_way_agrees() {
    for (script, expected) in [
        ("O=; if x; then O=-k; fi; q $O", vec!["$O"]),
        ("if x; then O=-k; q $O; fi", vec!["-k"]),
        ("if x; then O=-k; else O=-k; fi; q $O", vec!["-k"]),
        ("if x; then O=-k; elif y; then O=-l; fi; q $O", vec!["$O"]),
        ("O=-k; if x; then exit 1; fi; q $O", vec!["-k"]),
        ("O=-k; if x; then O=-l; exit 1; fi; q $O", vec!["-k"]),
        ("x && O=-k; q $O", vec!["$O"]),
        ("x && O=-k && q $O", vec!["-k"]),
        ("O=-k; x || O=-l; q $O", vec!["$O"]),
        ("case $1 in a) O=-k;; *) O=-l;; esac; q $O", vec!["$O"]),
        ("case $1 in a) O=-k; q $O;; (b|c) q none;; esac", vec!["-k", "none"]),
        ("case $1 in a) O=-k;; *) O=-k;; esac; q $O", vec!["-k"]),
        ("for i in 1 2; do O+=\" -d$i\"; done; q $O", vec!["$O"]),
        ("O=-k; while x; do q $O; done; q $O", vec!["-k", "-k"]),
        ("for i in a; do q $i; done", vec!["a"]),
    ] {
        assert_eq!(words(script), expected, "{script}");
    }
}

#[test]
fn functions_are_followed_where_they_are_called() {
    for (script, expected) in [
        ("f() { q $M; }\nM=a; f; M=b; f", vec!["a", "b"]),
        ("f() { q $M; }\nM=a; f; f", vec!["a"]),
        ("function f { M=a; }\nf; q $M", vec!["a"]),
        ("M=a\nnever_called() {\n  q $M\n}", vec!["a"]),
        ("f() { f; q x; }\nf", vec!["x"]),
    ] {
        assert_eq!(words(script), expected, "{script}");
    }
}

#[test]
fn variables_inside_words_are_replaced_and_split_where_they_are_not_quoted() {
    for (script, expected) in [
        ("O=x2apic=off; q \"host,$O\"", vec!["host,x2apic=off"]),
        ("O='a b'; q p$O", vec!["pa b"]),
        ("O='a b'; q \"p${O}s\"", vec!["pa bs"]),
        ("O=; q a$O \"$O\" b", vec!["a  b"]),
        ("O=x; q \"$O,$UNKNOWN\"", vec!["x,$UNKNOWN"]),
        ("A=x; B=$A,y; A=z; q $B", vec!["x,y"]),
    ] {
        assert_eq!(words(script), expected, "{script}");
    }
}

#[test]
fn broken_scripts_are_read_as_far_as_they_go() {
    for script in [
        "fi; q a",
        "done\nq a",
        "if x; then q a",
        "case x in",
        "case",
        "for",
        "f() { q a",
        "q a )",
        "{ q a",
        ";; q a",
        "if if if q a",
        "while",
        "((((((q a",
        "function",
        "q a &&",
        "|| q a",
        "a=(",
        "${",
        "$(",
        "`",
    ] {
        run(script).unwrap();
    }
    let deep = format!("{}q a{}", "if x; then ".repeat(500), "; fi".repeat(500));
    assert!(run(&deep).is_ok());
    let wide = "x && M=a\n".repeat(20_000) + "q $M";
    assert_eq!(words(&wide), ["$M"]);
}

fn machines(script: &str) -> Vec<VmConfiguration> {
    reader::read("test", script, Some(Kind::CommandLine), &Hints::default()).unwrap().vms
}

#[test]
fn each_machine_of_a_script_is_judged_with_what_is_set_where_it_starts() {
    let script = "M=q35\nqemu-system-x86_64 -enable-kvm -M $M\nM=q35,kernel-irqchip=split\n\
                  qemu-system-x86_64 -enable-kvm -M $M\n";
    let irqchips: Vec<Irqchip> = machines(script).iter().map(|vm| vm.irqchip.value).collect();
    assert_eq!(irqchips, [Irqchip::Kernel, Irqchip::Split]);

    let script = "O=\nif [ -e /dev/kvm ]; then O=-enable-kvm; fi\nqemu-system-x86_64 -m 1G $O\n";
    assert_eq!(machines(script)[0].accelerator.value, Accelerator::Unknown);
}

#[test]
fn unknown_processor_leaves_the_interrupt_controller_known() {
    let script = "args=(\n  -enable-kvm -cpu \"$MODEL\",vendor=GenuineIntel,\"$MORE\"\n  -machine q35\n)\n\
                  qemu-system-x86_64 \"${args[@]}\"\n";
    let vm = &machines(script)[0];
    assert_eq!((vm.irqchip.value, vm.accelerator.value), (Irqchip::Kernel, Accelerator::Kvm));
    assert!(vm.x2apic.is_unknown(), "but what the processor offers is not known");
    assert!(!vm.unresolved.is_empty());
}

#[test]
fn place_of_a_value_is_where_it_was_assigned_and_pieces_have_the_place_of_their_word() {
    let script =
        "M=q35,kernel-irqchip=off\nqemu-system-x86_64 -enable-kvm -machine $M -cpu \"host,$X\"\n";
    let vm = &machines(script)[0];
    let at = vm.irqchip.position().unwrap();
    assert_eq!(&script[at.start..at.end], "kernel-irqchip=off");
    let script = "O=svm=off\nqemu-system-x86_64 -enable-kvm -cpu \"host,$O\"\n";
    let at = machines(script)[0].nested.position().unwrap();
    assert_eq!(&script[at.start..at.end], "svm=off");
}
