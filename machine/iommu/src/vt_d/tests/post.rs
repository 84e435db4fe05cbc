//! Posting into a descriptor: alone, and against a hypervisor that blocks, preempts, migrates and
//! wakes the vCPU, in every order of their steps.

use super::*;
use arch::apic::InterruptMessage;
use bus::Effect;

/// Of a running vCPU, and of a sleeping one.
const NOTIFICATION: u8 = 0xF2;
const WAKE_UP: u8 = 0xF1;
const CONTROL: u64 = DESCRIPTOR + 32;

fn bench(control: NotificationControl, entry: PostedEntry) -> Bench {
    let mut bench = Bench::new();
    bench.set_entry(7, entry.into_bits());
    bench.store(CONTROL, control.into_bits());
    bench
}

fn running() -> NotificationControl {
    NotificationControl::new().with_vector(NOTIFICATION).with_destination(5)
}

impl Bench {
    fn control(&self) -> NotificationControl {
        NotificationControl::from_bits(self.memory.read_u64(SystemPhysical(CONTROL)).unwrap())
    }

    fn set_control(&mut self, control: NotificationControl) {
        self.store(CONTROL, control.into_bits());
    }

    fn is_requested(&self) -> bool {
        self.memory.read_u64(SystemPhysical(DESCRIPTOR + 8)).unwrap() & 1 << 5 != 0
    }

    fn post(&mut self) -> Vec<InterruptMessage> {
        let Remapped::Posting(mut posting) = self.remap(7) else { panic!("no posting") };
        while posting.step(&mut self.unit, &mut self.memory) != PostingStep::Complete {}
        self.notifications()
    }

    fn notifications(&mut self) -> Vec<InterruptMessage> {
        let message = |signal| match signal {
            Signal::Notify(Effect::Interrupt { message, .. }) => Some(message),
            _ => None,
        };
        self.unit.take_signals().into_iter().filter_map(message).collect()
    }
}

#[test]
fn a_request_notifies_unless_that_is_outstanding_or_suppressed() {
    let outstanding = running().with_is_outstanding(true);
    let suppressed = running().with_is_suppressed(true);
    for (control, is_urgent, notifies) in [
        (running(), false, true),
        (outstanding, false, false),
        (outstanding, true, false),
        (suppressed, false, false),
        (suppressed, true, true),
    ] {
        let mut bench = bench(control, posted().with_is_urgent(is_urgent));
        let sent: Vec<_> =
            bench.post().iter().map(|sent| (sent.vector.0, sent.destination)).collect();
        let expected = if notifies { vec![(NOTIFICATION, 5)] } else { vec![] };
        assert_eq!(sent, expected, "{control:?}");
        assert!(bench.is_requested());
        assert_eq!(bench.control().is_outstanding(), notifies || control.is_outstanding());
    }
}

#[test]
fn a_bad_descriptor_is_a_fault_and_has_no_request() {
    for (control, at, reason) in
        [(running().with_reserved(1), DESCRIPTOR, 0x28), (running(), MEMORY, 0x27)]
    {
        let mut bench = bench(control, posted().with_descriptor(SystemPhysical(at)));
        assert_eq!(bench.post(), []);
        assert_eq!(bench.fault(), Some((reason, 7 << 48)));
        assert!(!bench.is_requested());
    }
}

/// One step of a hypervisor, or of the vCPU that it runs.
#[derive(Clone, Copy)]
enum Host {
    /// A change of the control field by one locked access.
    Update(fn(NotificationControl) -> NotificationControl),
    /// The vCPU leaves its core.
    Leave,
    /// It enters a core; requests are taken if a notification is outstanding or any are there.
    Enter(u32),
    /// The hypervisor lets it sleep, unless a notification is outstanding.
    Sleep,
}

struct Race {
    bench: Bench,
    posting: Option<Posting>,
    core: Option<u32>,
    sleeps: bool,
    sees: bool,
    notifications: usize,
}

impl Race {
    fn host(&mut self, step: Host) {
        match step {
            Host::Update(change) => {
                let control = change(self.bench.control());
                self.bench.set_control(control);
            }
            Host::Leave => self.core = None,
            Host::Enter(core) => {
                (self.core, self.sleeps) = (Some(core), false);
                self.sees |= self.bench.is_requested();
            }
            Host::Sleep if self.bench.control().is_outstanding() => self.sees = true,
            Host::Sleep => self.sleeps = true,
        }
    }

    fn device(&mut self) {
        let Some(posting) = &mut self.posting else {
            let Remapped::Posting(posting) = self.bench.remap(7) else { panic!("no posting") };
            self.posting = Some(posting);
            return;
        };
        posting.step(&mut self.bench.unit, &mut self.bench.memory);
        for sent in self.bench.notifications() {
            self.notifications += 1;
            let is_there = self.core == Some(sent.destination) && sent.vector.0 == NOTIFICATION;
            // The wake-up vector is an interrupt of the host's, whose handler looks at the
            // descriptor of the vCPU that sleeps.
            self.sees |= is_there || sent.vector.0 == WAKE_UP;
        }
    }
}

/// Look-up, update, notification, and one that finds nothing to do.
const DEVICE_STEPS: u32 = 4;

fn races(control: NotificationControl, core: Option<u32>, host: &[Host]) -> Vec<Race> {
    let length = host.len() as u32 + DEVICE_STEPS;
    let orders = (0u32..1 << length).filter(|order| order.count_ones() == DEVICE_STEPS);
    let runs = orders.map(|order| {
        let mut race = Race {
            bench: bench(control, posted()),
            posting: None,
            core,
            sleeps: core.is_none(),
            sees: false,
            notifications: 0,
        };
        let mut steps = host.iter();
        for i in 0..length {
            if order & 1 << i != 0 {
                race.device();
            } else if let Some(step) = steps.next() {
                race.host(*step);
            }
        }
        race
    });
    runs.collect()
}

#[test]
fn no_interrupt_is_lost_in_any_order() {
    use Host::*;
    let to_wake_up = Update(|control| control.with_vector(WAKE_UP));
    let to_notify = Update(|control| control.with_vector(NOTIFICATION).with_is_suppressed(false));
    let suppress = Update(|control| control.with_is_suppressed(true));
    let to_9 = Update(|control| control.with_destination(9).with_is_suppressed(false));
    let asleep = running().with_vector(WAKE_UP);
    let scripts: [(&str, NotificationControl, Option<u32>, Vec<Host>); 6] = [
        ("nothing", running(), Some(5), vec![]),
        ("block", running(), Some(5), vec![Leave, to_wake_up, Sleep]),
        ("block and wake", running(), Some(5), vec![Leave, to_wake_up, Sleep, to_notify, Enter(5)]),
        ("wake", asleep, None, vec![to_notify, Enter(5)]),
        ("preempt and go on", running(), Some(5), vec![Leave, suppress, to_notify, Enter(5)]),
        ("migrate", running(), Some(5), vec![Leave, suppress, to_9, Enter(9)]),
    ];
    for (name, control, core, host) in scripts {
        for race in races(control, core, &host) {
            assert!(race.sees, "{name}: the interrupt is lost");
            assert!(race.notifications <= 1, "{name}: told twice");
            assert!(!race.sleeps || race.sees, "{name}: sleeps with a request");
        }
    }
}

#[test]
fn a_sleeper_whose_notifications_are_suppressed_is_never_told() {
    let asleep = running().with_vector(WAKE_UP).with_is_suppressed(true);
    for race in races(asleep, None, &[]) {
        assert_eq!((race.sees, race.notifications), (false, 0));
    }
}
