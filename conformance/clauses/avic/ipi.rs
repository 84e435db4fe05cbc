//! Sending IPIs. [APM2 "AVIC IPI Virtualization"]

use crate::machine::{Memory, avic, memory, page, requested, send};
use arch::address::SystemPhysical;
use arch::apic::{Icr, Scope};
use arch::svm::avic::{IncompleteIpiReason as Reason, PhysicalEntry, register};
use interrupt::page::Bank;
use virtual_apic::avic::AvicMode::{X2apic, Xapic};
use virtual_apic::avic::{AvicMode, ExitIndex, InvalidTargets, IpiOutcome, SelfKey};

const VECTOR: u8 = 0xFD;
const FIXED: u32 = 0x4000 | VECTOR as u32;
const LOGICAL: u32 = 1 << 11;

/// The destination field as the mode lays it out.
fn icr(mode: AvicMode, low: u32, destination: u32) -> Icr {
    Icr::from_dwords(low, if mode == Xapic { destination << 24 } else { destination })
}

fn check_exit(outcome: IpiOutcome, reason: Reason, index: u16, row: &str) {
    match outcome {
        IpiOutcome::Exit(exit) => assert_eq!((exit.reason, exit.index), (reason, index), "{row}"),
        IpiOutcome::Delivered { .. } => panic!("{row}: no exit"),
    }
}

fn check_delivered(outcome: IpiOutcome, row: &str) {
    assert!(matches!(outcome, IpiOutcome::Delivered { .. }), "{row}: {outcome:?}");
}

#[test]
fn only_fixed_edge_triggered_interrupts_are_accelerated() {
    for mode in [Xapic, X2apic] {
        for delivery in 0..8u32 {
            for is_level in [false, true] {
                let mut memory = memory(mode, &[(1, Some(5))]);
                let low = FIXED | delivery << 8 | u32::from(is_level) << 15;
                let ipi = icr(mode, low, 1);
                let (outcome, rung) = send(&avic(mode), &mut memory, ipi);
                if delivery == 0 && !is_level {
                    check_delivered(outcome, "fixed edge");
                    assert_eq!(rung, [5]);
                } else {
                    let row = format!("{mode:?} delivery {delivery} level {is_level}");
                    check_exit(outcome, Reason::InvalidInterruptType, 0, &row);
                    assert_eq!(requested(&memory, &[1], VECTOR), [0; 0], "{row}");
                }
            }
        }
    }
}

#[test]
fn deassert_is_sent_unless_the_model_refuses_it() {
    let mut avic = avic(Xapic);
    let command = icr(Xapic, VECTOR.into(), 1);
    check_delivered(send(&avic, &mut memory(Xapic, &[(1, Some(5))]), command).0, "");
    avic.behaviour.deassert_is_invalid_type = true;
    let mut memory = memory(Xapic, &[(1, Some(5))]);
    let (outcome, _) = send(&avic, &mut memory, command);
    check_exit(outcome, Reason::InvalidInterruptType, 0, "refused");
}

#[test]
fn vectors_below_16_are_invalid() {
    for vector in 0..=31u8 {
        let mut memory = memory(Xapic, &[(1, Some(5))]);
        let ipi = icr(Xapic, 0x4000 | u32::from(vector), 1);
        let (outcome, _) = send(&avic(Xapic), &mut memory, ipi);
        if vector < 16 {
            check_exit(outcome, Reason::InvalidVector, 0, &vector.to_string());
        } else {
            check_delivered(outcome, &vector.to_string());
        }
    }
}

#[test]
fn a_running_target_gets_its_request_and_its_core_s_doorbell() {
    for (mode, destination, core) in [(Xapic, 3, 7), (X2apic, 3, 0xABC), (X2apic, 300, 1)] {
        let mut memory = memory(mode, &[(destination as u16, Some(core))]);
        let ipi = icr(mode, FIXED, destination);
        let (outcome, rung) = send(&avic(mode), &mut memory, ipi);
        check_delivered(outcome, "running");
        assert_eq!(rung, [core]);
        assert_eq!(requested(&memory, &[destination as u16], VECTOR).len(), 1);
    }
}

#[test]
fn incomplete_ipi_exit_when_target_is_not_running() {
    for mode in [Xapic, X2apic] {
        let mut memory = memory(mode, &[(3, None)]);
        let command = icr(mode, FIXED, 3);
        let (outcome, rung) = send(&avic(mode), &mut memory, command);
        check_exit(outcome, Reason::TargetNotRunning, 3, "index is the destination");
        assert_eq!(rung, [0; 0]);
        assert_eq!(requested(&memory, &[3], VECTOR), [3], "the request stays for the hypervisor");
        let IpiOutcome::Exit(exit) = outcome else { unreachable!() };
        assert_eq!(exit.into_exit_info()[0], command.into_bits(), "EXITINFO1 is the ICR");
    }
}

#[test]
fn incomplete_ipi_exit_when_target_is_invalid() {
    // Not valid, beyond MAX_INDEX, beyond what an index can be.
    for (mode, destination, index) in
        [(Xapic, 9, 9), (X2apic, 9, 9), (X2apic, 512, 512), (X2apic, 0x1_0003, 3)]
    {
        let mut memory = memory(mode, &[(3, Some(1))]);
        let ipi = icr(mode, FIXED, destination);
        let (outcome, _) = send(&avic(mode), &mut memory, ipi);
        check_exit(outcome, Reason::InvalidTarget, index, &format!("{destination:#x}"));
        assert_eq!(requested(&memory, &[3], VECTOR), [0; 0]);
    }
}

#[test]
fn a_valid_entry_beyond_max_index_is_no_target() {
    let mut avic = avic(Xapic);
    avic.max_index = 2;
    let mut memory = memory(Xapic, &[(2, Some(2)), (3, Some(3))]);
    let (outcome, _) = send(&avic, &mut memory, icr(Xapic, FIXED, 3));
    check_exit(outcome, Reason::InvalidTarget, 3, "beyond");
    check_delivered(send(&avic, &mut memory, icr(Xapic, FIXED, 2)).0, "last");
}

#[test]
fn incomplete_ipi_exit_when_the_backing_page_is_beyond_physical_memory() {
    let mut memory = memory(Xapic, &[]);
    let beyond = PhysicalEntry::new()
        .with_is_valid(true)
        .with_is_running(true)
        .with_backing_page(SystemPhysical(1 << 48));
    memory.set_physical(4, beyond);
    let (outcome, rung) = send(&avic(Xapic), &mut memory, icr(Xapic, FIXED, 4));
    check_exit(outcome, Reason::InvalidBackingPage, 4, "directed");
    assert_eq!(rung, [0; 0]);
}

#[test]
fn a_flat_destination_reaches_each_member_once() {
    let mut memory = memory(Xapic, &[(0, Some(0)), (1, Some(1)), (2, Some(2)), (3, Some(3))]);
    let ipi = icr(Xapic, FIXED | LOGICAL, 0b1010);
    let (outcome, rung) = send(&avic(Xapic), &mut memory, ipi);
    check_delivered(outcome, "flat");
    assert_eq!(rung, [1, 3]);
    assert_eq!(requested(&memory, &[0, 1, 2, 3], VECTOR), [1, 3]);
}

#[test]
fn a_cluster_destination_uses_sixteen_bytes_a_cluster() {
    let mut memory = memory(Xapic, &[(20, Some(1)), (21, Some(2)), (22, Some(3))]);
    page(0).set_register(&mut memory, register::DESTINATION_FORMAT, 0x0FFF_FFFF);
    for (index, id) in [(8, 20), (11, 21), (4, 22)] {
        memory.set_logical(index, id);
    }
    let ipi = icr(Xapic, FIXED | LOGICAL, 0x29);
    let (outcome, rung) = send(&avic(Xapic), &mut memory, ipi);
    check_delivered(outcome, "cluster 2, members 0 and 3");
    assert_eq!(rung, [1, 2]);
}

#[test]
fn an_x2apic_logical_destination_is_cluster_times_16_plus_member() {
    let mut memory = memory(X2apic, &[(32, Some(1)), (47, Some(2)), (31, Some(3))]);
    let ipi = icr(X2apic, FIXED | LOGICAL, 0x0002_8001);
    let (outcome, rung) = send(&avic(X2apic), &mut memory, ipi);
    check_delivered(outcome, "cluster 2");
    assert_eq!(rung, [1, 2]);
}

#[test]
fn an_empty_logical_destination_reaches_nobody() {
    for mode in [Xapic, X2apic] {
        let mut memory = memory(mode, &[(0, Some(0))]);
        let ipi = icr(mode, FIXED | LOGICAL, 0);
        let (outcome, rung) = send(&avic(mode), &mut memory, ipi);
        assert_eq!(outcome, IpiOutcome::Delivered { reaches_sender: false });
        assert_eq!(rung, [0; 0]);
    }
}

#[test]
fn an_empty_logical_destination_may_count_as_not_running() {
    for mode in [Xapic, X2apic] {
        let mut avic = avic(mode);
        avic.behaviour.empty_destination_exits = true;
        let mut memory = memory(mode, &[(0, Some(0))]);
        let (outcome, rung) = send(&avic, &mut memory, icr(mode, FIXED | LOGICAL, 0));
        check_exit(outcome, Reason::TargetNotRunning, 0, "nobody");
        assert_eq!(rung, [0; 0]);
    }
}

#[test]
fn a_logical_target_that_is_not_running_is_reported_by_its_logical_index() {
    let mut avic = avic(Xapic);
    let fresh = || {
        let mut memory = memory(Xapic, &[(20, None)]);
        memory.set_logical(2, 20);
        memory
    };
    let ipi = icr(Xapic, FIXED | LOGICAL, 0b100);
    let (outcome, _) = send(&avic, &mut fresh(), ipi);
    check_exit(outcome, Reason::TargetNotRunning, 2, "logical index");
    avic.behaviour.logical_exit_index = ExitIndex::PhysicalTable;
    let (outcome, _) = send(&avic, &mut fresh(), ipi);
    check_exit(outcome, Reason::TargetNotRunning, 20, "physical index");
}

#[test]
fn an_invalid_entry_is_reported_by_the_table_it_is_in() {
    let mut memory = memory(Xapic, &[]);
    let ipi = icr(Xapic, FIXED | LOGICAL, 0b100);
    let (outcome, _) = send(&avic(Xapic), &mut memory, ipi);
    check_exit(outcome, Reason::InvalidTarget, 2, "logical entry");
    memory.set_logical(2, 20);
    let (outcome, _) = send(&avic(Xapic), &mut memory, ipi);
    check_exit(outcome, Reason::InvalidTarget, 20, "physical entry");
}

#[test]
fn nobody_is_interrupted_when_one_target_is_invalid() {
    for mode in [Xapic, X2apic] {
        let mut memory = memory(mode, &[(0, Some(0)), (1, Some(1)), (3, Some(3))]);
        let ipi = icr(mode, FIXED | LOGICAL, 0b1111);
        let (outcome, rung) = send(&avic(mode), &mut memory, ipi);
        check_exit(outcome, Reason::InvalidTarget, 2, "entry 2");
        assert_eq!(rung, [0; 0]);
        assert_eq!(requested(&memory, &[0, 1, 3], VECTOR), [0; 0]);
    }
}

#[test]
fn valid_targets_are_interrupted_where_the_model_delivers_to_others() {
    let mut avic = avic(Xapic);
    avic.behaviour.invalid_targets = InvalidTargets::DeliverToOthers;
    let mut memory = memory(Xapic, &[(0, Some(0)), (1, Some(1)), (3, Some(3))]);
    let ipi = icr(Xapic, FIXED | LOGICAL, 0b1110);
    let (outcome, rung) = send(&avic, &mut memory, ipi);
    check_exit(outcome, Reason::InvalidTarget, 2, "entry 2");
    assert_eq!(rung, [1, 3]);
}

#[test]
fn one_exit_follows_all_deliveries() {
    let running = [(1, Some(1)), (2, None), (3, Some(3)), (4, None)];
    let mut memory = memory(Xapic, &running);
    let ipi = icr(Xapic, FIXED | LOGICAL, 0b1_1110);
    let (outcome, rung) = send(&avic(Xapic), &mut memory, ipi);
    check_exit(outcome, Reason::TargetNotRunning, 2, "the first not running");
    assert_eq!(rung, [1, 3]);
    assert_eq!(requested(&memory, &[1, 2, 3, 4], VECTOR), [1, 2, 3, 4]);
}

/// Four APICs of which the second is absent; the sender is APIC 0.
fn sparse(mode: AvicMode) -> Memory {
    memory(mode, &[(0, Some(10)), (2, Some(12)), (3, Some(13))])
}

#[test]
fn broadcasts_skip_invalid_entries() {
    let self_included = vec![10, 12, 13];
    let self_excluded = vec![12, 13];
    let rows = [
        (Xapic, 2 << 18, 0, &self_included),
        (Xapic, 3 << 18, 0, &self_excluded),
        (Xapic, 0, 0xFF, &self_included),
        (Xapic, LOGICAL, 0xFF, &self_included),
        (X2apic, 2 << 18, 0, &self_included),
        (X2apic, 3 << 18, 0, &self_excluded),
        (X2apic, 0, 0xFFFF_FFFF, &self_included),
        (X2apic, LOGICAL, 0xFFFF_FFFF, &self_included),
    ];
    for (mode, low, destination, cores) in rows {
        let row = format!("{mode:?} {low:#x} {destination:#x}");
        let mut memory = sparse(mode);
        let ipi = icr(mode, FIXED | low, destination);
        let (outcome, rung) = send(&avic(mode), &mut memory, ipi);
        let reaches_sender = cores.contains(&10);
        assert_eq!(outcome, IpiOutcome::Delivered { reaches_sender }, "{row}");
        assert_eq!(&rung, cores, "{row}");
    }
}

#[test]
fn ffh_is_a_flat_mask_where_the_model_reads_it_so() {
    let mut avic = avic(Xapic);
    avic.behaviour.logical_all_ones_is_broadcast = false;
    let ipi = icr(Xapic, FIXED | LOGICAL, 0xFF);
    let (outcome, _) = send(&avic, &mut sparse(Xapic), ipi);
    check_exit(outcome, Reason::InvalidTarget, 1, "member 1 is absent");
}

#[test]
fn x2apic_ffh_is_apic_255_and_no_broadcast() {
    let mut memory = sparse(X2apic);
    let (outcome, _) = send(&avic(X2apic), &mut memory, icr(X2apic, FIXED, 0xFF));
    check_exit(outcome, Reason::InvalidTarget, 0xFF, "APIC 255");
}

#[test]
fn entry_255_takes_no_part_in_xapic_broadcasts() {
    let mut avic = avic(Xapic);
    avic.max_index = 255;
    let mut memory = memory(Xapic, &[(254, Some(1)), (255, Some(2))]);
    let (outcome, rung) = send(&avic, &mut memory, icr(Xapic, FIXED | 2 << 18, 0));
    check_delivered(outcome, "all");
    assert_eq!(rung, [1]);
}

#[test]
fn broadcasts_cover_4096_entries_with_x2avic_ext() {
    let mut avic = avic(X2apic);
    avic.max_index = 4095;
    let mut memory = memory(X2apic, &[(0, Some(0)), (4095, Some(9))]);
    let (outcome, rung) = send(&avic, &mut memory, icr(X2apic, FIXED | 3 << 18, 0));
    check_delivered(outcome, "all");
    assert_eq!(rung, [9]);
}

#[test]
fn the_sender_of_all_but_self_is_known_by_id_or_by_page() {
    let mut avic = avic(Xapic);
    let mut memory = memory(Xapic, &[(0, Some(10)), (1, Some(11))]);
    // A hypervisor that gave the sender's page a changed APIC ID.
    page(0).set_register(&mut memory, register::APIC_ID, 1 << 24);
    let ipi = icr(Xapic, FIXED | 3 << 18, 0);
    assert_eq!(send(&avic, &mut memory, ipi).1, [10]);
    avic.behaviour.self_key = SelfKey::BackingPage;
    assert_eq!(send(&avic, &mut memory, ipi).1, [11]);
}

#[test]
fn self_ipis_never_exit() {
    let forms = [
        (Xapic, icr(Xapic, FIXED | 1 << 18, 0)),
        (X2apic, icr(X2apic, FIXED | 1 << 18, 0)),
        (X2apic, Icr::new().with_vector(VECTOR).with_shorthand(Scope::SelfOnly)),
    ];
    for (mode, ipi) in forms {
        // Not running, as under KVM's enable_ipiv=0, and not even valid.
        for running in [&[(0, None)][..], &[]] {
            let mut memory = memory(mode, running);
            let (outcome, rung) = send(&avic(mode), &mut memory, ipi);
            assert_eq!(outcome, IpiOutcome::Delivered { reaches_sender: true });
            assert_eq!(rung, [0; 0]);
            assert_eq!(requested(&memory, &[0], VECTOR), [0]);
        }
    }
}

#[test]
fn an_accelerated_ipi_makes_its_vector_edge_triggered() {
    for clears in [true, false] {
        let mut avic = avic(Xapic);
        avic.behaviour.ipi_clears_trigger_mode = clears;
        let mut memory = memory(Xapic, &[(1, Some(1))]);
        page(1).insert(&mut memory, Bank::TriggerMode, VECTOR);
        send(&avic, &mut memory, icr(Xapic, FIXED, 1));
        assert_eq!(page(1).contains(&memory, Bank::TriggerMode, VECTOR), !clears);
    }
}
