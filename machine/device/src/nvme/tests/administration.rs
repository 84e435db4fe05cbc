//! Commands of the admin queue: identity, queues, features, logs and events.

use super::*;
use arch::nvme::feature;
use arch::nvme::identify::{SIZE, controller, health};

fn set(feature: u8, value: u32) -> Submission {
    let arguments = [feature.into(), value, 0, 0, 0, 0];
    Submission { opcode: admin::SET_FEATURES, arguments, ..Submission::default() }
}

fn get(feature: u8) -> Submission {
    Submission { opcode: admin::GET_FEATURES, ..set(feature, 0) }
}

fn log_page(page: u8, dwords: u32) -> Submission {
    let arguments = [(dwords - 1) << 16 | u32::from(page), 0, 0, 0, 0, 0];
    Submission {
        opcode: admin::GET_LOG_PAGE,
        prp1: DATA,
        prp2: DATA + 0x1000,
        arguments,
        ..Submission::default()
    }
}

const EVENT_REQUEST: Submission = Submission {
    opcode: admin::ASYNCHRONOUS_EVENT_REQUEST,
    flags: 0,
    identifier: 0,
    namespace: 0,
    metadata: 0,
    prp1: 0,
    prp2: 0,
    arguments: [0; 6],
};

#[test]
fn identify_answers_controller_namespace_list_and_descriptors() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    assert_eq!(driver.status(0, identify(1, 0)), Status::SUCCESS);
    let page = driver.load(DATA, SIZE);
    assert_eq!(page[controller::LONGEST_TRANSFER], 7);
    assert_eq!(page[controller::SERIAL_NUMBER..][..20], *b"nvme0               ");
    assert!(page[controller::SUBSYSTEM_NAME..].starts_with(b"nqn.2014-08.org.nvmexpress:uuid:"));
    assert_eq!(driver.status(0, identify(0, 1)), Status::SUCCESS);
    assert_eq!(driver.dword(DATA + namespace::SIZE as u64), SECTORS as u32);
    assert_eq!(driver.dword(DATA + namespace::FORMATS as u64), 9 << 16);
    assert_eq!(driver.status(0, identify(2, 0)), Status::SUCCESS);
    assert_eq!((driver.dword(DATA), driver.dword(DATA + 4)), (1, 0));
    assert_eq!(driver.status(0, identify(2, 1)), Status::SUCCESS);
    assert_eq!(driver.dword(DATA), 0);
    assert_eq!(driver.status(0, identify(3, 1)), Status::SUCCESS);
    assert_eq!(driver.load(DATA, 2), [1, 8]);
    assert_eq!(driver.load(DATA + 12, 2), [2, 16]);
    for (structure, namespace, status) in [
        (0, 0, Status::INVALID_NAMESPACE),
        (0, 2, Status::INVALID_NAMESPACE),
        (0, ALL_NAMESPACES, Status::INVALID_NAMESPACE),
        (2, 0xFFFF_FFFE, Status::INVALID_NAMESPACE),
        (3, 0, Status::INVALID_NAMESPACE),
        (0x10, 1, Status::INVALID_FIELD),
    ] {
        assert_eq!(driver.status(0, identify(structure, namespace)), status, "{structure:#x}");
    }
}

#[test]
fn queues_are_made_and_deleted_by_their_rules() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    let limit = MAXIMUM_QUEUE_PAIRS;
    for (queue, entries, vector, status) in [
        (0, 16, 0, Status::INVALID_QUEUE),
        (limit + 1, 16, 0, Status::INVALID_QUEUE),
        (1, 1, 0, Status::INVALID_QUEUE_SIZE),
        (1, 1025, 0, Status::INVALID_QUEUE_SIZE),
        (1, 16, VECTORS, Status::INVALID_VECTOR),
        (1, 16, 1, Status::SUCCESS),
        (1, 16, 1, Status::INVALID_QUEUE),
    ] {
        let found = driver.create_completion(queue, entries, vector);
        assert_eq!(found, status, "completion queue {queue}, {entries} entries, vector {vector}");
    }
    for (queue, entries, completion, status) in [
        (1, 16, 0, Status::INVALID_QUEUE),
        (1, 16, 2, Status::COMPLETION_QUEUE_INVALID),
        (1, 16, limit + 1, Status::INVALID_QUEUE),
        (0, 16, 1, Status::INVALID_QUEUE),
        (2, 1, 1, Status::INVALID_QUEUE_SIZE),
        (2, 16, 1, Status::SUCCESS),
        (2, 16, 1, Status::INVALID_QUEUE),
    ] {
        let found = driver.create_submission(queue, entries, completion);
        assert_eq!(found, status, "submission queue {queue}, {entries} entries, of {completion}");
    }
    let delete = |opcode, queue: u32| {
        let arguments = [queue, 0, 0, 0, 0, 0];
        Submission { opcode, arguments, ..Submission::default() }
    };
    for (opcode, queue, status) in [
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::INVALID_QUEUE_DELETION),
        (admin::DELETE_SUBMISSION_QUEUE, 1, Status::INVALID_QUEUE),
        (admin::DELETE_SUBMISSION_QUEUE, 0, Status::INVALID_QUEUE),
        (admin::DELETE_SUBMISSION_QUEUE, 2, Status::SUCCESS),
        (admin::DELETE_COMPLETION_QUEUE, 0, Status::INVALID_QUEUE),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::SUCCESS),
        (admin::DELETE_COMPLETION_QUEUE, 1, Status::INVALID_QUEUE),
    ] {
        assert_eq!(driver.status(0, delete(opcode, queue)), status, "{opcode:#x} of {queue}");
    }
}

#[test]
fn a_queue_that_is_not_contiguous_or_not_at_a_page_is_refused() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    for (prp1, flags, status) in [
        (COMPLETION + 0x1000, 2, Status::INVALID_FIELD),
        (COMPLETION + 0x1010, 3, Status::PRP_OFFSET_INVALID),
    ] {
        let arguments = [queue_word(1, 16), flags, 0, 0, 0, 0];
        let opcode = admin::CREATE_COMPLETION_QUEUE;
        let command = Submission { opcode, prp1, arguments, ..Submission::default() };
        assert_eq!(driver.status(0, command), status);
    }
    driver.write(register::CONFIGURATION, ENABLED & !(15 << 20));
    assert_eq!(driver.create_completion(1, 16, 1), Status::INVALID_QUEUE_SIZE);
}

#[test]
fn wrong_doorbells_are_told_once_until_the_error_log_is_read() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    driver.put(0, EVENT_REQUEST);
    driver.put(0, EVENT_REQUEST);
    driver.ring(0);
    driver.wait();
    assert_eq!(driver.take(0), None, "nothing happened");
    for (offset, value, result) in [
        // Queue 3 is not there.
        (24, 1, 0x1_0000),
        (8, ENTRIES, 0x1_0100),
        (8, 0, 0x1_0100),
        // Nothing was completed.
        (12, 1, 0x1_0100),
    ] {
        driver.write(register::DOORBELLS + offset, value);
        driver.write(register::DOORBELLS + offset, value);
        let seen = driver.take(0).expect("an event");
        assert_eq!((seen.result, seen.status), (result, Status::SUCCESS), "{offset}: {value}");
        assert_eq!(driver.take(0), None, "it is masked");
        driver.release(0);
        assert_eq!(driver.status(0, log_page(1, 16)), Status::SUCCESS);
        assert_ne!(driver.dword(DATA), 0);
        driver.put(0, EVENT_REQUEST);
        driver.ring(0);
        driver.wait();
    }
}

#[test]
fn no_more_event_requests_are_kept_than_the_controller_says() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    for _ in 0..5 {
        driver.put(0, EVENT_REQUEST);
    }
    driver.ring(0);
    driver.wait();
    assert_eq!(driver.take(0).map(|seen| seen.status), Some(Status::EVENT_REQUEST_LIMIT));
    assert_eq!(driver.take(0), None);
}

#[test]
fn an_abort_ends_a_command_that_is_not_done() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    let read = driver.put(1, blocks(io::READ, 0, 1024));
    driver.ring(1);
    let abort = |identifier: u16| Submission {
        opcode: admin::ABORT,
        arguments: [u32::from(identifier) << 16 | 1, 0, 0, 0, 0, 0],
        ..Submission::default()
    };
    // The data of the read takes longer than the abort.
    assert_eq!(driver.run(0, abort(read)).result, 0);
    assert_eq!(driver.take(1).map(|seen| seen.status), Some(Status::ABORT_REQUESTED));
    assert_eq!(driver.run(0, abort(read)).result, 1, "it is not there any more");
}

#[test]
fn features_keep_what_they_are_set_to() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    for (identifier, value, kept) in [
        (feature::ARBITRATION, u32::MAX, 0xFFFF_FF07),
        (feature::POWER_MANAGEMENT, 0, 0),
        (feature::TEMPERATURE_THRESHOLD, 400, 400),
        (feature::ERROR_RECOVERY, 5, 5),
        (feature::VOLATILE_WRITE_CACHE, 0, 0),
        (feature::INTERRUPT_COALESCING, 0x0203, 0x0203),
        (feature::INTERRUPT_VECTOR, 1 << 16, 1 << 16),
        (feature::WRITE_ATOMICITY, 1, 1),
        (feature::EVENT_CONFIGURATION, 0xFF, 0xFF),
    ] {
        assert_eq!(driver.status(0, set(identifier, value)), Status::SUCCESS, "{identifier:#x}");
        let seen = driver.run(0, get(identifier));
        assert_eq!((seen.status, seen.result), (Status::SUCCESS, kept), "{identifier:#x}");
    }
    for (command, status) in [
        (set(feature::POWER_MANAGEMENT, 1), Status::INVALID_FIELD),
        (set(feature::ERROR_RECOVERY, 1 << 16), Status::INVALID_FIELD),
        (set(feature::TEMPERATURE_THRESHOLD, 1 << 16), Status::INVALID_FIELD),
        (set(feature::INTERRUPT_VECTOR, VECTORS.into()), Status::INVALID_FIELD),
        (set(0x7F, 0), Status::INVALID_FIELD),
        (get(0x7F), Status::INVALID_FIELD),
        (Submission { namespace: 1, ..set(feature::ARBITRATION, 0) }, Status::NOT_OF_A_NAMESPACE),
    ] {
        assert_eq!(driver.status(0, command), status, "{command:?}");
    }
    let mut saved = set(feature::ARBITRATION, 0);
    saved.arguments[0] |= 1 << 31;
    assert_eq!(driver.status(0, saved), Status::NOT_SAVEABLE);
    let mut of_defaults = get(feature::ARBITRATION);
    of_defaults.arguments[0] |= 1 << 8;
    assert_eq!(driver.status(0, of_defaults), Status::INVALID_FIELD);
}

#[test]
fn queues_are_granted_once_and_bound_what_can_be_made() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    let number = feature::NUMBER_OF_QUEUES;
    assert_eq!(driver.status(0, set(number, 0xFFFF)), Status::INVALID_FIELD);
    assert_eq!(driver.run(0, set(number, 0x1000_1000)).result, 0x7F_007F);
    assert_eq!(driver.run(0, set(number, 0x1_0000)).result, 0x1_0000);
    assert_eq!(driver.run(0, get(number)).result, 0x1_0000);
    assert_eq!(driver.create_completion(3, 16, 0), Status::INVALID_QUEUE);
    assert_eq!(driver.create_completion(2, 16, 0), Status::SUCCESS);
    assert_eq!(driver.create_submission(2, 16, 2), Status::INVALID_QUEUE);
    assert_eq!(driver.status(0, set(number, 0)), Status::SEQUENCE_ERROR);
}

#[test]
fn log_pages_tell_errors_health_and_firmware() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    assert_eq!(
        driver.status(1, blocks(io::READ, SECTORS as u64 + 5, 1)),
        Status::BLOCK_OUT_OF_RANGE
    );
    assert_eq!(driver.status(0, log_page(1, 16)), Status::SUCCESS);
    assert_eq!(driver.dword(DATA), 1);
    assert_eq!(driver.load(DATA + 8, 2), [1, 0]);
    assert_eq!(driver.dword(DATA + 16), SECTORS as u32 + 5);
    assert_eq!(driver.status(1, blocks(io::READ, 0, 16)), Status::SUCCESS);
    assert_eq!(driver.status(0, log_page(2, 128)), Status::SUCCESS);
    let page = driver.load(DATA, 512);
    assert_eq!((page[health::WARNING], page[health::COMPOSITE]), (0, 57));
    assert_eq!((page[health::UNITS_READ], page[health::READS]), (1, 1));
    assert_eq!(page[health::ERRORS], 1);
    assert_eq!(driver.status(0, log_page(3, 4)), Status::SUCCESS);
    assert_eq!(driver.load(DATA, 1), [1]);
    let at_2000 = Submission { arguments: [0, 0, 2000, 0, 0, 0], ..log_page(3, 1) };
    for (command, status) in [
        (log_page(0x80, 1), Status::INVALID_LOG_PAGE),
        (Submission { arguments: [2, 0x2, 0, 0, 0, 0], ..log_page(2, 1) }, Status::INVALID_FIELD),
        (Submission { arguments: [3, 0, 2000, 0, 0, 0], ..at_2000 }, Status::INVALID_FIELD),
        (Submission { namespace: 1, ..log_page(2, 1) }, Status::INVALID_FIELD),
    ] {
        assert_eq!(driver.status(0, command), status, "{command:?}");
    }
}

#[test]
fn a_temperature_beyond_its_threshold_is_told_to_who_asked() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    driver.put(0, EVENT_REQUEST);
    assert_eq!(driver.put(0, set(feature::EVENT_CONFIGURATION, 2)), 1);
    assert_eq!(driver.put(0, set(feature::TEMPERATURE_THRESHOLD, 300)), 2);
    driver.ring(0);
    driver.wait();
    let seen: Vec<_> = core::iter::from_fn(|| driver.take(0)).collect();
    let told = seen.iter().find(|seen| seen.identifier == 0).expect("an event");
    assert_eq!(told.result, 2 << 16 | 1 << 8 | 1);
    driver.release(0);
    assert_eq!(driver.status(0, log_page(2, 128)), Status::SUCCESS);
    assert_eq!(driver.load(DATA, 1), [2]);
}
