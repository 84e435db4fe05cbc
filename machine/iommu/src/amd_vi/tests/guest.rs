//! Posting to a vCPU: alone, into a full log, and against a hypervisor that blocks,
//! preempts, migrates and wakes it, in every order of their steps.

use super::*;
use interrupt::page::{ApicPage, Bank};
use virtual_apic::PageInMemory;

fn bench(entry: GuestEntry) -> Bench {
    with(entry, Behaviour::default())
}

fn with(entry: GuestEntry, behaviour: Behaviour) -> Bench {
    let mut bench = Bench::with(zen_4(), behaviour);
    bench.set_entry(translation(0), remapping());
    bench.set_wide(0, entry.into_bits());
    bench
}

impl Bench {
    fn posting(&mut self) -> Posting {
        match self.remap(0) {
            Remapped::Posting(posting) => posting,
            other => panic!("no posting: {other:?}"),
        }
    }

    fn post(&mut self) {
        let posting = self.posting();
        posting.run(&mut self.iommu, &mut self.memory);
    }

    fn is_requested(&mut self) -> bool {
        let page = PageInMemory::new(SystemPhysical(BACKING_PAGE), &mut self.memory);
        page.contains(Bank::Request, Vector(0x45))
    }

    fn guest_entry(&self) -> GuestEntry {
        let at = SystemPhysical(REMAPPING_TABLE);
        let [low, high] = [0, 8].map(|offset| self.memory.read_u64(at.offset(offset)).unwrap());
        GuestEntry::from_bits(u128::from(high) << 64 | u128::from(low))
    }

    fn log(&self, index: u64) -> u64 {
        self.memory.read_u64(SystemPhysical(GUEST_LOG + index * 8)).unwrap()
    }
}

#[test]
fn a_running_virtual_processor_gets_the_request_and_its_core_the_doorbell() {
    let mut bench = bench(guest().with_is_running(true).with_logs(true));
    bench.post();
    assert!(bench.is_requested());
    assert_eq!(bench.iommu.take_signals(), [Signal::Doorbell(ApicId(5))]);
    assert_eq!(bench.read(at::GUEST_LOG_TAIL), 0);
}

#[test]
fn a_backing_page_that_is_not_memory_is_an_event_and_not_a_posting() {
    for page in [0x8000_0000, 0xF_FFFF_FFFF_F000] {
        let mut bench = bench(guest().with_backing_page(SystemPhysical(page)));
        assert_eq!(bench.remap(0), Remapped::Aborted);
        assert_eq!(bench.event(), Some((4, 0x028, FUNCTION.0, 0xFEE0_0000)), "{page:#x}");
    }
}

#[test]
fn one_that_does_not_run_is_logged_where_the_hypervisor_asks_for_that() {
    for logs in [true, false] {
        let mut bench = bench(guest().with_logs(logs));
        bench.write(at::GUEST_LOG_TAIL_ADDRESS, STORE);
        bench.post();
        assert!(bench.is_requested());
        let (tail, entry) = if logs { (8, 0x1000_0008_0000_1003) } else { (0, 0) };
        assert_eq!((bench.read(at::GUEST_LOG_TAIL), bench.log(0)), (tail, entry));
        assert_eq!(bench.memory.read_u64(SystemPhysical(STORE)), Ok(tail));
        assert_eq!(bench.status().contains(Status::GUEST_LOG_INTERRUPT), logs);
        let signals = if logs { vec![Signal::Message] } else { vec![] };
        assert_eq!(bench.iommu.take_signals(), signals);
    }
}

#[test]
fn the_log_interrupts_once_until_software_clears_the_bit() {
    let mut bench = bench(guest().with_logs(true));
    for expected in [1, 0, 0] {
        bench.post();
        assert_eq!(bench.iommu.take_signals().len(), expected);
    }
    bench.write(at::STATUS, Status::GUEST_LOG_INTERRUPT.bits().into());
    bench.post();
    assert_eq!(bench.iommu.take_signals(), [Signal::Message]);
    assert_eq!(bench.read(at::GUEST_LOG_TAIL), 32);
}

#[test]
fn a_full_log_stops_and_the_request_stays_until_the_log_is_restarted() {
    let mut bench = bench(guest().with_logs(true));
    for _ in 0..511 {
        bench.post();
    }
    assert!(!bench.status().contains(Status::GUEST_LOG_OVERFLOW));
    bench.set_wide(0, guest().with_logs(true).with_vector(0x46).into_bits());
    bench.post();
    let stopped = bench.status();
    assert!(stopped.contains(Status::GUEST_LOG_OVERFLOW));
    assert!(!stopped.contains(Status::GUEST_LOG_RUN));
    assert_eq!(bench.read(at::GUEST_LOG_TAIL), 511 * 8);
    let page = PageInMemory::new(SystemPhysical(BACKING_PAGE), &mut bench.memory);
    assert!(page.contains(Bank::Request, Vector(0x46)));
    bench.write(at::GUEST_LOG_HEAD, 511 * 8);
    bench.write(at::CONTROL, running().with_logs_guest_interrupts(false).into_bits());
    bench.write(at::STATUS, u64::MAX);
    bench.write(at::CONTROL, running().into_bits());
    bench.post();
    assert_eq!(bench.read(at::GUEST_LOG_TAIL), 0);
}

/// One step of a hypervisor, or of the vCPU that it runs.
#[derive(Clone, Copy)]
enum Host {
    /// A change of the entry in one access.
    Update(fn(GuestEntry) -> GuestEntry),
    /// INVALIDATE_INTERRUPT_TABLE, complete.
    Invalidate,
    /// The vCPU leaves its core.
    Leave,
    /// It enters a core, and its requests are evaluated.
    Enter(u32),
    /// The hypervisor lets it sleep, unless it has requests.
    Sleep,
}

fn run_on_5(entry: GuestEntry) -> GuestEntry {
    entry.with_is_running(true).with_destination(ApicId(5)).with_logs(false)
}

const CLEAR: Host = Host::Update(|entry| entry.with_is_running(false));
const CLEAR_AND_LOG: Host = Host::Update(|entry| entry.with_is_running(false).with_logs(true));
const RUN: Host = Host::Update(run_on_5);

struct Race {
    bench: Bench,
    posting: Option<Posting>,
    core: Option<u32>,
    sleeps: bool,
    sees: bool,
    doorbells: usize,
    logged: usize,
}

impl Race {
    fn host(&mut self, step: Host) {
        match step {
            Host::Update(change) => {
                let entry = change(self.bench.guest_entry());
                self.bench.set_wide(0, entry.into_bits());
            }
            Host::Invalidate => self.bench.command(Command::InvalidateInterrupts(FUNCTION)),
            Host::Leave => self.core = None,
            Host::Enter(core) => {
                self.core = Some(core);
                self.sleeps = false;
                self.sees |= self.bench.is_requested();
            }
            Host::Sleep if self.bench.is_requested() => self.sees = true,
            Host::Sleep => self.sleeps = true,
        }
    }

    fn device(&mut self) {
        let Some(posting) = &mut self.posting else {
            self.posting = Some(self.bench.posting());
            return;
        };
        let step = posting.step(&mut self.bench.iommu, &mut self.bench.memory);
        if let PostingStep::Logged { .. } = step {
            // The hypervisor wakes whom the log names.
            self.logged += 1;
            self.sees = true;
        }
        for signal in self.bench.iommu.take_signals() {
            if let Signal::Doorbell(core) = signal {
                self.doorbells += 1;
                self.sees |= self.core == Some(core.0) && self.bench.is_requested();
            }
        }
    }
}

/// Look-up, request, IsRun, doorbell or log, tail, and one that finds nothing to do.
const DEVICE_STEPS: u32 = 6;

/// Every order of a posting's and the hypervisor's steps.
fn races(entry: GuestEntry, behaviour: Behaviour, host: &[Host]) -> Vec<Race> {
    let length = host.len() as u32 + DEVICE_STEPS;
    let orders = (0u32..1 << length).filter(|order| order.count_ones() == DEVICE_STEPS);
    let runs = orders.map(|order| {
        let mut bench = with(entry, behaviour);
        // A first interrupt, which the guest has taken.
        bench.post();
        bench.iommu.take_signals();
        PageInMemory::new(SystemPhysical(BACKING_PAGE), &mut bench.memory)
            .remove(Bank::Request, Vector(0x45));
        let core = entry.is_running().then_some(entry.destination().0);
        let (sees, sleeps) = (false, core.is_none());
        let mut race = Race { bench, posting: None, core, sleeps, sees, doorbells: 0, logged: 0 };
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

const ON_5: fn() -> GuestEntry = || run_on_5(guest());
const ASLEEP: fn() -> GuestEntry = || guest().with_logs(true);

/// What kernels do, by name: the entry before, and the steps.
fn scripts() -> Vec<(&'static str, GuestEntry, Vec<Host>)> {
    use Host::*;
    let to_9_low: Host = Update(|entry| entry.with_destination_low(9));
    let to_9_high: Host = Update(|entry| entry.with_destination_high(1));
    let set_running: Host = Update(|entry| entry.with_is_running(true));
    const TO: u32 = 0x0100_0009;
    vec![
        ("nothing", ON_5(), vec![]),
        ("block", ON_5(), vec![Leave, CLEAR_AND_LOG, Sleep]),
        ("block, always logging", ON_5().with_logs(true), vec![Leave, CLEAR, Sleep]),
        ("block and wake", ON_5(), vec![Leave, CLEAR_AND_LOG, Sleep, RUN, Enter(5)]),
        ("wake", ASLEEP(), vec![RUN, Enter(5)]),
        ("preempt and go on", ON_5(), vec![Leave, CLEAR, RUN, Enter(5)]),
        (
            "migrate by separate stores",
            ON_5().with_logs(true),
            vec![Leave, CLEAR, to_9_low, to_9_high, set_running, Enter(TO)],
        ),
    ]
}

#[test]
fn no_interrupt_is_lost_in_any_order() {
    for (name, entry, host) in scripts() {
        for race in races(entry, Behaviour::default(), &host) {
            assert!(race.sees, "{name}: the interrupt is lost");
        }
    }
}

#[test]
fn one_of_doorbell_and_log_follows_each_request_unless_the_hypervisor_wants_neither() {
    for (name, entry, host) in scripts() {
        for race in races(entry, Behaviour::default(), &host) {
            let told = race.doorbells + race.logged;
            let is_quiet_allowed = name == "preempt and go on";
            assert!(told == 1 || told == 0 && is_quiet_allowed, "{name}: told {told} times");
            // A sleeper is told by the log and by nothing else, unless its hypervisor saw the
            // request before it let it sleep.
            assert!(!race.sleeps || race.logged == 1, "{name}: sleeps without an entry");
        }
    }
}

#[test]
fn a_preempted_virtual_processor_has_the_request_in_its_page_and_no_entry_in_the_log() {
    for race in &mut races(ON_5(), Behaviour::default(), &[Host::Leave, CLEAR]) {
        assert_eq!(race.logged, 0);
        assert!(race.bench.is_requested());
    }
}

#[test]
fn an_entry_that_is_kept_whole_loses_interrupts_unless_each_change_is_invalidated() {
    let keeps = Behaviour { keeps_whole_entries: true };
    let plain = [Host::Leave, CLEAR_AND_LOG, Host::Sleep];
    let lost = races(ON_5(), keeps, &plain).into_iter().filter(|race| !race.sees).count();
    assert!(lost > 0, "the rule that the fields are read each time would not matter");
    let invalidated = [Host::Leave, CLEAR_AND_LOG, Host::Invalidate, Host::Sleep];
    for race in races(ON_5(), keeps, &invalidated) {
        assert!(race.sees, "the interrupt is lost although the entry was invalidated");
    }
}
