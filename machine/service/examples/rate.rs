//! How many inputs a second a service takes, with the client in Rust: go back to a mark, write 64
//! bytes, run 10,000 instructions of a bare guest.
//!
//!     cargo run --release -p avicenna-service --example rate -- target/release/avicenna

use serde_json::{Value, json};
use service::client::Client;
use std::error::Error;
use std::io::Write;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long each way is measured.
const TIME: Duration = Duration::from_secs(3);
/// Inputs of one message, where there are several.
const AT_ONCE: usize = 16;

/// mov esi, 200000h; mov ecx, 64; xor ebx, ebx; then lodsb; add ebx, eax; mov [edi + 201000h], al;
/// loop; and from the beginning.
const ADDS: [u8; 25] = [
    0xBE, 0x00, 0x00, 0x20, 0x00, 0xB9, 0x40, 0x00, 0x00, 0x00, 0x31, 0xDB, 0xAC, 0x01, 0xC3, 0x88,
    0x87, 0x00, 0x10, 0x20, 0x00, 0xE2, 0xF5, 0xEB, 0xE7,
];

type Machine = Client<ChildStdout, ChildStdin>;
/// One message, or a few.
type Once<'a> = &'a mut dyn FnMut(&mut Machine) -> Result<(), Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args().nth(1).ok_or("the program's path is missing")?;
    let image = std::env::temp_dir().join(format!("rate-{}.multiboot", std::process::id()));
    std::fs::write(&image, multiboot())?;
    let mut child = Command::new(program)
        .args(["machine", "serve", "--stdio", "--kernel"])
        .arg(&image)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = child.stdin.take().ok_or("no pipe")?;
    let output = child.stdout.take().ok_or("no pipe")?;
    let mut machine = Client::new(output, input)?;
    machine.ask(json!({ "do": "run", "instructions": 1_000_000 }), &[])?;
    let mark = machine.ask(json!({ "do": "mark" }), &[])?.0["mark"].clone();

    let print = |text: String| writeln!(std::io::stdout(), "{text}");
    print(rate("a message each", &mut machine, 1, &mut |machine| {
        for (number, request) in input_of(&mark).into_iter().enumerate() {
            machine.ask(request, if number == 1 { &[7; 64] } else { &[] })?;
        }
        Ok(())
    })?)?;
    print(rate("a message an input", &mut machine, 1, &mut |machine| {
        machine.ask_all(input_of(&mark), &[7; 64])?;
        Ok(())
    })?)?;
    let many: Vec<Value> = (0..AT_ONCE).flat_map(|_| input_of(&mark)).collect();
    print(rate("a message for 16", &mut machine, AT_ONCE, &mut |machine| {
        machine.ask_all(many.clone(), &[7; 64 * AT_ONCE])?;
        Ok(())
    })?)?;
    for (way, at) in
        [("a breakpoint elsewhere", 0x20_2000), ("a breakpoint on its page", 0x10_00F0)]
    {
        let mut stopping = input_of(&mark);
        stopping[2] = json!({ "do": "run", "instructions": 10_000, "breakpoints": [at] });
        print(rate(way, &mut machine, 1, &mut |machine| {
            machine.ask_all(stopping.clone(), &[7; 64])?;
            Ok(())
        })?)?;
    }
    machine.ask(json!({ "do": "cover" }), &[])?;
    let mut covered = input_of(&mark);
    covered.push(json!({ "do": "coverage", "map": 65536 }));
    print(rate("with a map of coverage", &mut machine, 1, &mut |machine| {
        machine.ask_all(covered.clone(), &[7; 64])?;
        Ok(())
    })?)?;
    let mut event = input_of(&mark);
    event[2] = json!({ "do": "run", "instructions": 10_000, "event": { "kind": "out" } });
    print(rate("looking for an event", &mut machine, 1, &mut |machine| {
        machine.ask_all(event.clone(), &[7; 64])?;
        Ok(())
    })?)?;
    machine.ask(json!({ "do": "quit" }), &[])?;
    child.wait()?;
    std::fs::remove_file(image)?;
    Ok(())
}

fn input_of(mark: &Value) -> Vec<Value> {
    vec![
        json!({ "do": "restore", "mark": mark }),
        json!({ "do": "write", "at": 0x20_0000, "bytes": 64 }),
        json!({ "do": "run", "instructions": 10_000 }),
    ]
}

fn rate(
    way: &str,
    machine: &mut Machine,
    inputs: usize,
    once: Once<'_>,
) -> Result<String, Box<dyn Error>> {
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < TIME {
        once(machine)?;
        done += inputs;
    }
    let each = begun.elapsed().as_secs_f64() / done as f64;
    Ok(format!("{way:<25} {:>8.0} inputs/s {:>8.1} us each", 1.0 / each, each * 1e6))
}

fn multiboot() -> Vec<u8> {
    let magic = 0x1BAD_B002u32;
    let (flags, load) = (0x1_0000u32, 0x10_0000u32);
    let check = 0u32.wrapping_sub(magic).wrapping_sub(flags);
    let head = [magic, flags, check, load, load, 0, 0, load + 0x20];
    let mut image: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    image.extend(ADDS);
    image.resize(0x200, 0xF4);
    image
}
