//! The keyboard controller, as far as probing, the A20 gate and resets need it, with nothing
//! plugged into either port. [8042 "IBM PS/2 Keyboard and Auxiliary Device Controller"]
//!
//! DEVIATION(8042 "A20 gate"): the gate is a bit that can be read back; addresses never wrap at
//! 1 MiB, as on boards that leave the gate open.

use crate::map;
use bitflags::bitflags;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Status: u8 {
        const OUTPUT_FULL = 1 << 0;
        const SYSTEM = 1 << 2;
        const LAST_WAS_COMMAND = 1 << 3;
        const IS_UNLOCKED = 1 << 4;
        const FROM_AUXILIARY = 1 << 5;
        const TIMEOUT = 1 << 6;
    }
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Mode: u8 {
        const KEYBOARD_INTERRUPT = 1 << 0;
        const AUXILIARY_INTERRUPT = 1 << 1;
        const SYSTEM = 1 << 2;
        const KEYBOARD_DISABLED = 1 << 4;
        const AUXILIARY_DISABLED = 1 << 5;
        const TRANSLATE = 1 << 6;
    }
}

const OUTPUT_NOT_RESET: u8 = 1 << 0;
const OUTPUT_A20: u8 = 1 << 1;
/// What the controller answers when a device does not take a byte in time.
const RESEND: u8 = 0xFE;
const KEYBOARD_LINE_STUCK: u8 = 0x01;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyboardController {
    status: Status,
    mode: Mode,
    output: u8,
    output_port: u8,
    /// The command that waits for its byte at port 60h.
    awaiting: Option<u8>,
    system_control: u8,
    lines: [bool; 2],
}

impl Default for KeyboardController {
    fn default() -> Self {
        Self {
            status: Status::SYSTEM | Status::IS_UNLOCKED,
            mode: Mode::SYSTEM | Mode::KEYBOARD_DISABLED | Mode::AUXILIARY_DISABLED,
            output: 0,
            output_port: OUTPUT_NOT_RESET | OUTPUT_A20,
            awaiting: None,
            system_control: OUTPUT_A20,
            lines: [false; 2],
        }
    }
}

impl KeyboardController {
    pub fn read_data(&mut self, cx: &mut Context) -> u8 {
        self.status.remove(Status::OUTPUT_FULL | Status::FROM_AUXILIARY | Status::TIMEOUT);
        self.update(cx);
        self.output
    }

    pub fn read_status(&self) -> u8 {
        self.status.bits()
    }

    pub fn write_data(&mut self, cx: &mut Context, value: u8) {
        self.status.remove(Status::LAST_WAS_COMMAND);
        match self.awaiting.take() {
            Some(0x60) => {
                self.mode = Mode::from_bits_truncate(value);
                self.status.set(Status::SYSTEM, self.mode.contains(Mode::SYSTEM));
            }
            Some(0xD1) => self.write_output_port(cx, value),
            Some(0xD2) => self.answer(value, Status::empty()),
            // No auxiliary port: what is sent there, or looped back there, is not taken.
            Some(_) => self.answer(RESEND, Status::FROM_AUXILIARY | Status::TIMEOUT),
            None => self.answer(RESEND, Status::TIMEOUT),
        }
        self.update(cx);
    }

    pub fn write_command(&mut self, cx: &mut Context, command: u8) {
        self.status.insert(Status::LAST_WAS_COMMAND);
        self.awaiting = None;
        match command {
            0x20 => self.answer(self.mode.bits(), Status::empty()),
            0x60 | 0xD1..=0xD4 => self.awaiting = Some(command),
            0xA7 => self.mode.insert(Mode::AUXILIARY_DISABLED),
            // Without the port its clock cannot be enabled, which is how probing finds out.
            0xA8 => {}
            0xA9 => self.answer(KEYBOARD_LINE_STUCK, Status::empty()),
            0xAA => self.answer(0x55, Status::empty()),
            0xAB => self.answer(0x00, Status::empty()),
            0xAD => self.mode.insert(Mode::KEYBOARD_DISABLED),
            0xAE => self.mode.remove(Mode::KEYBOARD_DISABLED),
            0xC0 => self.answer(0x80, Status::empty()),
            0xD0 => self.answer(self.output_port, Status::empty()),
            0xDD => self.output_port &= !OUTPUT_A20,
            0xDF => self.output_port |= OUTPUT_A20,
            // Pulses the output lines whose bits are zero.
            0xF0..=0xFF if command & OUTPUT_NOT_RESET == 0 => reset(cx),
            _ => {}
        }
        self.update(cx);
    }

    /// Port 92h.
    pub fn read_system_control(&self) -> u8 {
        self.system_control & !OUTPUT_A20 | self.output_port & OUTPUT_A20
    }

    pub fn write_system_control(&mut self, cx: &mut Context, value: u8) {
        let is_rising = value & 1 != 0 && self.system_control & 1 == 0;
        self.system_control = value;
        self.output_port = self.output_port & !OUTPUT_A20 | value & OUTPUT_A20;
        if is_rising {
            reset(cx);
        }
    }

    fn write_output_port(&mut self, cx: &mut Context, value: u8) {
        self.output_port = value | OUTPUT_NOT_RESET;
        if value & OUTPUT_NOT_RESET == 0 {
            reset(cx);
        }
    }

    fn answer(&mut self, value: u8, origin: Status) {
        self.output = value;
        self.status.remove(Status::FROM_AUXILIARY | Status::TIMEOUT);
        self.status.insert(Status::OUTPUT_FULL | origin);
    }

    fn update(&mut self, cx: &mut Context) {
        let is_full = self.status.contains(Status::OUTPUT_FULL);
        let is_auxiliary = self.status.contains(Status::FROM_AUXILIARY);
        let levels = [
            is_full && !is_auxiliary && self.mode.contains(Mode::KEYBOARD_INTERRUPT),
            is_full && is_auxiliary && self.mode.contains(Mode::AUXILIARY_INTERRUPT),
        ];
        for (index, gsi) in [map::KEYBOARD_LINE, map::AUXILIARY_LINE].into_iter().enumerate() {
            if levels[index] != self.lines[index] {
                self.lines[index] = levels[index];
                cx.effect(initiator(), Effect::Line { gsi, asserted: levels[index] });
            }
        }
    }
}

fn reset(cx: &mut Context) {
    cx.effect(initiator(), Effect::Reset);
}

fn initiator() -> Initiator {
    Initiator::Device(map::ISA_BRIDGE.requester())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;

    #[test]
    fn commands_have_their_answers() {
        for (command, answer) in [
            (0xAA, Some(0x55)),
            (0xAB, Some(0x00)),
            (0xA9, Some(0x01)),
            (0x20, Some(0x34)),
            (0xD0, Some(0x03)),
            (0xAD, None),
            (0xA8, None),
            (0x99, None),
        ] {
            let mut bench = Bench::new();
            let mut controller = KeyboardController::default();
            controller.write_command(&mut bench.context(), command);
            assert_eq!(controller.read_status() & 1 != 0, answer.is_some(), "{command:#x}");
            if let Some(answer) = answer {
                assert_eq!(controller.read_data(&mut bench.context()), answer, "{command:#x}");
                assert_eq!(controller.read_status() & 1, 0);
            }
        }
    }

    #[test]
    fn a_byte_for_an_absent_device_times_out() {
        for (command, status) in [(None, 0x41), (Some(0xD4), 0x61), (Some(0xD3), 0x61)] {
            let mut bench = Bench::new();
            let mut controller = KeyboardController::default();
            if let Some(command) = command {
                controller.write_command(&mut bench.context(), command);
            }
            controller.write_data(&mut bench.context(), 0xFF);
            assert_eq!(controller.read_status() & 0x61, status, "{command:x?}");
            assert_eq!(controller.read_data(&mut bench.context()), RESEND);
        }
    }

    #[test]
    fn an_answer_interrupts_where_the_mode_says_so() {
        let mut bench = Bench::new();
        let mut controller = KeyboardController::default();
        controller.write_command(&mut bench.context(), 0x60);
        controller.write_data(&mut bench.context(), 0x01);
        controller.write_data(&mut bench.context(), 0xF2);
        controller.read_data(&mut bench.context());
        assert_eq!(bench.levels(map::KEYBOARD_LINE), [true, false]);
    }

    #[test]
    fn resets_come_from_the_pulse_the_output_port_and_port_92h() {
        type Act = fn(&mut KeyboardController, &mut Context);
        let rows: [(Act, usize); 6] = [
            (|c, cx| c.write_command(cx, 0xFE), 1),
            (|c, cx| c.write_command(cx, 0xFF), 0),
            (
                |c, cx| {
                    c.write_command(cx, 0xD1);
                    c.write_data(cx, 0x02)
                },
                1,
            ),
            (
                |c, cx| {
                    c.write_command(cx, 0xD1);
                    c.write_data(cx, 0x03)
                },
                0,
            ),
            (|c, cx| c.write_system_control(cx, 0x03), 1),
            (|c, cx| c.write_system_control(cx, 0x02), 0),
        ];
        for (row, (act, resets)) in rows.into_iter().enumerate() {
            let mut bench = Bench::new();
            act(&mut KeyboardController::default(), &mut bench.context());
            assert_eq!(bench.effects(), vec![Effect::Reset; resets], "row {row}");
        }
    }

    #[test]
    fn both_ports_show_the_same_a20_gate() {
        let mut bench = Bench::new();
        let mut controller = KeyboardController::default();
        let cx = &mut bench.context();
        assert_eq!(controller.read_system_control() & 2, 2);
        controller.write_command(cx, 0xDD);
        assert_eq!(controller.read_system_control() & 2, 0);
        controller.write_system_control(cx, 0x02);
        controller.write_command(cx, 0xD0);
        assert_eq!(controller.read_data(cx) & 2, 2);
    }
}
