//! PCI bus 0: configuration mechanism 1 and the memory-mapped window, decoding of base address
//! registers, and INTx pins gathered onto lines.
//! [PCI "Configuration Mechanism #1"] [PCIE "ECAM"]
//!
//! DEVIATION(PCIE "Extended Configuration Space"): registers from 100h on read zero. There are no
//! bridges to further buses.

use crate::lanes;
use crate::map;
use arch::pci::{ConfigurationAddress, FunctionAddress, header};
use arch::time::Picoseconds;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};

mod attachment;
mod configuration;
mod express;
mod function;
mod message;

pub use attachment::Attachment;
pub use configuration::{BAR_COUNT, Bar, Configuration, Identity};
pub use express::Express;
pub use function::{Function, Passive, PciDevice};
pub use message::{MAXIMUM_VECTORS, Msi, Msix};

/// Functions that the bus takes; a mask per line has a bit for each.
const MAXIMUM_FUNCTIONS: usize = 64;

/// What base address registers are assigned from, as firmware would.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Room {
    next_memory: u64,
    next_port: u32,
}

impl Default for Room {
    fn default() -> Self {
        Self { next_memory: map::PCI_MEMORY_START.0, next_port: map::PCI_IO_START.into() }
    }
}

impl Room {
    /// An address for a base address register.
    pub fn allocate(&mut self, bar: Bar) -> u64 {
        let size = bar.size().max(1);
        if bar.is_memory() {
            let address = self.next_memory.next_multiple_of(size.max(4096));
            self.next_memory = address + size;
            address
        } else {
            let address = u64::from(self.next_port).next_multiple_of(size);
            self.next_port = (address + size) as u32;
            address
        }
    }
}

/// Bus 0 with its functions, and CONFIG_ADDRESS of mechanism 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PciBus<D> {
    configuration_address: u32,
    functions: Vec<Function<D>>,
    /// Per line, the functions that assert it.
    asserting: [u64; map::PCI_LINES as usize],
    /// What is left for the regions of further functions.
    pub room: Room,
}

impl<D> Default for PciBus<D> {
    fn default() -> Self {
        Self {
            configuration_address: 0,
            functions: Vec::new(),
            asserting: [0; map::PCI_LINES as usize],
            room: Room::default(),
        }
    }
}

impl<D: PciDevice> PciBus<D> {
    /// Puts a function on the bus. False if its place is taken or the bus is full.
    pub fn add(&mut self, function: Function<D>) -> bool {
        let address = function.address;
        let is_taken = self.function(address).is_some();
        if is_taken || self.functions.len() >= MAXIMUM_FUNCTIONS || address.bus != 0 {
            return false;
        }
        self.functions.push(function);
        let first = FunctionAddress { function: 0, ..address };
        if address != first
            && let Some(first) = self.function_mut(first)
        {
            first.configuration.set(header::HEADER_TYPE, 1, header::MULTI_FUNCTION.into());
        }
        true
    }

    /// Puts a function on the bus whose regions are assigned as it is made.
    pub fn plug(&mut self, make: impl FnOnce(&mut Room) -> Function<D>) -> bool {
        let function = make(&mut self.room);
        self.add(function)
    }

    /// All functions, in the order in which they were added.
    pub fn functions(&self) -> &[Function<D>] {
        &self.functions
    }

    /// All functions, to be changed; the pins of those changed so are not followed.
    pub fn functions_mut(&mut self) -> &mut [Function<D>] {
        &mut self.functions
    }

    /// The function at a bus, device and function number.
    pub fn function(&self, address: FunctionAddress) -> Option<&Function<D>> {
        self.functions.iter().find(|function| function.address == address)
    }

    /// The same, to be changed; its pin is not followed.
    pub fn function_mut(&mut self, address: FunctionAddress) -> Option<&mut Function<D>> {
        self.functions.iter_mut().find(|function| function.address == address)
    }

    /// Runs `act` on the device of a function with its way to the machine, then follows its pin.
    pub fn with_function<T>(
        &mut self,
        cx: &mut Context,
        index: usize,
        act: impl FnOnce(&mut Function<D>, &mut Context) -> T,
    ) -> Option<T> {
        let result = act(self.functions.get_mut(index)?, cx);
        self.follow_pin(cx, index);
        Some(result)
    }

    /// Sends an MSI of a function whose device the board keeps elsewhere; false if MSI is off.
    pub fn signal_msi(&mut self, cx: &mut Context, address: FunctionAddress, vector: u8) -> bool {
        let function = self.function_mut(address);
        function.is_some_and(|function| function.signal_msi(cx, vector))
    }

    /// Reads a function's configuration space; all ones where there is none.
    pub fn read_configuration(&self, address: FunctionAddress, offset: u16, size: u8) -> u32 {
        match self.function(address) {
            Some(function) => function.configuration.read(offset, size),
            None => lanes::all_ones(size) as u32,
        }
    }

    /// Writes a function's configuration space, as far as its registers allow.
    pub fn write_configuration(
        &mut self,
        cx: &mut Context,
        address: FunctionAddress,
        offset: u16,
        size: u8,
        value: u32,
    ) {
        let index = self.functions.iter().position(|function| function.address == address);
        if let Some(index) = index {
            self.functions[index].write_configuration(cx, offset, size, value);
            self.follow_pin(cx, index);
        }
    }

    /// The memory-mapped configuration window, `offset` from its base.
    pub fn read_window(&self, offset: u64, size: u8) -> u64 {
        let half = |offset: u64, size: u8| {
            let (address, register) = FunctionAddress::from_window_offset(offset);
            u64::from(self.read_configuration(address, register, size))
        };
        if size == 8 { half(offset, 4) | half(offset + 4, 4) << 32 } else { half(offset, size) }
    }

    /// Writes through the memory-mapped window, 1, 2, 4 or 8 bytes at `offset` of [`map::ECAM`].
    pub fn write_window(&mut self, cx: &mut Context, offset: u64, size: u8, value: u64) {
        let mut half = |offset: u64, size: u8, value: u32| {
            let (address, register) = FunctionAddress::from_window_offset(offset);
            self.write_configuration(cx, address, register, size, value);
        };
        if size == 8 {
            half(offset, 4, value as u32);
            half(offset + 4, 4, (value >> 32) as u32);
        } else {
            half(offset, size, value as u32);
        }
    }

    /// Ports CF8h to CFFh. Only a double word at CF8h reaches the address register.
    pub fn read_mechanism(&self, port: u16, size: u8) -> u32 {
        if port < map::PCI_CONFIGURATION_DATA {
            let offset = u64::from(port - map::PCI_CONFIGURATION_ADDRESS);
            return match size {
                4 if offset == 0 => self.configuration_address,
                _ => lanes::all_ones(size) as u32,
            };
        }
        match self.selected(port) {
            Some((address, offset)) => self.read_configuration(address, offset, size),
            None => lanes::all_ones(size) as u32,
        }
    }

    /// Writes to CONFIG_ADDRESS or CONFIG_DATA.
    pub fn write_mechanism(&mut self, cx: &mut Context, port: u16, size: u8, value: u32) {
        if port == map::PCI_CONFIGURATION_ADDRESS && size == 4 {
            self.configuration_address = value & 0x80FF_FFFC;
        } else if port >= map::PCI_CONFIGURATION_DATA
            && let Some((address, offset)) = self.selected(port)
        {
            self.write_configuration(cx, address, offset, size, value);
        }
    }

    fn selected(&self, port: u16) -> Option<(FunctionAddress, u16)> {
        let selector = ConfigurationAddress::from_bits(self.configuration_address);
        let address = FunctionAddress::new(selector.bus(), selector.device(), selector.function());
        let offset = u16::from(selector.register()) * 4 + (port & 3);
        selector.is_enabled().then_some((address, offset))
    }

    /// A read in memory or port space; nothing if no region is there.
    pub fn read(
        &mut self,
        cx: &mut Context,
        address: u64,
        is_memory: bool,
        size: u8,
    ) -> Option<u64> {
        let (index, bar, offset) = self.decode(address, is_memory)?;
        self.with_function(cx, index, |function, cx| {
            if size < 8 {
                return u64::from(function.read(cx, bar, offset, size));
            }
            let low = function.read(cx, bar, offset, 4);
            let high = function.read(cx, bar, offset + 4, 4);
            u64::from(high) << 32 | u64::from(low)
        })
    }

    /// A write in memory or port space; false if no region is there.
    pub fn write(
        &mut self,
        cx: &mut Context,
        address: u64,
        is_memory: bool,
        size: u8,
        value: u64,
    ) -> bool {
        let Some((index, bar, offset)) = self.decode(address, is_memory) else { return false };
        self.with_function(cx, index, |function, cx| {
            function.write(cx, bar, offset, size.min(4), value as u32);
            if size == 8 {
                function.write(cx, bar, offset + 4, 4, (value >> 32) as u32);
            }
        });
        true
    }

    fn decode(&self, address: u64, is_memory: bool) -> Option<(usize, usize, u64)> {
        self.functions.iter().enumerate().find_map(|(index, function)| {
            let (bar, offset) = function.configuration.decode(address, is_memory)?;
            Some((index, bar, offset))
        })
    }

    /// When the first device behind a function has something to do.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        self.functions.iter().filter_map(|function| function.device.next_deadline()).min()
    }

    /// Lets the devices whose deadlines have passed do their work.
    pub fn advance(&mut self, cx: &mut Context) {
        for index in 0..self.functions.len() {
            if self.functions[index].device.next_deadline().is_some_and(|at| at <= cx.now) {
                self.with_function(cx, index, Function::advance);
            }
        }
        (0..self.functions.len()).for_each(|index| self.carry(cx, index));
    }

    /// Takes what a function has sent over a wire to the function at the wire's other end.
    fn carry(&mut self, cx: &mut Context, index: usize) {
        let Some((address, frames)) = self.functions[index].device.take_departed() else { return };
        let to = self.functions.iter().position(|function| function.address == address);
        let Some(to) = to else { return };
        for frame in frames {
            self.with_function(cx, to, |function, cx| function.receive(cx, &frame));
        }
    }

    fn follow_pin(&mut self, cx: &mut Context, index: usize) {
        let function = &mut self.functions[index];
        let pin = function.configuration.get(header::INTERRUPT_PIN, 1) as u8;
        if pin == 0 {
            return;
        }
        let is_asserted = function.pin();
        let gsi = map::pci_line(function.address.device, pin - 1);
        let initiator = Initiator::Device(function.address.requester());
        let line = &mut self.asserting[usize::from(gsi - map::PCI_FIRST_LINE)];
        let before = *line != 0;
        *line = *line & !(1 << index) | u64::from(is_asserted) << index;
        let asserted = *line != 0;
        if asserted != before {
            cx.effect(initiator, Effect::Line { gsi, asserted });
        }
    }
}

#[cfg(test)]
mod tests;
