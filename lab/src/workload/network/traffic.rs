//! The guest's end of a wire: it sends to the host.

use super::wire::{BEGINS, MESSAGE, OVER, ROUND_TRIPS};
use crate::linux::console::{drain, mark};
use crate::linux::interface::{Interface, interrupts_of};
use crate::linux::module::Modules;
use crate::protocol::{WINDOW_BEGINS, WINDOW_ENDS};
use anyhow::Context;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV6, TcpStream};
use std::time::{Duration, Instant};

/// For the host to look at its counts: it looks at this guest's console every few milliseconds.
const LOOK: Duration = Duration::from_millis(50);
/// For the host's end to have its link.
const TRIES: usize = 400;

/// `word` is BYTES,PORT,ADDRESS.
pub(super) fn send(word: &str) -> anyhow::Result<()> {
    let mut words = word.splitn(3, ',');
    let mut next = || words.next().context("BYTES,PORT,ADDRESS");
    let (bytes, port, address) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
    Modules::load_all()?;
    let own = Interface(interface()?);
    own.set_up()?;
    own.wait()?;
    let mut stream = connect(&SocketAddrV6::new(address, port, 0, own.index()?))?;
    stream.set_nodelay(true)?;
    say!("{{\"record\":\"{BEGINS}\"}}");
    drain();
    std::thread::sleep(LOOK);
    let before = interrupts_of(&own.0);
    mark(WINDOW_BEGINS);
    let round_trip = round_trips(&mut stream)?;
    let start = Instant::now();
    let (sent, received) = stream_to(&mut stream, bytes)?;
    let seconds = start.elapsed().as_secs_f64();
    mark(WINDOW_ENDS);
    let interrupts = interrupts_of(&own.0) - before;
    say!(
        "{{\"record\":\"{OVER}\",\"sent\":{sent},\"received\":{received},\"seconds\":{seconds:.6},\
         \"round_trip\":{round_trip:.9},\"interrupts\":{interrupts}}}"
    );
    drain();
    std::thread::sleep(LOOK);
    Ok(())
}

/// The interface that is a device's.
fn interface() -> anyhow::Result<String> {
    let all = std::fs::read_dir("/sys/class/net")?.flatten();
    let mut devices = all.filter(|one| one.path().join("device").exists());
    let one = devices.next().context("no function that was given is a network's")?;
    Ok(one.file_name().to_string_lossy().into_owned())
}

fn connect(to: &SocketAddrV6) -> anyhow::Result<TcpStream> {
    let mut last = None;
    for _ in 0..TRIES {
        match TcpStream::connect_timeout(&(*to).into(), Duration::from_millis(500)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let error = last.context("no try")?;
    Err(error).with_context(|| format!("cannot connect to {to}"))
}

/// Seconds of one, as a mean.
fn round_trips(stream: &mut TcpStream) -> anyhow::Result<f64> {
    let mut byte = [0];
    let start = Instant::now();
    for _ in 0..ROUND_TRIPS {
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(ROUND_TRIPS))
}

/// Bytes sent, and those that the other end has received.
fn stream_to(stream: &mut TcpStream, bytes: u64) -> anyhow::Result<(u64, u64)> {
    let message = vec![0xA5; MESSAGE];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(MESSAGE as u64);
        stream.write_all(&message[..length as usize])?;
        left -= length;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    Ok((bytes, u64::from_le_bytes(received)))
}
