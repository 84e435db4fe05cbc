//! An IPI on the reference hypervisor, on both vendors' processors.

use super::{Doing, Follower, Kind, Lesson};
use crate::reference;
use crate::watch::{Told, Watch};
use arch::time::Picoseconds;
use cpu::CpuModel;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use trace::symbol::Symbols;

/// Two vCPUs, one of which sends to the other.
fn lesson(model: &str, options: &str) -> Lesson {
    let model = CpuModel::named(model).expect("a model that comes with the machine");
    let options = format!(
        "{options} vcpus=2 guest.tests=ipi guest.targets=spinning guest.warmup=1000000 \
         guest.apic=xapic"
    );
    let machine = reference::under_way(model, &options, "\"record\":\"start\"");
    let mut follower = Follower::new(machine, Kind::Ipi, false, Symbols::default());
    // Its second processor is started first.
    follower.advance(Picoseconds::from_milliseconds(20));
    let stop = AtomicBool::new(false);
    let mut tell = |_: Told<'_>| {};
    let mut watch = Watch::new(&stop, Duration::MAX, &mut tell);
    follower.follow("a lesson".into(), &mut watch).expect("nobody stops it")
}

/// Who does what, and what it changes, in order.
fn said(lesson: &Lesson) -> String {
    let step =
        |step: &super::Step| format!("{}: {}\n{}\n", step.who, step.text, step.details.join("\n"));
    lesson.steps.iter().map(step).collect()
}

/// That these stand there, each behind the one before.
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some(place) = rest.find(part) else { panic!("{part:?} is not there, in:\n{text}") };
        rest = &rest[place + part.len()..];
    }
}

#[test]
fn an_ipi_of_avic_is_told_from_the_table_s_entry_to_the_eoi_without_an_exit() {
    let lesson = lesson("zen4", "avic=on");
    assert!(lesson.is_whole);
    assert_in_order(
        &said(&lesson),
        &[
            "sender: writes ICR",
            "physical APIC ID table, entry ",
            ": V 1, IsRunning 1, host APIC ID ",
            "sender: requests vector",
            "target: IRR[",
            "0 -> 1",
            "rings the doorbell",
            "target: moves vector",
            "1 -> 0",
            "target: enters the guest's handler",
            "target: EOI of vector",
        ],
    );
    assert_eq!(lesson.exits(), 0);
    assert!(lesson.closing().contains("no VM exit"), "{}", lesson.closing());
}

#[test]
fn an_ipi_by_pid_is_told_from_the_descriptor_to_the_eoi_without_an_exit() {
    let lesson = lesson("sapphire-rapids", "apicv=on");
    assert!(lesson.is_whole);
    assert_in_order(
        &said(&lesson),
        &[
            "sender: writes ICR",
            "posted-interrupt descriptor: ON 0, SN 0",
            "target: PIR[",
            "0 -> 1",
            "target: ON 0 -> 1",
            "target: takes the notification",
            "target: enters the guest's handler",
            "target: EOI of vector",
        ],
    );
    assert_eq!(lesson.exits(), 0);
}

#[test]
fn without_the_feature_the_exits_are_told_with_what_they_were_for() {
    let lesson = lesson("zen4", "avic=off");
    assert!(lesson.is_whole);
    assert!(lesson.exits() >= 2, "{}", said(&lesson));
    assert_in_order(
        &said(&lesson),
        &["sender: VM exit: npf, register 300h", "target: enters the guest with vector"],
    );
    let first = lesson.steps.first().expect("a step");
    assert_eq!((first.at_ps, first.doing), (0, Doing::Exit));
}
