use crate::assembly::Assembly;
use crate::key::{Detail, Key, View};
use crate::pairing::Arrival;
use crate::part::{Options, Part};
use crate::profile::{Profile, Vcpu};
use proptest::prelude::*;
use trace::exit_reason::{svm, vmx};
use trace::kvm::{Access, AccessKind, Departure, Exit, KvmEvent, MmioKind, Stamp};

const MSR: KvmEvent = exit(svm::MSR, 1, 0);

const fn exit(reason: u32, info1: u64, info2: u64) -> KvmEvent {
    KvmEvent::Exit(Exit { isa: 2, reason, info1, info2, interruption: 0 })
}

const fn entry() -> KvmEvent {
    KvmEvent::Entry { vcpu: 0 }
}

/// Events of thread 2 of process 1, on the CPU given.
fn profile_on(events: &[(u64, u32, KvmEvent)], losses: &[(u32, u64)]) -> Profile {
    let mut part = Part::new(&Options::default());
    let mut losses = losses.iter().peekable();
    for (time_ns, cpu, event) in events {
        while let Some((cpu, at)) = losses.next_if(|loss| loss.1 <= *time_ns) {
            part.lost(*cpu, *at, 1);
        }
        part.event(&Stamp { time_ns: *time_ns, process: 1, thread: 2, cpu: *cpu }, event);
    }
    part.finish()
}

fn profile(events: &[(u64, KvmEvent)]) -> Profile {
    let events: Vec<_> = events.iter().map(|(time, event)| (*time, 0, *event)).collect();
    profile_on(&events, &[])
}

/// Reason, detail, count and time of the exits.
fn exits(profile: &Profile) -> Vec<(u32, Detail, u64, u64)> {
    let cells = profile.vcpus.iter().flat_map(|vcpu| &vcpu.cells);
    cells
        .filter(|row| row.0.view() == View::Vmexit)
        .map(|(key, cell)| (key.reason(), key.detail(), cell.count, cell.time_ns))
        .collect()
}

fn accesses(profile: &Profile, view: View) -> Vec<(Key, u64, u64)> {
    let cells = profile.vcpus.iter().flat_map(|vcpu| &vcpu.cells);
    cells
        .filter(|row| row.0.view() == view)
        .map(|(key, cell)| (*key, cell.count, cell.time_ns))
        .collect()
}

#[test]
fn an_exit_lasts_until_the_next_entry_of_its_thread() {
    let profile = profile(&[(1, entry()), (10, MSR), (25, entry()), (30, MSR), (31, entry())]);
    assert_eq!(exits(&profile), [(svm::MSR, Detail::Unknown, 2, 16)]);
}

#[test]
fn what_comes_before_the_first_entry_does_not_count() {
    let profile = profile(&[(5, MSR), (9, entry()), (10, MSR), (12, entry())]);
    assert_eq!(exits(&profile), [(svm::MSR, Detail::Unknown, 1, 2)]);
}

#[test]
fn an_exit_after_an_exit_replaces_it_and_is_counted_as_unpaired() {
    let hlt = exit(svm::HLT, 0, 0);
    let profile = profile(&[(1, entry()), (2, MSR), (5, hlt), (9, entry()), (11, entry())]);
    assert_eq!(exits(&profile), [(svm::HLT, Detail::Unknown, 1, 4)]);
    assert_eq!(profile.vcpus[0].unpaired, 1);
}

#[test]
fn an_exit_still_open_at_the_end_is_dropped() {
    assert_eq!(exits(&profile(&[(1, entry()), (2, MSR)])), []);
}

#[test]
fn an_exit_into_which_a_loss_falls_is_thrown_away() {
    let events = [(1, 0, entry()), (2, 0, MSR), (9, 1, entry()), (10, 1, MSR), (12, 1, entry())];
    // On the CPU where it began or where it ended, but on no other, and not a loss before it.
    for (loss, count, discarded) in
        [((0, 5), 1, 1), ((1, 5), 1, 1), ((2, 5), 2, 0), ((0, 2), 2, 0), ((1, 10), 2, 0)]
    {
        let profile = profile_on(&events, &[loss]);
        let found: u64 = exits(&profile).iter().map(|row| row.2).sum();
        assert_eq!((found, profile.vcpus[0].discarded), (count, discarded), "{loss:?}");
    }
}

#[test]
fn an_exit_that_ends_before_it_began_is_thrown_away() {
    let profile = profile(&[(1, entry()), (10, MSR), (9, entry())]);
    assert_eq!((exits(&profile).len(), profile.vcpus[0].discarded), (0, 1));
}

#[test]
fn a_return_to_user_space_lies_inside_its_exit() {
    let user = KvmEvent::UserspaceExit { reason: 2, errno: 0 };
    let io = exit(svm::IO, 0x3f8 << 16, 0);
    let profile = profile(&[(1, entry()), (2, io), (5, user), (90, entry())]);
    let port = Detail::Port { port: 0x3f8, is_write: true };
    assert_eq!(exits(&profile), [(svm::IO, port, 1, 88)]);
    assert_eq!(profile.tallies.len(), 1);
}

#[test]
fn events_that_are_not_in_the_order_they_should_be_in_are_noticed() {
    for (times, tangled) in
        [([1, 2, 9, 12], vec![]), ([1, 2, 12, 9], vec![2]), ([9, 12, 1, 2], vec![2])]
    {
        let mut part = Part::new(&Options::default());
        for (time_ns, event) in times.into_iter().zip([entry(), MSR, entry(), MSR]) {
            part.event(&Stamp { time_ns, process: 1, thread: 2, cpu: 0 }, &event);
        }
        assert_eq!(part.tangled_threads(), tangled, "{times:?}");
        // It stays known when the part is joined to others.
        let mut assembly = Assembly::new(&Options::default(), Arrival::InOrder);
        assembly.take(part.cut());
        assert_eq!(assembly.finish([part]).tangled_threads(), tangled, "{times:?}");
    }
}

#[test]
fn a_hypercall_says_what_its_exit_was_about() {
    let vmmcall = exit(0x81, 0, 0);
    let kick = KvmEvent::Hypercall { number: 5, is_hyperv: false };
    let profile = profile(&[(1, entry()), (2, vmmcall), (5, kick), (9, entry())]);
    let call = Detail::Hypercall { number: 5, is_hyperv: false };
    assert_eq!(exits(&profile), [(0x81, call, 1, 7)]);
}

#[test]
fn a_nested_exit_ends_nothing() {
    let nested = KvmEvent::NestedExit { reason: 0x72 };
    let profile = profile(&[(1, entry()), (2, MSR), (3, nested), (7, entry())]);
    assert_eq!(exits(&profile), [(svm::MSR, Detail::Unknown, 1, 5)]);
}

#[test]
fn threads_of_several_machines_are_kept_apart() {
    let mut part = Part::new(&Options::default());
    for (time_ns, process, thread, event) in [
        (1, 1, 10, entry()),
        (1, 2, 20, entry()),
        (2, 1, 10, MSR),
        (3, 2, 20, exit(svm::HLT, 0, 0)),
        (4, 1, 10, entry()),
        (9, 2, 20, entry()),
    ] {
        part.event(&Stamp { time_ns, process, thread, cpu: 0 }, &event);
    }
    let found: Vec<_> =
        part.finish().vcpus.iter().map(|vcpu| (vcpu.process, vcpu.cells[0].1.time_ns)).collect();
    assert_eq!(found, [(1, 2), (2, 6)]);
}

#[test]
fn what_an_exit_was_about_is_the_first_thing_known() {
    let msr = |index, value| KvmEvent::Msr { is_write: true, index, value };
    let write = |address, value| KvmEvent::Mmio { kind: MmioKind::Write, address, value };
    let npf = exit(svm::NESTED_PAGE_FAULT, 2, 0xfee0_0300);
    let eoi = Detail::Register { offset: 0xb0, is_write: true };
    let rows = [
        (MSR, msr(0x80b, 0), eoi),
        (MSR, msr(0x6e0, 7), Detail::Msr { index: 0x6e0, is_write: true }),
        (exit(svm::NESTED_PAGE_FAULT, 2, 0xfee0_00b0), write(0xfee0_00b0, 0), eoi),
        (exit(svm::NESTED_PAGE_FAULT, 2, 0xfebc_0000), write(0xfebc_0000, 0), Detail::OtherMmio),
        (exit(svm::AVIC_UNACCELERATED_ACCESS, 1 << 32 | 0xb0, 0), msr(0x10, 0), eoi),
        (
            exit(svm::AVIC_INCOMPLETE_IPI, 0, 1 << 32),
            msr(0x10, 0),
            Detail::IncompleteIpi { cause: 1 },
        ),
    ];
    for (exit, inside, detail) in rows {
        let profile = profile(&[(1, entry()), (2, exit), (3, inside), (7, entry())]);
        assert_eq!(exits(&profile)[0].1, detail, "{exit:?}");
    }
    // A write of the ICR is refined by its value.
    let profile =
        profile(&[(1, entry()), (2, npf), (3, write(0xfee0_0300, 0xc_08fb)), (7, entry())]);
    assert!(matches!(exits(&profile)[0].1, Detail::Icr(_)));
}

#[test]
fn intel_exits_name_their_register_or_vector() {
    let exit = |reason, info1, interruption| {
        KvmEvent::Exit(Exit { isa: 1, reason, info1, info2: 0, interruption })
    };
    let rows = [
        (exit(vmx::APIC_WRITE, 0x380, 0), Detail::Register { offset: 0x380, is_write: true }),
        (exit(vmx::APIC_ACCESS, 0x1080, 0), Detail::Register { offset: 0x80, is_write: true }),
        (exit(vmx::IO_INSTRUCTION, 0x3f8_0008, 0), Detail::Port { port: 0x3f8, is_write: false }),
        (exit(vmx::EXTERNAL_INTERRUPT, 0, 0), Detail::Unknown),
    ];
    for (event, detail) in rows {
        let profile = profile(&[(1, entry()), (2, event), (7, entry())]);
        assert_eq!(exits(&profile)[0].1, detail, "{event:?}");
    }
    let profile = profile(&[(1, entry()), (2, exit(1, 0, 0x8000_00ec)), (7, entry())]);
    assert!(matches!(exits(&profile)[0].1, Detail::Vector { vector } if vector.0 == 0xec));
}

#[test]
fn accesses_are_timed_as_the_peer_times_them() {
    let mmio = |kind, address| KvmEvent::Mmio { kind, address, value: 0 };
    let npf = exit(svm::NESTED_PAGE_FAULT, 0, 0);
    let profile = profile(&[
        (1, entry()),
        (10, npf),
        (14, mmio(MmioKind::Read, 0x1000)),
        (15, mmio(MmioKind::Read, 0x2000)),
        (16, mmio(MmioKind::Write, 0x3000)),
        (21, entry()),
        (30, MSR),
        (31, KvmEvent::Msr { is_write: true, index: 0x830, value: 0 }),
        (40, entry()),
    ]);
    // The read counts from the exit, a second read of one exit not at all, the write to the entry.
    let read = (Key::access(View::Mmio, 0x1000, false), 1, 4);
    let write = (Key::access(View::Mmio, 0x3000, true), 1, 5);
    assert_eq!(accesses(&profile, View::Mmio), [read, write]);
    let msr = (Key::access(View::Msr, 0x830, true), 1, 9);
    assert_eq!(accesses(&profile, View::Msr), [msr]);
}

/// A thread's event by a small number, so that all shapes come up often.
fn event_of(kind: u8) -> KvmEvent {
    match kind % 8 {
        0..=2 => entry(),
        3 => MSR,
        4 => exit(svm::HLT, 0, 0),
        5 if kind & 8 == 0 => KvmEvent::Msr { is_write: true, index: 0x830, value: 0xfb },
        5 => KvmEvent::Mmio { kind: MmioKind::Write, address: 0xfee0_0300, value: 0xc_08fb },
        6 if kind & 8 == 0 => {
            KvmEvent::Mmio { kind: MmioKind::UnsatisfiedRead, address: 0xfee0_0300, value: 0 }
        }
        6 => KvmEvent::Mmio { kind: MmioKind::Read, address: 0xfee0_0300, value: 0 },
        _ => exit(svm::NESTED_PAGE_FAULT, 0, 0xfee0_00b0),
    }
}

/// Process, thread, number, what found no pair, and each cell in words.
type Row = (u32, u32, u32, u64, Vec<(Key, String)>);

/// Delivers exits with the access and the entry that follow them at once, as a reader does.
fn deliver(events: &[(Stamp, KvmEvent)], part: &mut Part) {
    let mut events = events.iter().copied().peekable();
    while let Some((stamp, event)) = events.next() {
        let KvmEvent::Exit(exit) = event else {
            match event {
                KvmEvent::Entry { vcpu } => part.entry(&stamp, vcpu),
                _ => part.event(&stamp, &event),
            }
            continue;
        };
        let mut access = Access { time_ns: stamp.time_ns, ..Access::default() };
        let next = events.next_if(|(next, event)| {
            (next.thread, next.cpu) == (stamp.thread, stamp.cpu)
                && matches!(event, KvmEvent::Msr { .. } | KvmEvent::Mmio { .. })
        });
        if let Some((next, event)) = next {
            access = match event {
                KvmEvent::Msr { is_write, index, value } => Access {
                    kind: AccessKind::Msr,
                    time_ns: next.time_ns,
                    direction: is_write.into(),
                    address: index.into(),
                    value,
                },
                KvmEvent::Mmio { kind, address, value } => Access {
                    kind: AccessKind::Mmio,
                    time_ns: next.time_ns,
                    direction: kind as u32,
                    address,
                    value,
                },
                _ => unreachable!("only these are taken"),
            };
        }
        let departure = Departure { stamp, exit, access };
        let entry = events.next_if(|(next, event)| {
            (next.thread, next.cpu) == (stamp.thread, stamp.cpu)
                && matches!(event, KvmEvent::Entry { .. })
        });
        match entry {
            Some((next, KvmEvent::Entry { vcpu })) => part.trip(&departure, next.time_ns, || vcpu),
            _ => part.departure(&departure),
        }
    }
}

/// All that a profile says, blocks and histograms included.
fn everything(profile: &Profile) -> Vec<Row> {
    let row = |vcpu: &Vcpu| {
        let cells = vcpu.cells.iter().map(|(key, cell)| (*key, format!("{cell:?}"))).collect();
        (vcpu.process, vcpu.thread, vcpu.number, vcpu.unpaired, cells)
    };
    profile.vcpus.iter().map(row).collect()
}

proptest! {
    #[test]
    fn a_recording_in_parts_equals_the_whole(
        kinds in proptest::collection::vec((0u32..3, any::<u8>(), 1u64..100_000_000), 0..200),
        mut cuts in proptest::collection::vec(0usize..200, 0..6),
    ) {
        let mut now = 0;
        let events: Vec<_> = kinds.iter().map(|(thread, kind, step)| {
            now += step;
            (Stamp { time_ns: now, process: 1, thread: *thread, cpu: 0 }, event_of(*kind))
        }).collect();
        let options = Options::default();
        let mut whole = Part::new(&options);
        events.iter().for_each(|(stamp, event)| whole.event(stamp, event));
        cuts.push(events.len());
        cuts.sort_unstable();
        let (mut joined, mut from) = (Part::new(&options), 0);
        for cut in cuts {
            let cut = cut.min(events.len());
            let mut part = Part::new(&options);
            events[from..cut].iter().for_each(|(stamp, event)| part.event(stamp, event));
            joined.join(part);
            from = cut;
        }
        prop_assert_eq!(everything(&joined.finish()), everything(&whole.finish()));
    }

    /// The same events one by one and as departures, which take the short way.
    #[test]
    fn the_short_way_leads_to_the_same_rows(
        kinds in proptest::collection::vec((0u32..3, any::<u8>(), 1u64..3_000_000), 0..200),
        is_by_cpu in any::<bool>(),
    ) {
        let mut now = 0;
        let events: Vec<_> = kinds.iter().map(|(thread, kind, step)| {
            now += step;
            (Stamp { time_ns: now, process: 1, thread: *thread, cpu: 0 }, event_of(*kind))
        }).collect();
        let options = Options::default();
        let arrival =
            if is_by_cpu { Arrival::ByCpu { gap_ns: 1 << 20 } } else { Arrival::InOrder };
        let mut single = Part::new(&options);
        events.iter().for_each(|(stamp, event)| single.event(stamp, event));
        let mut short = Part::of(&options, arrival);
        deliver(&events, &mut short);
        let mut assembly = Assembly::new(&options, arrival);
        assembly.take(short.cut());
        let short = assembly.finish([short]);
        prop_assert!(short.tangled_threads().is_empty());
        prop_assert_eq!(everything(&short.finish()), everything(&single.finish()));
    }

    /// A recorder with two buffers, emptied in rounds; threads move between their CPUs.
    #[test]
    fn segments_of_moving_threads_join_to_the_events_in_order(
        kinds in proptest::collection::vec(
            (0u32..3, any::<u8>(), 1u64..3_000_000, 0u8..8), 0..300),
        rounds in 1usize..8,
        cuts in 1usize..5,
        gap_ns in prop_oneof![Just(0u64), Just(1 << 20)],
    ) {
        let (mut now, mut cpus) = (0, [0u32; 3]);
        let mut is_in_guest = [false; 3];
        let events: Vec<_> = kinds.iter().map(|(thread, kind, step, moves)| {
            now += step;
            let at = *thread as usize;
            // A thread moves outside its guest only: what runs a guest does not go away.
            if *moves == 0 && !is_in_guest[at] {
                cpus[at] ^= 1;
            }
            let event = event_of(*kind);
            match event {
                KvmEvent::Entry { .. } => is_in_guest[at] = true,
                KvmEvent::Exit(_) => is_in_guest[at] = false,
                // Nothing but an exit leaves the guest.
                _ if is_in_guest[at] => return None,
                _ => {}
            }
            Some((Stamp { time_ns: now, process: 1, thread: *thread, cpu: cpus[at] }, event))
        }).collect::<Vec<_>>().into_iter().flatten().collect();
        let options = Options::default();
        let mut ordered = Part::new(&options);
        events.iter().for_each(|(stamp, event)| ordered.event(stamp, event));
        let arrival = Arrival::ByCpu { gap_ns };
        let mut assembly = Assembly::new(&options, arrival);
        let mut parts: Vec<Part> = (0..2).map(|_| Part::of(&options, arrival)).collect();
        for (round, chunk) in events.chunks(events.len().div_ceil(rounds).max(1)).enumerate() {
            for cpu in 0..2 {
                let of_cpu: Vec<_> =
                    chunk.iter().filter(|event| event.0.cpu == cpu).copied().collect();
                for piece in of_cpu.chunks(of_cpu.len().div_ceil(cuts).max(1)) {
                    let part = &mut parts[round % 2];
                    deliver(piece, part);
                    assembly.take(part.cut());
                }
            }
            parts[round % 2].finished_round();
        }
        let joined = assembly.finish(parts);
        // A thread that was cut too coarsely is known; cut everywhere, none is.
        prop_assert!(gap_ns > 0 || joined.tangled_threads().is_empty());
        if joined.tangled_threads().is_empty() {
            prop_assert_eq!(everything(&joined.finish()), everything(&ordered.finish()));
        }
    }

    #[test]
    fn the_order_of_threads_does_not_matter(
        kinds in proptest::collection::vec((0u32..4, any::<u8>(), 1u64..1_000_000), 0..200),
    ) {
        let mut now = 0;
        let events: Vec<_> = kinds.iter().map(|(thread, kind, step)| {
            now += step;
            let stamp = Stamp { time_ns: now, process: 1, thread: *thread, cpu: *thread };
            (stamp, event_of(*kind))
        }).collect();
        let profile_of = |events: &[(Stamp, KvmEvent)]| {
            let mut part = Part::new(&Options::default());
            events.iter().for_each(|(stamp, event)| part.event(stamp, event));
            everything(&part.finish())
        };
        let mut by_thread = events.clone();
        by_thread.sort_by_key(|event| std::cmp::Reverse(event.0.thread));
        prop_assert_eq!(profile_of(&events), profile_of(&by_thread));
    }
}
