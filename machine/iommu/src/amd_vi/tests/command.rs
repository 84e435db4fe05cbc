//! Registers, commands and the event log.

use super::*;
use arch::amd_vi::ExtendedFeatures;

#[test]
fn a_completion_wait_stores_behind_all_commands_before_it() {
    let mut bench = Bench::new();
    bench.command(Command::InvalidateDevice(FUNCTION));
    bench.command(Command::InvalidatePages { domain: 7, address: Device(0), bits: 64 });
    bench.command(Command::InvalidateInterrupts(FUNCTION));
    let store = Some(SystemPhysical(STORE));
    bench.command(Command::CompletionWait { store, data: 0x1234_5678_9ABC, interrupts: true });
    assert_eq!(bench.memory.read_u64(SystemPhysical(STORE)), Ok(0x1234_5678_9ABC));
    assert_eq!(bench.read(at::COMMAND_HEAD), 64);
    assert!(bench.status().contains(Status::COMPLETION_INTERRUPT));
    assert_eq!(bench.iommu.take_signals(), [Signal::Message]);
}

#[test]
fn commands_wait_until_the_buffer_and_the_whole_are_enabled() {
    for (is_enabled, processes_commands) in [(false, true), (true, false)] {
        let mut bench = Bench::new();
        let control =
            running().with_is_enabled(is_enabled).with_processes_commands(processes_commands);
        bench.write(at::CONTROL, control.into_bits());
        let store = Some(SystemPhysical(STORE));
        bench.command(Command::CompletionWait { store, data: 1, interrupts: false });
        assert_eq!(bench.memory.read_u64(SystemPhysical(STORE)), Ok(0));
        assert!(!bench.status().contains(Status::COMMAND_RUN));
        bench.write(at::CONTROL, running().into_bits());
        assert_eq!(bench.memory.read_u64(SystemPhysical(STORE)), Ok(1));
    }
}

#[test]
fn the_command_ring_wraps() {
    let mut bench = Bench::new();
    for data in 1..=600 {
        let store = Some(SystemPhysical(STORE));
        bench.command(Command::CompletionWait { store, data, interrupts: false });
        assert_eq!(bench.memory.read_u64(SystemPhysical(STORE)), Ok(data));
    }
    assert_eq!(bench.read(at::COMMAND_HEAD), 600 % 256 * 16);
}

#[test]
fn what_is_no_command_stops_the_buffer_and_is_logged_with_its_address() {
    for command in [Command::Unknown(0), Command::Unknown(15), Command::Prefetch] {
        let mut bench = Bench::new();
        bench.command(Command::InvalidateDevice(FUNCTION));
        bench.command(command);
        bench.command(Command::InvalidateDevice(FUNCTION));
        assert!(!bench.status().contains(Status::COMMAND_RUN));
        assert_eq!(bench.read(at::COMMAND_HEAD), 16, "{command:?}");
        assert_eq!(bench.event(), Some((5, 0, 0, COMMANDS + 16)));
        assert_eq!(bench.event(), None);
    }
}

#[test]
fn a_buffer_where_there_is_no_memory_is_a_hardware_error() {
    let mut bench = Bench::new();
    bench.write(at::COMMAND_BASE, MEMORY | 8 << 56);
    bench.write(at::COMMAND_TAIL, 16);
    assert_eq!(bench.event(), Some((6, 0, 0, MEMORY)));
}

#[test]
fn the_event_log_stops_when_full_and_runs_again_when_restarted() {
    let mut bench = Bench::new();
    bench.set_entry(translation(0).with_is_readable(false).with_is_writable(false), remapping());
    for _ in 0..300 {
        let read = bench.iommu.translate(&mut bench.memory, FUNCTION, Device(0), Access::Read);
        assert!(read.is_err());
    }
    let stopped = bench.status();
    assert!(stopped.contains(Status::EVENT_OVERFLOW) && !stopped.contains(Status::EVENT_LOG_RUN));
    let signals = bench.iommu.take_signals();
    let messages = signals.iter().filter(|signal| **signal == Signal::Message).count();
    assert_eq!(messages, 2, "one for the first event, one for the overflow");
    assert_eq!(signals.len() - messages, 300, "what has no place in the log is told too");
    let mut events = 0;
    while bench.event().is_some() {
        events += 1;
    }
    assert_eq!(events, 255);
    bench.write(at::CONTROL, running().with_logs_events(false).into_bits());
    bench.write(at::STATUS, u64::MAX);
    bench.write(at::CONTROL, running().into_bits());
    assert_eq!(bench.status() & Status::EVENT_OVERFLOW, Status::empty());
    assert!(bench.remap(0).eq(&Remapped::Aborted));
    assert!(bench.event().is_some());
}

#[test]
fn status_bits_are_cleared_by_ones_and_others_do_not_change() {
    let mut bench = Bench::new();
    bench.command(Command::CompletionWait { store: None, data: 0, interrupts: true });
    let before = bench.status();
    bench.iommu.write(&mut bench.memory, at::STATUS, 4, 0);
    assert_eq!(bench.status(), before);
    bench.iommu.write(&mut bench.memory, at::STATUS, 4, u64::MAX);
    assert_eq!(bench.status(), before - Status::COMPLETION_INTERRUPT);
}

#[test]
fn registers_take_both_halves_and_what_is_not_there_stays_zero() {
    let mut bench = Bench::new();
    bench.iommu.write(&mut bench.memory, at::EVENT_BASE, 4, 0x0012_3000);
    bench.iommu.write(&mut bench.memory, at::EVENT_BASE + 4, 4, 0x0F00_0001);
    assert_eq!(bench.read(at::EVENT_BASE), 0x0F00_0001_0012_3000);
    assert_eq!(bench.iommu.read(at::EVENT_BASE + 4, 4), 0x0F00_0001);
    for offset in [at::EXTENDED_FEATURE, at::EXTENDED_FEATURE_2, at::PAGE_REQUEST_BASE, 0x1000] {
        let before = bench.read(offset);
        bench.write(offset, !before);
        assert_eq!(bench.read(offset), before, "{offset:#x}");
    }
}

#[test]
fn control_has_only_what_the_features_have() {
    let none = Model { features: ExtendedFeatures::new(), ..zen_4() };
    let mut bench = Bench::with(none, Behaviour::default());
    bench.write(at::CONTROL, u64::MAX);
    let control = Control::from_bits(bench.read(at::CONTROL));
    assert!(control.is_enabled() && !control.has_wide_remapping_entries());
    assert_eq!((control.guest_mode(), control.logs_guest_interrupts()), (0, false));
    assert!(!control.has_x2apic_destinations() && !control.has_x2apic_messages());
    assert!(!control.handles_page_requests() && !control.translates_guest_addresses());
}

#[test]
fn the_guest_log_runs_before_there_is_a_guest_mode() {
    let mut bench = Bench::new();
    let off = running().with_guest_mode(0).with_logs_guest_interrupts(false);
    bench.write(at::CONTROL, off.into_bits());
    assert!(!bench.status().contains(Status::GUEST_LOG_RUN));
    bench.write(at::CONTROL, off.with_logs_guest_interrupts(true).into_bits());
    assert!(bench.status().contains(Status::GUEST_LOG_RUN));
}

#[test]
fn its_own_interrupts_go_where_the_extended_registers_say() {
    let mut bench = Bench::new();
    bench.write(at::CONTROL, running().with_has_x2apic_messages(true).into_bits());
    bench.write(at::EVENT_INTERRUPT, 0x1200_0031_3456_7804);
    bench.command(Command::CompletionWait { store: None, data: 0, interrupts: true });
    let signals = bench.iommu.take_signals();
    let [Signal::Interrupt(message)] = signals[..] else { panic!("{signals:?}") };
    assert_eq!((message.destination, message.vector), (0x1234_5678, Vector(0x31)));
    assert!(message.is_x2apic && !message.is_level);
}
