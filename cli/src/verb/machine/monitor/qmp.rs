//! QEMU's machine protocol, as far as scripts that start and stop machines use it. [QMP "Commands
//! Reference"]

use super::command::{Command, parse};
use super::control::{Control, Next};
use super::framing::{Frame, Framer};
use crate::verb::machine::socket::{Connection, SocketFile};
use board::{Machine, Outcome};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a client may ask for.
const COMMANDS: [&str; 9] = [
    "qmp_capabilities",
    "query-status",
    "query-version",
    "query-commands",
    "stop",
    "cont",
    "quit",
    "system_reset",
    "human-monitor-command",
];

/// What a client wants of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    Quit,
    Reset,
}

/// One client at a time; others wait until it has gone.
pub struct Server {
    file: SocketFile,
    client: Option<Client>,
}

struct Client {
    connection: Connection,
    talk: Talk,
}

/// What is said on a connection, whatever it is made of.
#[derive(Default)]
pub struct Talk {
    framer: Framer,
    /// Capabilities are negotiated: other commands may come, and events go.
    is_open: bool,
}

impl Server {
    pub fn new(file: SocketFile) -> Self {
        Self { file, client: None }
    }

    pub fn is_met(&self) -> bool {
        self.client.is_some()
    }

    /// Obeys what has come.
    pub fn serve(&mut self, control: &mut Control, machine: &mut Machine) -> Wish {
        if self.client.is_none()
            && let Some(mut connection) = Connection::of_next(&self.file)
        {
            connection.send(&line(&greeting()));
            self.client = Some(Client { connection, talk: Talk::default() });
        }
        let Some(Client { connection, talk }) = &mut self.client else { return Wish::Nothing };
        let bytes = connection.receive();
        let (said, wish) = talk.hear(&bytes, control, machine);
        said.iter().for_each(|value| connection.send(&line(value)));
        connection.flush();
        if connection.is_over() {
            self.client = None;
        }
        wish
    }

    /// Tells a client that listens what happened.
    pub fn tell(&mut self, name: &str, data: &Value) {
        if let Some(Client { connection, talk }) = &mut self.client
            && talk.is_open
        {
            connection.send(&line(&event(name, data)));
        }
    }

    /// The machine has ended by itself.
    pub fn tell_end(&mut self, outcome: Outcome) {
        let reason = match outcome {
            Outcome::Reset | Outcome::TripleFault(_) | Outcome::VmxAbort(..) => "guest-reset",
            Outcome::PowerOff | Outcome::DebugExit(_) | Outcome::Deadlock => "guest-shutdown",
        };
        self.tell("SHUTDOWN", &json!({ "guest": true, "reason": reason }));
    }
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value}\r\n").into_bytes()
}

fn version() -> Value {
    json!({
        "qemu": { "major": 9, "minor": 2, "micro": 0 },
        "package": concat!("avicenna ", env!("CARGO_PKG_VERSION")),
    })
}

fn greeting() -> Value {
    json!({ "QMP": { "version": version(), "capabilities": [] } })
}

fn event(name: &str, data: &Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = json!({ "seconds": now.as_secs(), "microseconds": now.subsec_micros() });
    let mut event = json!({ "event": name, "timestamp": timestamp });
    if !data.is_null() {
        event["data"] = data.clone();
    }
    event
}

/// A class of the protocol's, and what was wrong.
type Refusal = (&'static str, String);

fn generic(why: impl Into<String>) -> Refusal {
    ("GenericError", why.into())
}

impl Talk {
    /// Answers what bytes say, and what is wanted of the run.
    pub fn hear(
        &mut self,
        bytes: &[u8],
        control: &mut Control,
        machine: &mut Machine,
    ) -> (Vec<Value>, Wish) {
        let mut said = Vec::new();
        let mut wish = Wish::Nothing;
        for frame in self.framer.take(bytes) {
            let (id, answer) = match frame {
                Frame::Object(bytes) => self.answer(&bytes, control, machine),
                Frame::Garbage(why) => (None, Err(generic(why))),
            };
            let (mut reply, events) = match answer {
                Ok(Answer { value, events, wish: wanted }) => {
                    if wanted != Wish::Nothing {
                        wish = wanted;
                    }
                    (json!({ "return": value }), events)
                }
                Err((class, why)) => {
                    (json!({ "error": { "class": class, "desc": why } }), Vec::new())
                }
            };
            if let Some(id) = id {
                reply["id"] = id;
            }
            // As with QEMU, what a command causes is told before it is answered.
            said.extend(events.iter().map(|(name, data)| event(name, data)));
            said.push(reply);
            if wish == Wish::Quit {
                break;
            }
        }
        (said, wish)
    }

    fn answer(
        &mut self,
        bytes: &[u8],
        control: &mut Control,
        machine: &mut Machine,
    ) -> (Option<Value>, Result<Answer, Refusal>) {
        let object = match serde_json::from_slice::<Map<String, Value>>(bytes) {
            Ok(object) => object,
            Err(error) => return (None, Err(generic(format!("JSON parse error, {error}")))),
        };
        let id = object.get("id").cloned();
        (id, self.execute(&object, control, machine))
    }

    fn execute(
        &mut self,
        object: &Map<String, Value>,
        control: &mut Control,
        machine: &mut Machine,
    ) -> Result<Answer, Refusal> {
        if let Some(key) =
            object.keys().find(|key| !["execute", "arguments", "id"].contains(&key.as_str()))
        {
            return Err(generic(format!("QMP input member '{key}' is unexpected")));
        }
        let Some(name) = object.get("execute") else {
            return Err(generic("QMP input lacks member 'execute'"));
        };
        let Some(name) = name.as_str() else {
            return Err(generic("QMP input member 'execute' must be a string"));
        };
        let arguments = match object.get("arguments") {
            None => &Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(generic("QMP input member 'arguments' must be an object")),
        };
        let unknown = |why: String| ("CommandNotFound", why);
        match (name, self.is_open) {
            ("qmp_capabilities", true) => {
                let why = "Capabilities negotiation is already complete, command ignored";
                return Err(unknown(why.into()));
            }
            ("qmp_capabilities", false) => return self.open(arguments),
            (_, false) => {
                let why = "Expecting capabilities negotiation with 'qmp_capabilities'";
                return Err(unknown(why.into()));
            }
            (name, true) if !COMMANDS.contains(&name) => {
                return Err(unknown(format!("The command {name} has not been found")));
            }
            _ => {}
        }
        let known: &[&str] =
            if name == "human-monitor-command" { &["command-line", "cpu-index"] } else { &[] };
        if let Some(key) = arguments.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(generic(format!("Parameter '{key}' is unexpected")));
        }
        Ok(match name {
            "query-status" => {
                let status = if control.is_stopped { "paused" } else { "running" };
                let is_running = !control.is_stopped;
                json!({ "running": is_running, "status": status }).into()
            }
            "query-version" => version().into(),
            "query-commands" => {
                let names = COMMANDS.map(|name| json!({ "name": name }));
                json!(names).into()
            }
            "stop" => switched(obey(control, machine, Command::Stop)?, "STOP"),
            "cont" => switched(obey(control, machine, Command::Go)?, "RESUME"),
            "quit" => Answer {
                events: vec![("SHUTDOWN", json!({ "guest": false, "reason": "host-qmp-quit" }))],
                wish: Wish::Quit,
                ..Answer::default()
            },
            "system_reset" => Answer {
                events: vec![(
                    "RESET",
                    json!({ "guest": false, "reason": "host-qmp-system-reset" }),
                )],
                wish: Wish::Reset,
                ..Answer::default()
            },
            _ => Value::String(said_to_people(arguments, control, machine)?).into(),
        })
    }

    fn open(&mut self, arguments: &Map<String, Value>) -> Result<Answer, Refusal> {
        let wanted = arguments.get("enable").and_then(Value::as_array);
        match wanted.and_then(|wanted| wanted.first()) {
            Some(capability) => Err(generic(format!("Capability {capability} is not available"))),
            None => {
                self.is_open = true;
                Ok(Answer::default())
            }
        }
    }
}

struct Answer {
    value: Value,
    events: Vec<(&'static str, Value)>,
    wish: Wish,
}

impl Default for Answer {
    fn default() -> Self {
        Value::Object(Map::new()).into()
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, events: Vec::new(), wish: Wish::Nothing }
    }
}

/// With the event, if anything has changed.
fn switched(has_changed: bool, name: &'static str) -> Answer {
    let events = has_changed.then_some((name, Value::Null)).into_iter().collect();
    Answer { events, ..Answer::default() }
}

/// Whether the machine was in the other state before.
fn obey(control: &mut Control, machine: &mut Machine, command: Command) -> Result<bool, Refusal> {
    let before = control.is_stopped;
    control.obey(machine, command).map_err(generic)?;
    Ok(before != control.is_stopped)
}

/// What `info` prints. Other commands are the protocol's own.
fn said_to_people(
    arguments: &Map<String, Value>,
    control: &mut Control,
    machine: &mut Machine,
) -> Result<String, Refusal> {
    let Some(text) = arguments.get("command-line").and_then(Value::as_str) else {
        return Err(generic("Parameter 'command-line' is missing or no string"));
    };
    let cpu = match arguments.get("cpu-index") {
        None => control.cpu,
        Some(number) => {
            let number = number.as_u64().and_then(|number| u16::try_from(number).ok());
            let number =
                number.ok_or_else(|| generic("Parameter 'cpu-index' must be an integer"))?;
            arch::identity::CpuIndex(number)
        }
    };
    // What is wrong with the line is its answer, as with QEMU.
    let said = match parse(text, cpu) {
        Ok(None) => Ok(String::new()),
        Ok(Some(command @ (Command::Info { .. } | Command::Events(_) | Command::Help))) => {
            control.obey(machine, command).map(|reply| {
                debug_assert_eq!(reply.next, Next::Stay);
                reply.text
            })
        }
        Ok(Some(_)) => {
            Err("only info, events and help: stop, cont and quit are commands of QMP".into())
        }
        Err(why) => Err(why),
    };
    Ok(said.unwrap_or_else(|why| why + "\n"))
}

#[cfg(test)]
mod tests;
