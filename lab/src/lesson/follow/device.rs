//! What a device and the IOMMU do, and processors of the host on the way of a device's interrupt.

use super::super::route::Entry;
use super::super::{Doing, Step};
use super::Follower;
use crate::silicon::remapping::Route;
use arch::msi::MessageSignalled;
use arch::time::Picoseconds;
use trace::{Event, Record};

impl Follower {
    /// Whether a device or the IOMMU does it, whose records stand on the first processor's track.
    pub(super) fn is_of_board(&self, record: &Record) -> bool {
        let has_device = self.extent.kind().function().is_some();
        match record.event {
            Event::MessageSignalled { .. } | Event::GuestLogged { .. } => true,
            Event::Posted { .. } => has_device,
            Event::Doorbell { .. } => self.is_posting,
            _ => false,
        }
    }

    pub(super) fn take_in_of_board(&mut self, record: &Record) {
        self.extent.begin(record, None);
        let is_of_function = self.extent.kind().begins(record, None);
        self.is_posting = match record.event {
            Event::Posted { .. } => true,
            Event::Doorbell { .. } | Event::GuestLogged { .. } => false,
            _ => self.is_posting,
        };
        // Other devices' messages say nothing about this one.
        let is_message = matches!(record.event, Event::MessageSignalled { .. });
        if !self.extent.has(None) || is_message && !is_of_function {
            return;
        }
        let who = if is_message { "device" } else { "IOMMU" };
        self.tell_as(who.into(), None, record);
        if let Event::MessageSignalled { requester, address, data } = record.event {
            let message = MessageSignalled { address, data };
            if let Some(route) = Route::of(&self.machine, requester, message) {
                self.tell_route(route, record.at);
            }
        }
    }

    /// What the IOMMU finds for a message.
    fn tell_route(&mut self, route: Route, at: Picoseconds) {
        let entry = Entry::of(&route, &self.machine);
        let mut details = vec![entry.describe(route.index)];
        let text = match entry.is_posted {
            true => "remaps it: the entry leads to a vCPU, so it is to be posted",
            false => "remaps it: the entry leads to a processor of the host",
        };
        let descriptor = self.vcpus.values().filter(|_| entry.is_posted);
        details.extend(descriptor.filter_map(|one| one.shared.descriptor()));
        let step = Step {
            at_ps: 0,
            who: "IOMMU".into(),
            doing: Doing::Hardware,
            text: text.into(),
            details,
            rule: entry.rule,
            functions: Vec::new(),
            makes: None,
        };
        self.push(None, at, step);
        self.route = Some((route, entry));
    }

    /// Whether a processor without a vCPU helps a device's interrupt on: takes a message, handles
    /// it, and sends another.
    pub(super) fn is_on_the_way(&mut self, record: &Record) -> bool {
        if !self.extent.has_begun() {
            return false;
        }
        if self.extent.kind().function().is_none() {
            let is_sent = matches!(record.event, Event::InterruptSent { .. });
            return is_sent && self.vmm == Some(record.cpu);
        }
        match record.event {
            Event::InterruptAccepted { vector, .. } => {
                self.taken.insert(record.cpu, vector);
                true
            }
            Event::InterruptDelivered { vector, .. } => {
                self.taken.get(&record.cpu) == Some(&vector)
            }
            Event::InterruptSent { .. } | Event::Wake {} => self.taken.contains_key(&record.cpu),
            _ => false,
        }
    }
}
