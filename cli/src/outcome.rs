//! What another program wrote and how it ended. The standard library's own way panics where a pipe
//! cannot be read.

use std::io::{self, Read};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, Builder};

/// Runs a program to its end, without input.
pub fn outcome(command: &mut Command) -> io::Result<Output> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let written = written(&mut child);
    if written.is_err() {
        // A writer to a pipe that nobody reads would never end.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let (stdout, stderr) = written?;
    Ok(Output { status, stdout, stderr })
}

/// Both streams, read at once: a program may fill either first.
fn written(child: &mut Child) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let errors = child.stderr.take();
    let output = child.stdout.take();
    thread::scope(|scope| {
        let errors = Builder::new().spawn_scoped(scope, move || all(errors))?;
        let output = all(output).inspect_err(|_| drop(child.kill()));
        let errors = errors.join().unwrap_or_else(|_| Err(io::Error::other("its reader failed")));
        Ok((output?, errors?))
    })
}

fn all(stream: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.map_or(Ok(0), |mut stream| stream.read_to_end(&mut bytes))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_read_whichever_is_filled_first() {
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; exit 7";
        let output = outcome(Command::new("sh").args(["-c", script])).expect("a shell");
        assert_eq!(output.status.code(), Some(7));
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
        assert!(outcome(&mut Command::new("/nosuch")).is_err());
    }
}
