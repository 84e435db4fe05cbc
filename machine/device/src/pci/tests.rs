use super::*;
use crate::bench::Bench;
use crate::test_function::TestFunction;
use arch::pci::Command;

const AT: FunctionAddress = FunctionAddress::new(0, 3, 0);

fn bus() -> PciBus<TestFunction> {
    let mut bus = PciBus::default();
    let identity = Identity { vendor: 0x1B36, device: 5, ..Identity::default() };
    let mut configuration = Configuration::new(identity);
    let memory = Bar::Memory32 { size: 4096 };
    let ports = Bar::Io { size: 256 };
    configuration.set_bar(0, memory, bus.room.allocate(memory));
    configuration.set_bar(1, ports, bus.room.allocate(ports));
    configuration.set_command(Command::IO_SPACE | Command::MEMORY_SPACE);
    configuration.set(header::INTERRUPT_PIN, 1, 1);
    assert!(bus.add(Function::new(AT, configuration, TestFunction::default())));
    bus
}

#[test]
fn both_ways_into_configuration_space_see_the_same_registers() {
    let (mut bench, mut bus) = (Bench::new(), bus());
    bus.write_mechanism(&mut bench.context(), 0xCF8, 4, 0x8000_1800);
    assert_eq!(bus.read_mechanism(0xCF8, 4), 0x8000_1800);
    assert_eq!(bus.read_mechanism(0xCFC, 4), 0x0005_1B36);
    assert_eq!(bus.read_mechanism(0xCFE, 2), 0x0005);
    assert_eq!(bus.read_mechanism(0xCFF, 1), 0x00);
    assert_eq!(bus.read_window(3 << 15, 4), 0x0005_1B36);
    assert_eq!(bus.read_window(3 << 15, 8), 0x0000_0003_0005_1B36);
    bus.write_window(&mut bench.context(), (3 << 15) + 0x3C, 1, 0x77);
    bus.write_mechanism(&mut bench.context(), 0xCF8, 4, 0x8000_183C);
    assert_eq!(bus.read_mechanism(0xCFC, 1), 0x77);
}

#[test]
fn absent_functions_and_a_disabled_address_read_all_ones() {
    let (mut bench, mut bus) = (Bench::new(), bus());
    for selector in [0x8000_2000, 0x8001_1800, 0x0000_1800, 0x8000_1900] {
        bus.write_mechanism(&mut bench.context(), 0xCF8, 4, selector);
        assert_eq!(bus.read_mechanism(0xCFC, 4), u32::MAX, "{selector:#x}");
        assert_eq!(bus.read_mechanism(0xCFD, 1), 0xFF, "{selector:#x}");
    }
    assert_eq!(bus.read_window(1 << 20, 8), u64::MAX);
    assert_eq!(bus.read_mechanism(0xCF8, 1), 0xFF);
    bus.write_mechanism(&mut bench.context(), 0xCF8, 1, 0x55);
    assert_eq!(bus.read_mechanism(0xCF8, 4), 0x8000_1900);
}

#[test]
fn regions_answer_in_their_own_space() {
    let (mut bench, mut bus) = (Bench::new(), bus());
    let cx = &mut bench.context();
    assert!(bus.write(cx, 0xC000_0000, true, 1, 0));
    assert_eq!(bus.read(cx, 0xC000_0004, true, 4), Some(0x800));
    assert_eq!(bus.read(cx, 0xC000_0004, true, 8), Some(0x0000_00FA_0000_0800));
    assert_eq!(bus.read(cx, 0xC000, true, 4), None);
    assert!(bus.write(cx, 0xC000, false, 1, 1));
    assert_eq!(bus.read(cx, 0xC004, false, 4), Some(0x81));
    assert_eq!(bus.read(cx, 0xC100, false, 1), None);
}

#[test]
fn a_pin_reaches_its_line_unless_the_command_register_forbids_it() {
    let (mut bench, mut bus) = (Bench::new(), bus());
    bus.with_function(&mut bench.context(), 0, |function, _| function.wants_pin = true);
    assert_eq!(bench.levels(19), [true]);
    assert_eq!(bus.read_configuration(AT, header::STATUS, 2) & 8, 8);
    bus.write_configuration(&mut bench.context(), AT, header::COMMAND, 2, 0x0400);
    assert_eq!(bench.levels(19), [false]);
    assert_eq!(bus.read_configuration(AT, header::STATUS, 2) & 8, 8);
}

#[test]
fn functions_that_share_a_line_hold_it_together() {
    let (mut bench, mut bus) = (Bench::new(), bus());
    let mut second = bus.functions[0].clone();
    second.address = FunctionAddress::new(0, 3 + map::PCI_LINES, 0);
    assert!(bus.add(second));
    for (index, wants_pin, levels) in
        [(0, true, vec![true]), (1, true, vec![]), (0, false, vec![]), (1, false, vec![false])]
    {
        bus.with_function(&mut bench.context(), index, |function, _| {
            function.wants_pin = wants_pin;
        });
        assert_eq!(bench.levels(19), levels, "function {index} {wants_pin}");
    }
}

#[test]
fn a_place_is_taken_once() {
    let mut bus = bus();
    let again = bus.functions[0].clone();
    assert!(!bus.add(again));
}

#[test]
fn a_message_leaves_a_bus_master_whose_messages_are_enabled() {
    for (command, control, is_enabled, messages) in
        [(0x6, 1, true, 1), (0x2, 1, true, 0), (0x6, 0, false, 0)]
    {
        let (mut bench, mut bus) = (Bench::new(), bus());
        let function = bus.function_mut(AT).unwrap();
        function.msi = Msi::add(&mut function.configuration, 0);
        bus.write_configuration(&mut bench.context(), AT, 0x42, 2, control);
        bus.write_configuration(&mut bench.context(), AT, 0x04, 2, command);
        assert_eq!(bus.signal_msi(&mut bench.context(), AT, 0), is_enabled);
        assert_eq!(bench.effects().len(), messages, "command {command:#x}");
    }
    let mut bench = Bench::new();
    assert!(!bus().signal_msi(&mut bench.context(), map::SMBUS, 0), "no such function");
}
