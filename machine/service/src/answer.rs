//! The service: a machine, its marks, and the answer to each request.

use crate::collected::Collected;
use crate::error::{Code, Refusal};
use crate::memory::fits;
use crate::message::{LARGEST_PAYLOAD, Message};
use crate::request::{self, Number, Request};
use crate::{Host, VERSION, coverage, register};
use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use board::inspection::{Query, Subject, View};
use board::{Machine, Marks};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Marks that are kept at once.
const MOST_MARKS: usize = 64;
/// Bytes of changed memory that marks keep, in about.
const MOST_KEPT: usize = 1 << 30;
/// Bytes that are typed at once.
const MOST_TYPED: usize = 64 << 10;
/// Events of one answer.
const MOST_EVENTS: usize = 10_000;
/// Bytes of the replies of one message, after which no more requests are done: with one more reply
/// they are below [`crate::message::LARGEST_REPLY`].
const MOST_REPLIES: usize = 8 << 20;
/// Bytes of a file's name.
const LONGEST_NAME: usize = 255;

/// What a client is told of the machine.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The program that serves, with its version.
    pub program: String,
    /// The CPU model.
    pub model: String,
    /// The configuration's digest, which snapshots have as well.
    pub configuration: String,
}

/// What comes after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next message.
    Stay,
    /// The service ends.
    Quit,
}

/// A machine that is asked.
pub struct Service<'a> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) marks: Marks,
    pub(crate) collected: Collected,
    description: Description,
}

/// An answer: what is in the header, and bytes of the payload.
type Answer = Result<(Value, Vec<u8>), Refusal>;

impl<'a> Service<'a> {
    /// Of a machine that nobody else marks.
    pub fn new(machine: &'a mut Machine, description: Description) -> Self {
        machine.state.wiring.recorder.records = Some(Vec::new());
        Self { machine, marks: Marks::default(), collected: Collected::default(), description }
    }

    /// Answers a message. In a list each request has an answer, up to the first that is refused.
    pub fn answer(&mut self, message: &Message, host: &mut dyn Host) -> (Message, Next) {
        let (is_list, values) = match request::parse(&message.header) {
            Ok(parsed) => parsed,
            Err(refusal) => return (Message::of(&refusal.reply()), Next::Stay),
        };
        let mut rest = message.payload.as_slice();
        let mut payload = Vec::new();
        let mut next = Next::Stay;
        let mut replies: Vec<String> = Vec::new();
        let mut length = 0;
        for value in values {
            let room = LARGEST_PAYLOAD - payload.len();
            let answer =
                begins(length).and_then(|()| request::request(value)).and_then(|request| {
                    if request == (Request::Quit {}) {
                        next = Next::Quit;
                    }
                    self.obey(request, &mut rest, room, host)
                });
            match answer {
                Ok((reply, bytes)) => {
                    payload.extend(bytes);
                    replies.push(reply.to_string());
                    length += replies.last().map_or(0, String::len);
                }
                Err(refusal) => {
                    replies.push(refusal.reply().to_string());
                    break;
                }
            }
            if next == Next::Quit {
                break;
            }
        }
        let header = match is_list {
            true => format!("[{}]", replies.join(",")),
            false => replies.concat(),
        };
        (Message { header: header.into_bytes(), payload }, next)
    }

    /// `rest` is the payload that no request before has taken, `room` what replies may still add.
    fn obey(
        &mut self,
        request: Request,
        rest: &mut &[u8],
        room: usize,
        host: &mut dyn Host,
    ) -> Answer {
        let wanted = request.payload();
        let Some((own, after)) = rest.split_at_checked(wanted) else {
            let text = format!("{wanted} bytes wanted, {} are left of the payload", rest.len());
            return Err(Refusal::new(Code::Request, text));
        };
        *rest = after;
        match request {
            Request::Hello { version } => self.hello(version),
            Request::Mark {} => self.mark(),
            Request::Restore { mark } => self.restore(mark),
            Request::Forget { mark } => self.forget(mark),
            Request::Read { at, bytes, cpu } => {
                let read = self.read(at.word("the address")?, bytes, cpu, room)?;
                Ok((json!({ "bytes": read.len() }), read))
            }
            Request::Write { at, cpu, .. } => {
                self.write(at.word("the address")?, own, cpu)?;
                plain(json!({}))
            }
            Request::Registers { cpu, names } => self.show_registers(cpu, names.as_deref()),
            Request::SetRegisters { cpu, values } => self.set_registers(cpu, &values),
            Request::Run(run) => plain(self.run(*run, host)?),
            Request::Events { most } => {
                let most = most.unwrap_or(MOST_EVENTS).min(MOST_EVENTS);
                let (events, left, lost) = self.collected.take_records(most);
                plain(json!({ "events": events, "left": left, "lost": lost }))
            }
            Request::Cover {} => {
                self.machine.count_coverage();
                plain(json!({}))
            }
            Request::Coverage { map } => self.coverage(map, room),
            Request::Console { port } => {
                fits(self.collected.shown(port), room)?;
                let shown = self.collected.take_console(port);
                Ok((json!({ "bytes": shown.len() }), shown))
            }
            Request::Type { port, .. } => self.type_at(port, own),
            Request::Hash {} => {
                plain(json!({ "hash": self.machine.state.wiring.recorder.hash.to_string() }))
            }
            Request::Status {} => plain(self.status()),
            Request::Info { what, cpu, at } => {
                let at = at.map(|at| at.word("the address")).transpose()?;
                plain(json!({ "info": self.info(&what, cpu, at, host)? }))
            }
            Request::Snapshot { file } => self.snapshot(&file, host),
            Request::Quit {} => plain(json!({})),
        }
    }

    fn hello(&self, version: u32) -> Answer {
        if version != VERSION {
            let text = format!("the protocol's version {version}, this program speaks {VERSION}");
            return Err(Refusal::new(Code::Version, text));
        }
        let Description { program, model, configuration } = &self.description;
        plain(json!({
            "version": VERSION,
            "program": program,
            "model": model,
            "configuration": configuration,
            "cpus": self.machine.state.cpus.len(),
            "memory": self.machine.memory.ram.len(),
        }))
    }

    fn mark(&mut self) -> Answer {
        let (count, kept) = (self.marks.len(), self.marks.size());
        if count >= MOST_MARKS || kept > MOST_KEPT {
            let text = format!(
                "{count} marks keep {kept} bytes, must be at most {MOST_MARKS} and {MOST_KEPT}: \
                 forget some"
            );
            return Err(Refusal::new(Code::Limit, text));
        }
        self.collect();
        self.marks.push(self.machine);
        plain(json!({ "mark": count }))
    }

    fn restore(&mut self, mark: usize) -> Answer {
        let pages = self.marks.return_to(mark, self.machine);
        let pages = pages.ok_or_else(|| self.no_mark(mark))?;
        self.collected.clear();
        self.machine.state.wiring.recorder.records = Some(Vec::new());
        plain(json!({ "pages": pages }))
    }

    fn forget(&mut self, mark: usize) -> Answer {
        if mark >= self.marks.len() {
            return Err(self.no_mark(mark));
        }
        self.marks.forget(mark, self.machine);
        plain(json!({}))
    }

    fn no_mark(&self, mark: usize) -> Refusal {
        let count = self.marks.len();
        Refusal::new(Code::Mark, format!("no mark {mark}, there are {count}, counted from 0"))
    }

    pub(crate) fn no_processor(&self, cpu: u16) -> Refusal {
        let count = self.machine.state.cpus.len();
        Refusal::new(Code::Processor, format!("no processor {cpu}, must be below {count}"))
    }

    fn registers(&self, cpu: u16) -> Result<board::debugger::DebugRegisters, Refusal> {
        self.machine.debug_registers(CpuIndex(cpu)).ok_or_else(|| self.no_processor(cpu))
    }

    fn show_registers(&self, cpu: u16, names: Option<&[String]>) -> Answer {
        let registers = self.registers(cpu)?;
        let shown = match names {
            Some(names) => register::some(&registers, names)?,
            None => register::all(&registers),
        };
        plain(json!({ "registers": shown }))
    }

    fn set_registers(&mut self, cpu: u16, values: &BTreeMap<String, Number>) -> Answer {
        let before = self.registers(cpu)?;
        let mut wanted = before.clone();
        register::put(&mut wanted, values)?;
        if !self.machine.set_debug_registers(CpuIndex(cpu), &wanted) {
            self.machine.set_debug_registers(CpuIndex(cpu), &before);
            let text = "a value has bits that the register cannot have";
            return Err(Refusal::new(Code::Register, text));
        }
        plain(json!({}))
    }

    fn type_at(&mut self, port: u8, own: &[u8]) -> Answer {
        if own.len() > MOST_TYPED {
            let text = format!("{} bytes, must be at most {MOST_TYPED}", own.len());
            return Err(Refusal::new(Code::Limit, text));
        }
        plain(json!({ "taken": self.machine.type_at_console(port, own) }))
    }

    fn snapshot(&mut self, file: &str, host: &mut dyn Host) -> Answer {
        let is_name = !["", ".", ".."].contains(&file) && file.len() <= LONGEST_NAME;
        if !is_name || file.contains(['/', '\0']) {
            let text = format!("{file:?} must be a file's name without a folder");
            return Err(Refusal::new(Code::Snapshot, text));
        }
        let saved = host.save(self.machine, file);
        let path = saved.map_err(|why| Refusal::new(Code::Snapshot, why))?;
        plain(json!({ "path": path }))
    }

    fn coverage(&mut self, map: Option<usize>, room: usize) -> Answer {
        let largest = coverage::LARGEST_MAP.min(room);
        if let Some(size) = map.filter(|size| !(1..=largest).contains(size)) {
            let text = format!("a map of {size} counters, must have 1 to {largest}");
            return Err(Refusal::new(Code::Limit, text));
        }
        let Some(covered) = self.machine.take_coverage() else {
            let text = "no coverage is kept: \"cover\" begins with it";
            return Err(Refusal::new(Code::Absent, text));
        };
        let bytes = match map {
            Some(size) => coverage::map(&covered, size),
            None => coverage::list(&covered),
        };
        fits(bytes.len(), room)?;
        Ok((json!({ "spans": covered.len(), "bytes": bytes.len() }), bytes))
    }

    fn status(&self) -> Value {
        let mut status = self.place();
        let cpus = (0..self.machine.state.cpus.len() as u16).map(CpuIndex);
        let activities = cpus.filter_map(|cpu| self.machine.activity_of(cpu));
        status["cpus"] = activities.collect::<Vec<_>>().into();
        status["marks"] = self.marks.len().into();
        status
    }

    fn info(
        &self,
        what: &str,
        cpu: u16,
        at: Option<u64>,
        host: &dyn Host,
    ) -> Result<Value, Refusal> {
        let subject = Subject::named(what).ok_or_else(|| {
            let names = Subject::ALL.map(|row| row.0).join(", ");
            Refusal::new(Code::Request, format!("no {what:?}, must be one of {names}"))
        })?;
        let query = Query { subject, cpu: CpuIndex(cpu), at: at.map(SystemPhysical) };
        let view = View { state: &self.machine.state, memory: &self.machine.memory };
        let sheets = view.look(query).map_err(|why| Refusal::new(Code::Absent, why.to_string()))?;
        Ok(host.show(&sheets))
    }
}

/// Whether one more request may be done, of a message whose replies are so long already.
fn begins(length: usize) -> Result<(), Refusal> {
    if length > MOST_REPLIES {
        let text = format!("replies of {length} bytes are all that one message gets");
        return Err(Refusal::new(Code::Limit, text));
    }
    Ok(())
}

/// An answer without bytes.
fn plain(value: Value) -> Answer {
    Ok((value, Vec::new()))
}
