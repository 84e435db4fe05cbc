//! Features: values that the driver sets and asks for. [NVME "Set Features command"]

use super::Controller;
use super::event::Event;
use super::limit::{MAXIMUM_QUEUE_PAIRS, TEMPERATURE, VECTORS, WARM};
use arch::nvme::ALL_NAMESPACES;
use arch::nvme::command::Submission;
use arch::nvme::feature::{self, InterruptVector, TemperatureThreshold};
use arch::nvme::identify::health;
use arch::nvme::status::Status;
use serde::{Deserialize, Serialize};

const IS_SAVED: u32 = 1 << 31;
/// SEL of Get Features, which is there where features can be saved.
const SELECT: u32 = 7 << 8;
const SENSOR_ALL: u8 = 15;
/// Of error recovery: unwritten blocks are to be errors, which they cannot be here.
const UNWRITTEN_IS_ERROR: u32 = 1 << 16;
const VECTOR_WORDS: usize = VECTORS.div_ceil(64) as usize;

/// The values since the controller was enabled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Features {
    arbitration: u32,
    /// Kelvins above and below which is too warm and too cold.
    thresholds: [u16; 2],
    error_recovery: u32,
    /// Writes may wait for a flush.
    pub has_write_cache: bool,
    /// The largest identifier of an I/O submission queue.
    pub submission_queues: u16,
    /// The same of an I/O completion queue.
    pub completion_queues: u16,
    coalescing: u32,
    /// A bit for each vector.
    immediate: [u64; VECTOR_WORDS],
    atomicity: u32,
    events: u32,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            arbitration: 0,
            thresholds: [WARM, 0],
            error_recovery: 0,
            has_write_cache: true,
            submission_queues: MAXIMUM_QUEUE_PAIRS,
            completion_queues: MAXIMUM_QUEUE_PAIRS,
            coalescing: 0,
            immediate: [0; VECTOR_WORDS],
            atomicity: 0,
            events: 0,
        }
    }
}

impl Features {
    /// Whether the temperature is beyond a threshold.
    pub fn is_too_warm(&self) -> bool {
        TEMPERATURE >= self.thresholds[0] || TEMPERATURE <= self.thresholds[1]
    }

    fn warns(&self) -> bool {
        self.is_too_warm() && self.events & u32::from(health::TEMPERATURE) != 0
    }

    fn queues(&self) -> u32 {
        let last = |count: u16| u32::from(count.saturating_sub(1));
        last(self.completion_queues) << 16 | last(self.submission_queues)
    }

    /// The place of a threshold, if there is one for the sensor.
    fn threshold(value: TemperatureThreshold, takes_all: bool) -> Result<usize, Status> {
        let is_sensor = value.sensor() == 0 || takes_all && value.sensor() == SENSOR_ALL;
        let direction = usize::from(value.direction());
        if is_sensor && direction < 2 { Ok(direction) } else { Err(Status::INVALID_FIELD) }
    }

    /// The word and the bit of a vector.
    fn vector(value: InterruptVector) -> Result<(usize, u32), Status> {
        let vector = value.vector();
        let place = (usize::from(vector / 64), u32::from(vector % 64));
        if vector < VECTORS { Ok(place) } else { Err(Status::INVALID_FIELD) }
    }
}

impl Controller {
    /// Gives dword 0 of the completion.
    pub(super) fn set_feature(&mut self, command: &Submission) -> Result<u32, Status> {
        let (identifier, value) = (command.dword(10) as u8, command.dword(11));
        if command.dword(10) & IS_SAVED != 0 {
            return Err(Status::NOT_SAVEABLE);
        }
        let is_global = matches!(command.namespace, 0 | ALL_NAMESPACES);
        if !is_global && identifier != feature::ERROR_RECOVERY {
            return Err(Status::NOT_OF_A_NAMESPACE);
        }
        let features = &mut self.features;
        match identifier {
            feature::ARBITRATION => features.arbitration = value & 0xFFFF_FF07,
            // The only power state is 0.
            feature::POWER_MANAGEMENT if value & 0x1F == 0 => {}
            feature::TEMPERATURE_THRESHOLD => {
                let value = TemperatureThreshold::from_bits(value);
                features.thresholds[Features::threshold(value, true)?] = value.kelvins();
            }
            feature::ERROR_RECOVERY if value & UNWRITTEN_IS_ERROR == 0 => {
                features.error_recovery = value & 0xFFFF;
            }
            feature::VOLATILE_WRITE_CACHE => {
                features.has_write_cache = value & 1 != 0;
                self.disk.flush().map_err(|_| Status::WRITE_FAULT)?;
            }
            feature::NUMBER_OF_QUEUES => return self.set_queues(value),
            feature::INTERRUPT_COALESCING => features.coalescing = value & 0xFFFF,
            feature::INTERRUPT_VECTOR => {
                let value = InterruptVector::from_bits(value);
                let (word, bit) = Features::vector(value)?;
                let word = &mut features.immediate[word];
                *word = *word & !(1 << bit) | u64::from(value.is_immediate()) << bit;
            }
            feature::WRITE_ATOMICITY => features.atomicity = value & 1,
            feature::EVENT_CONFIGURATION => features.events = value,
            _ => return Err(Status::INVALID_FIELD),
        }
        if self.features.warns() {
            self.events.raise(Event::Temperature);
        }
        Ok(0)
    }

    /// As many as are asked for and there are, before any is made. [NVME "Number of Queues"]
    fn set_queues(&mut self, value: u32) -> Result<u32, Status> {
        let (submission, completion) = (value as u16, (value >> 16) as u16);
        if submission == u16::MAX || completion == u16::MAX {
            return Err(Status::INVALID_FIELD);
        }
        if self.queues.has_io() {
            return Err(Status::SEQUENCE_ERROR);
        }
        self.features.submission_queues = (submission + 1).min(MAXIMUM_QUEUE_PAIRS);
        self.features.completion_queues = (completion + 1).min(MAXIMUM_QUEUE_PAIRS);
        Ok(self.features.queues())
    }

    pub(super) fn get_feature(&self, command: &Submission) -> Result<u32, Status> {
        if command.dword(10) & SELECT != 0 {
            return Err(Status::INVALID_FIELD);
        }
        let features = &self.features;
        let value = command.dword(11);
        Ok(match command.dword(10) as u8 {
            feature::ARBITRATION => features.arbitration,
            feature::POWER_MANAGEMENT => 0,
            feature::TEMPERATURE_THRESHOLD => {
                let value = TemperatureThreshold::from_bits(value);
                features.thresholds[Features::threshold(value, false)?].into()
            }
            feature::ERROR_RECOVERY => features.error_recovery,
            feature::VOLATILE_WRITE_CACHE => features.has_write_cache.into(),
            feature::NUMBER_OF_QUEUES => features.queues(),
            feature::INTERRUPT_COALESCING => features.coalescing,
            feature::INTERRUPT_VECTOR => {
                let value = InterruptVector::from_bits(value);
                let (word, bit) = Features::vector(value)?;
                let is_immediate = features.immediate[word] & 1 << bit != 0;
                let answer = InterruptVector::new().with_vector(value.vector());
                answer.with_is_immediate(is_immediate).into_bits()
            }
            feature::WRITE_ATOMICITY => features.atomicity,
            feature::EVENT_CONFIGURATION => features.events,
            _ => return Err(Status::INVALID_FIELD),
        })
    }
}
