//! The register windows of the PCI transport and the common configuration.
//! [VIRTIO "Virtio Structure PCI Capabilities"] [VIRTIO "Common configuration structure layout"]

use super::*;

const COMMON_SIZE: usize = 0x38;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum WindowKind {
    Common = 1,
    Notify = 2,
    InterruptStatus = 3,
    Device = 4,
}

/// A part of the register region, as a capability describes it.
pub(super) struct Window {
    kind: WindowKind,
    offset: u32,
    length: u32,
}

pub(super) const WINDOWS: [Window; 4] = [
    Window { kind: WindowKind::Common, offset: 0x0000, length: COMMON_SIZE as u32 },
    Window { kind: WindowKind::InterruptStatus, offset: 0x1000, length: 4 },
    Window { kind: WindowKind::Device, offset: 0x2000, length: 0x1000 },
    Window { kind: WindowKind::Notify, offset: 0x3000, length: 0x1000 },
];

impl Window {
    pub(super) fn at(offset: u64) -> Option<(WindowKind, u64)> {
        WINDOWS.iter().find_map(|window| {
            let inside = offset.checked_sub(window.offset.into())?;
            (inside < window.length.into()).then_some((window.kind, inside))
        })
    }

    pub(super) fn describe(&self, configuration: &mut Configuration) {
        let is_notify = self.kind == WindowKind::Notify;
        let length: u8 = if is_notify { 20 } else { 16 };
        let mut content = vec![length, self.kind as u8, REGISTERS_BAR as u8, 0, 0, 0];
        content.extend(self.offset.to_le_bytes());
        content.extend(self.length.to_le_bytes());
        if is_notify {
            content.extend(NOTIFY_MULTIPLIER.to_le_bytes());
        }
        configuration.add_capability(capability::VENDOR, &content);
    }
}

mod register {
    pub const DEVICE_FEATURE_SELECT: u64 = 0x00;
    pub const DRIVER_FEATURE_SELECT: u64 = 0x08;
    pub const DRIVER_FEATURE: u64 = 0x0C;
    pub const CONFIGURATION_VECTOR: u64 = 0x10;
    pub const DEVICE_STATUS: u64 = 0x14;
    pub const QUEUE_SELECT: u64 = 0x16;
    pub const QUEUE_SIZE: u64 = 0x18;
    pub const QUEUE_VECTOR: u64 = 0x1A;
    pub const QUEUE_ENABLE: u64 = 0x1C;
    pub const QUEUE_DESCRIPTORS: u64 = 0x20;
    pub const QUEUE_DRIVER: u64 = 0x28;
    pub const QUEUE_DEVICE: u64 = 0x30;
}

impl Virtio {
    /// The common configuration as it reads now.
    pub(super) fn common(&self) -> [u8; COMMON_SIZE] {
        let absent = Queue::absent();
        let queue = self.queues.get(usize::from(self.queue_select)).unwrap_or(&absent);
        let mut bytes = [0; COMMON_SIZE];
        let mut put = |offset: u64, size, value: u64| lanes::store(&mut bytes, offset, size, value);
        put(0x00, 4, self.device_feature_select.into());
        put(0x04, 4, half(self.features(), self.device_feature_select));
        put(0x08, 4, self.driver_feature_select.into());
        put(0x0C, 4, half(self.driver_features, self.driver_feature_select));
        put(0x10, 2, self.configuration_vector.into());
        put(0x12, 2, self.queues.len() as u64);
        put(0x14, 1, self.status.bits().into());
        put(0x16, 2, self.queue_select.into());
        put(0x18, 2, queue.size.into());
        put(0x1A, 2, queue.vector.into());
        put(0x1C, 2, queue.is_enabled.into());
        put(0x1E, 2, self.queue_select.into());
        put(0x20, 8, queue.descriptors);
        put(0x28, 8, queue.driver);
        put(0x30, 8, queue.device);
        bytes
    }

    pub(super) fn write_common(
        &mut self,
        port: &mut Attachment,
        offset: u64,
        size: u8,
        value: u32,
    ) {
        // A register is written by an access that starts in it; the other bytes of it are kept.
        let before = self.common();
        let merged = |start: u64, width: u8| {
            let mut bytes = [0; 8];
            bytes[..usize::from(width)]
                .copy_from_slice(&before[start as usize..start as usize + usize::from(width)]);
            lanes::insert(u64::from_le_bytes(bytes), offset - start, size, value.into())
        };
        match offset {
            register::DEVICE_FEATURE_SELECT..0x04 => {
                self.device_feature_select = merged(register::DEVICE_FEATURE_SELECT, 4) as u32;
            }
            register::DRIVER_FEATURE_SELECT..0x0C => {
                self.driver_feature_select = merged(register::DRIVER_FEATURE_SELECT, 4) as u32;
            }
            register::DRIVER_FEATURE..0x10 => {
                self.write_features(merged(register::DRIVER_FEATURE, 4));
            }
            register::CONFIGURATION_VECTOR..0x12 => {
                let vector = merged(register::CONFIGURATION_VECTOR, 2) as u16;
                self.configuration_vector = existing(vector, port);
            }
            register::DEVICE_STATUS => self.write_status(port, value as u8),
            register::QUEUE_SELECT..0x18 => {
                self.queue_select = merged(register::QUEUE_SELECT, 2) as u16;
            }
            register::QUEUE_SIZE..COMMON_END => {
                let Some(queue) = self.queues.get_mut(usize::from(self.queue_select)) else {
                    return;
                };
                write_queue(queue, port, offset, merged);
            }
            _ => {}
        }
    }

    fn write_features(&mut self, value: u64) {
        // Once accepted they stand.
        if self.status.contains(Status::FEATURES_OK) {
            return;
        }
        let value = value & u64::from(u32::MAX);
        match self.driver_feature_select {
            0 => self.driver_features = self.driver_features & !u64::from(u32::MAX) | value,
            1 => self.driver_features = self.driver_features & u64::from(u32::MAX) | value << 32,
            _ => {}
        }
    }
}

const COMMON_END: u64 = COMMON_SIZE as u64;

fn write_queue(
    queue: &mut Queue,
    port: &mut Attachment,
    offset: u64,
    merged: impl Fn(u64, u8) -> u64,
) {
    if let register::QUEUE_VECTOR..register::QUEUE_ENABLE = offset {
        queue.vector = existing(merged(register::QUEUE_VECTOR, 2) as u16, port);
        return;
    }
    // A live queue is not moved.
    if queue.is_enabled {
        return;
    }
    match offset {
        register::QUEUE_SIZE..register::QUEUE_VECTOR => {
            let size = merged(register::QUEUE_SIZE, 2) as u16;
            if size.is_power_of_two() && size <= MAXIMUM_SIZE {
                queue.size = size;
            }
        }
        register::QUEUE_ENABLE..0x1E => {
            queue.is_enabled = merged(register::QUEUE_ENABLE, 2) == 1;
        }
        register::QUEUE_DESCRIPTORS..register::QUEUE_DRIVER => {
            queue.descriptors = merged(register::QUEUE_DESCRIPTORS, 8);
        }
        register::QUEUE_DRIVER..register::QUEUE_DEVICE => {
            queue.driver = merged(register::QUEUE_DRIVER, 8);
        }
        register::QUEUE_DEVICE.. => queue.device = merged(register::QUEUE_DEVICE, 8),
        _ => {}
    }
}

/// A vector that the table does not have reads back as none: that is how drivers find out.
fn existing(vector: u16, port: &Attachment) -> u16 {
    if vector < port.msix_vectors() { vector } else { NO_VECTOR }
}

fn half(features: u64, select: u32) -> u64 {
    match select {
        0 => features & u64::from(u32::MAX),
        1 => features >> 32,
        _ => 0,
    }
}
