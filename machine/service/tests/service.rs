//! The service in this process, with a client at the other end of two pipes, and with what is no
//! client.

use board::inspection::Sheet;
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Machine};
use bus::Random;
use cpu::CpuModel;
use serde_json::{Value, json};
use service::client::{Client, ClientError};
use service::message::Message;
use service::{Description, End, Host, Next, Service, serve};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// A Multiboot image: mov al, 1; then out 80h, al; inc al; and back.
const COUNTS: [u8; 8] = [0xB0, 0x01, 0xE6, 0x80, 0xFE, 0xC0, 0xEB, 0xFA];

/// A host without files, whose client never leaves.
struct Nobody {
    /// Looks before it is over.
    looks: u64,
}

impl Host for Nobody {
    fn is_over(&mut self) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.looks == 0
    }

    fn save(&mut self, _: &Machine, file: &str) -> Result<String, String> {
        Err(format!("{file}: there are no files"))
    }

    fn show(&self, sheets: &[Sheet]) -> Value {
        json!(sheets.len())
    }
}

fn machine(code: &[u8]) -> Machine {
    let magic = 0x1BAD_B002u32;
    let (flags, load) = (0x1_0000u32, 0x10_0000u32);
    let check = 0u32.wrapping_sub(magic).wrapping_sub(flags);
    let head = [magic, flags, check, load, load, 0, 0, load + 0x20];
    let mut image: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    image.extend(code);
    image.resize(0x200, 0xF4);
    let model = CpuModel::named("zen4").expect("a model");
    let topology = Topology::of_cores(2).expect("two processors");
    let configuration = Configuration::of(model, topology, 16 << 20);
    let mut machine = Machine::new(&configuration).expect("a machine");
    let images = Images {
        kernel: Source::of("counts", &image),
        initrd: None,
        modules: &[],
        command_line: "",
    };
    machine.load(&images).expect("an image");
    machine
}

/// What a client does with a service of its own.
fn with_client(
    code: &[u8],
    act: impl FnOnce(&mut Client<UnixStream, UnixStream>) -> Result<(), ClientError>,
) -> End {
    let mut machine = machine(code);
    let (near, far) = UnixStream::pair().expect("a pair");
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let (mut input, mut output) = (far.try_clone().expect("a copy"), far);
            let mut service = Service::new(&mut machine, Description::default());
            serve(&mut service, &mut Nobody { looks: u64::MAX }, &mut input, &mut output)
        });
        let copy = near.try_clone().expect("a copy");
        let mut client = Client::new(near, copy).expect("a service");
        act(&mut client).expect("answers");
        drop(client);
        served.join().expect("no panic").expect("streams")
    })
}

fn refused(outcome: Result<(Value, Vec<u8>), ClientError>) -> String {
    match outcome {
        Err(ClientError::Refused { code, message }) => format!("{code}: {message}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_client_marks_writes_runs_and_goes_back() {
    let end = with_client(&COUNTS, |client| {
        assert_eq!((&client.hello["version"], &client.hello["cpus"]), (&json!(1), &json!(2)));
        let mark = client.ask(json!({ "do": "mark" }), &[])?.0["mark"].clone();
        let mut hashes = Vec::new();
        for _ in 0..3 {
            let batch = vec![
                json!({ "do": "restore", "mark": mark }),
                json!({ "do": "write", "at": "0x200000", "bytes": 4 }),
                json!({ "do": "run", "instructions": 3_000 }),
                json!({ "do": "read", "at": 0x20_0000, "bytes": 4 }),
                json!({ "do": "hash" }),
            ];
            let (replies, payload) = client.ask_all(batch, b"data")?;
            assert_eq!(payload, b"data");
            assert_eq!(replies[2]["stopped"], "instructions");
            hashes.push(replies[4].clone());
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
        let far = client.ask(json!({ "do": "read", "at": 1u64 << 50, "bytes": 8 }), &[]);
        assert!(refused(far).starts_with("memory: 8 bytes at 0x4000000000000"));
        client.ask(json!({ "do": "quit" }), &[])?;
        Ok(())
    });
    assert_eq!(end, End::Quit);
}

#[test]
fn what_is_wrong_is_refused_with_its_code_and_changes_nothing() {
    let end = with_client(&COUNTS, |client| {
        let before = client.ask(json!({ "do": "status" }), &[])?.0;
        for (request, payload, said) in [
            (json!({ "do": "hello", "version": 2 }), "", "version: the protocol's version 2"),
            (json!({ "do": "jump" }), "", "request: unknown variant `jump`"),
            (json!({ "do": "mark", "name": 1 }), "", "request: unknown field `name`"),
            (json!({ "do": "restore", "mark": 0 }), "", "mark: no mark 0, there are 0"),
            (json!({ "do": "forget", "mark": 7 }), "", "mark: no mark 7"),
            (json!({ "do": "read", "at": 0, "bytes": 1 << 30 }), "", "limit: 1073741824 bytes"),
            (json!({ "do": "read", "at": 0, "bytes": 1, "cpu": 2 }), "", "processor: no processor"),
            (json!({ "do": "write", "at": 0, "bytes": 9 }), "8 bytes.", "request: 9 bytes wanted"),
            (json!({ "do": "registers", "cpu": 9 }), "", "processor: no processor 9"),
            (json!({ "do": "registers", "names": ["x"] }), "", "register: no register \"x\""),
            (
                json!({ "do": "set-registers", "values": { "cr0": 1 } }),
                "",
                "register: \"cr0\" cannot be set",
            ),
            (json!({ "do": "coverage" }), "", "absent: no coverage is kept"),
            (json!({ "do": "coverage", "map": 0 }), "", "limit: a map of 0 counters"),
            (json!({ "do": "info", "what": "x" }), "", "request: no \"x\", must be one of"),
            (json!({ "do": "info", "what": "vmcb" }), "", "absent: "),
            (json!({ "do": "snapshot", "file": "../x" }), "", "snapshot: \"../x\" must be"),
            (json!({ "do": "snapshot", "file": "x" }), "", "snapshot: x: there are no files"),
            (json!({ "do": "run", "event": { "kind": "x" } }), "", "request: no event \"x\""),
            (json!({ "do": "run", "event": "out eighty" }), "", "request: port=eighty: must be"),
            (
                json!({ "do": "run", "event": { "kind": "out", "fields": { "x": 1 } } }),
                "",
                "request: out has no field \"x\"",
            ),
            (
                json!({ "do": "run", "halted": true, "breakpoints": [5] }),
                "",
                "request: one of: breakpoints and watch; event; halted",
            ),
            (
                json!({ "do": "run", "watch": [{ "at": 5, "length": 0 }] }),
                "",
                "limit: a watchpoint of 0 bytes",
            ),
            (json!({ "do": "run", "breakpoints": vec![5; 129] }), "", "limit: 129 breakpoints"),
        ] {
            let found = refused(client.ask(request.clone(), payload.as_bytes()));
            assert!(found.starts_with(said), "{request}: {found}");
        }
        assert_eq!(client.ask(json!({ "do": "status" }), &[])?.0, before);
        Ok(())
    });
    assert_eq!(end, End::Closed);
}

#[test]
fn a_run_to_an_event_is_the_run_that_would_have_been() {
    let _ = with_client(&COUNTS, |client| {
        client.ask(json!({ "do": "mark" }), &[])?;
        client.ask(json!({ "do": "run", "picoseconds": 3_000_000_000u64 }), &[])?;
        let plain = client.ask(json!({ "do": "hash" }), &[])?.0;
        let status = client.ask(json!({ "do": "status" }), &[])?.0;
        client.ask(json!({ "do": "restore", "mark": 0 }), &[])?;
        client.ask(json!({ "do": "events" }), &[])?;
        for value in [9, 200, 3, 250] {
            let event = match value {
                200 => json!("out value=0xc8"),
                _ => json!({ "kind": "out", "fields": { "value": value } }),
            };
            let stop = client.ask(json!({ "do": "run", "event": event }), &[])?.0;
            assert_eq!(
                (&stop["stopped"], &stop["event"]["fields"]["value"]),
                (&json!("event"), &json!(value))
            );
            let names = json!({ "do": "registers", "names": ["rip"] });
            let registers = client.ask(names, &[])?.0;
            assert_eq!(registers["registers"]["rip"], 0x10_0024, "behind the instruction");
            let events = client.ask(json!({ "do": "events" }), &[])?.0;
            assert_eq!(
                events["events"].as_array().and_then(|all| all.last()),
                Some(&stop["event"])
            );
        }
        let now = client.ask(json!({ "do": "status" }), &[])?.0["picoseconds"].clone();
        let left = 3_000_000_000 - now.as_u64().unwrap_or_default();
        client.ask(json!({ "do": "run", "picoseconds": left }), &[])?;
        assert_eq!(client.ask(json!({ "do": "hash" }), &[])?.0, plain);
        assert_eq!(client.ask(json!({ "do": "status" }), &[])?.0, status);
        // The mark before is as good as it was.
        client.ask(json!({ "do": "restore", "mark": 0 }), &[])?;
        let begin = client.ask(json!({ "do": "status" }), &[])?.0;
        assert_eq!(begin["instructions"], 0);
        Ok(())
    });
}

#[test]
fn a_run_ends_when_nobody_waits_for_it() {
    let mut machine = machine(&COUNTS);
    let mut service = Service::new(&mut machine, Description::default());
    for request in [
        json!({ "do": "run", "picoseconds": u64::MAX }),
        json!({ "do": "run", "breakpoints": [5] }),
        json!({ "do": "run", "event": { "kind": "wrmsr" } }),
    ] {
        let (reply, _) = service.answer(&Message::of(&request), &mut Nobody { looks: 3 });
        let reply: Value = serde_json::from_slice(&reply.header).expect("JSON");
        assert_eq!(reply["stopped"], "interrupted", "{request}");
    }
}

/// What a stranger sends, and somewhere to put what is answered.
struct Stranger<'a> {
    says: &'a [u8],
    heard: usize,
}

impl Read for Stranger<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.says.read(into)
    }
}

impl Write for Stranger<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.heard += from.len();
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn number(random: &mut Random) -> Value {
    match random.below(8) {
        0 => json!(random.below(4)),
        1 => json!(u64::MAX - random.below(3)),
        2 => json!(-1),
        3 => json!("0x100020"),
        4 => json!(1u64 << random.below(64)),
        5 => json!(0x10_0020 + random.below(16)),
        6 => random.pick(&[&Value::Null, &json!("x"), &json!(1.5), &json!({})]).clone(),
        _ => json!(random.below(5000)),
    }
}

/// A request with the right names, and numbers that are often wrong.
fn request(random: &mut Random) -> Value {
    let n = |random: &mut Random| number(random);
    match random.below(19) {
        0 => json!({ "do": "hello", "version": n(random) }),
        1 => json!({ "do": "mark" }),
        2 | 3 => json!({ "do": "restore", "mark": random.below(4) }),
        4 => json!({ "do": "forget", "mark": n(random) }),
        5 => json!({ "do": "read", "at": n(random), "bytes": n(random) }),
        6 => json!({ "do": "read", "at": n(random), "bytes": random.below(99), "cpu": n(random) }),
        7 => json!({ "do": "write", "at": n(random), "bytes": random.below(20) }),
        8 => json!({ "do": "write", "at": n(random), "bytes": n(random), "cpu": random.below(3) }),
        9 => json!({ "do": "registers", "cpu": n(random) }),
        10 => json!({ "do": "set-registers", "values": { "rip": n(random), "rflags": n(random) } }),
        11 => json!({ "do": "run", "instructions": random.below(2000) }),
        12 => json!({ "do": "run", "picoseconds": n(random), "breakpoints": [n(random)] }),
        13 => {
            let watch = json!([{ "at": n(random), "length": n(random), "access": "any" }]);
            json!({ "do": "run", "instructions": random.below(2000), "watch": watch })
        }
        14 => {
            let event =
                json!({ "kind": "out", "cpu": n(random), "fields": { "value": n(random) } });
            json!({ "do": "run", "instructions": random.below(2000), "event": event })
        }
        15 => json!({ "do": "events", "most": n(random) }),
        16 => json!({ "do": random.pick(&["cover", "hash", "status", "console", "type"]) }),
        17 => json!({ "do": "coverage", "map": random.below(2000) }),
        _ => {
            let what = random.pick(&["lapic", "vmcb", "tlb", "pid", "irte", "registers"]);
            json!({ "do": "info", "what": what, "cpu": random.below(3), "at": n(random) })
        }
    }
}

#[test]
fn strangers_neither_end_it_nor_hold_it_up() {
    let mut machine = machine(&COUNTS);
    let mut service = Service::new(&mut machine, Description::default());
    let mut random = Random(7);
    let (mut answered, mut requests) = (0, 0);
    for round in 0..6_000 {
        let mut bytes = Vec::new();
        for _ in 0..1 + random.below(4) {
            let header = match random.below(4) {
                0 => Value::Array((0..random.below(5)).map(|_| request(&mut random)).collect()),
                _ => request(&mut random),
            };
            requests += 1;
            let payload = (0..random.below(24)).map(|_| random.below(256) as u8).collect();
            let message = Message { header: header.to_string().into_bytes(), payload };
            message.write(&mut bytes).expect("a vector takes all");
        }
        match round % 4 {
            // Cut off anywhere.
            0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
            // A few bytes are others.
            1 => (0..1 + random.below(6)).for_each(|_| {
                let place = random.below(bytes.len() as u64) as usize;
                bytes[place] ^= 1 << random.below(8);
            }),
            // Nothing but noise.
            2 if random.below(4) == 0 => {
                bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            }
            _ => {}
        }
        let (mut input, mut output) =
            (Stranger { says: &bytes, heard: 0 }, Stranger { says: &[], heard: 0 });
        let end = serve(&mut service, &mut Nobody { looks: 20 }, &mut input, &mut output);
        assert_eq!(end.expect("streams do not fail"), End::Closed);
        answered += usize::from(output.heard > 0);
    }
    assert!(requests > 10_000 && answered > 3_000, "{requests} requests, {answered} answered");
    let (reply, next) =
        service.answer(&Message::of(&json!({ "do": "status" })), &mut Nobody { looks: 1 });
    assert_eq!(next, Next::Stay);
    let reply: Value = serde_json::from_slice(&reply.header).expect("JSON");
    assert!(reply["instructions"].is_u64(), "{reply}");
}
