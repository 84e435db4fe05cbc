//! Follows a script in order: what each variable holds where a command stands.
//!
//! What depends on a condition, on a loop or on another file is open afterwards, unless every way
//! leads to the same value; a command inside a branch is seen with what that branch has assigned.
//! Functions are followed where they are called. Nothing is executed.

use super::lexer::Lexer;
use super::script::{Item, Link, List, Node, Simple, parse, parse_exact};
use super::{Command, Word, expand};
use crate::configuration::input::InputError;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Calls of functions inside functions that are followed.
const MAX_CALLS: usize = 8;
/// Commands and variables that are looked at in all, for branches and calls multiply.
const BUDGET: usize = 4_000_000;

/// Bytes that variables are replaced with in all: one that holds another twice doubles with each
/// line.
const MAX_EXPANDED: usize = 4 << 20;
const TOO_MUCH: &str = "more text comes of its variables than is followed";

/// What is left of [`MAX_EXPANDED`], for all copies of a state.
#[derive(Clone, Debug)]
struct Room(Rc<Cell<usize>>);

impl Default for Room {
    fn default() -> Self {
        Self(Rc::new(Cell::new(MAX_EXPANDED)))
    }
}

impl Room {
    /// Takes so much; false if there is not so much.
    fn take(&self, bytes: usize) -> bool {
        self.0.set(self.0.get().saturating_sub(bytes));
        !self.is_used_up()
    }

    fn is_used_up(&self) -> bool {
        self.0.get() == 0
    }
}

/// What a variable holds.
#[derive(Clone, Debug)]
pub enum Value<'t> {
    Text(Word<'t>),
    List(Vec<Word<'t>>),
    /// It depends.
    Open,
}

impl Value<'_> {
    /// What replacing something with it adds, in bytes of memory: a list of short words has more of
    /// them than its text.
    fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.text.len(),
            Self::List(list) => {
                list.iter().map(|word| word.text.len() + size_of::<Word<'_>>()).sum()
            }
            Self::Open => 0,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.text == other.text,
            (Self::List(one), Self::List(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| one.text == other.text)
            }
            _ => false,
        }
    }
}

/// Variables at one place of the script.
#[derive(Clone, Debug, Default)]
pub struct State<'t> {
    values: BTreeMap<String, Rc<Value<'t>>>,
    room: Room,
    /// This way has left the script.
    has_ended: bool,
}

/// Whose reading counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// As far as it goes, for texts that are not run.
    Lenient,
    Exact(Shell),
}

/// A shell that sources a file of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// POSIX and no more, as dash is: `NAME+=…` is a command that does not exist.
    Posix,
    /// Bash, busybox: `+=` appends.
    Bash,
}

impl<'t> State<'t> {
    /// What `$NAME` and its relatives stand for; `None` where nothing in the script has said, and
    /// where there is no room for more.
    pub fn value_of(&self, expansion: &str) -> Option<&Value<'t>> {
        let value = self.values.get(variable(expansion)?).map(Rc::as_ref)?;
        self.room.take(value.length()).then_some(value)
    }

    /// Every variable that was set.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Value<'t>)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    fn set(&mut self, name: &str, value: Value<'t>) {
        self.values.insert(name.to_owned(), Rc::new(value));
    }

    /// What is so on both ways; a way that has ended does not count.
    fn merge(self, other: Self) -> Self {
        if self.has_ended {
            return other;
        }
        if other.has_ended {
            return self;
        }
        let mut merged = self;
        for (name, value) in other.values {
            let is_same = merged
                .values
                .get(&name)
                .is_some_and(|known| Rc::ptr_eq(known, &value) || known.is_same(&value));
            if !is_same {
                merged.values.insert(name, Rc::new(Value::Open));
            }
        }
        merged
    }

    /// Names that only one way has set may come from the environment on the other.
    fn merge_all(ways: Vec<Self>) -> Self {
        let names: BTreeSet<String> = ways
            .iter()
            .filter(|way| !way.has_ended)
            .flat_map(|way| way.values.keys().cloned())
            .collect();
        let mut ways = ways.into_iter().map(|mut way| {
            for name in &names {
                way.values.entry(name.clone()).or_insert_with(|| Rc::new(Value::Open));
            }
            way
        });
        let first = ways.next().unwrap_or_default();
        ways.fold(first, State::merge)
    }
}

/// `$NAME`, `${NAME}`, `${NAME[@]}`, `${NAME[*]}`.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let name = match name.strip_prefix('{') {
        Some(inner) => {
            let inner = inner.strip_suffix('}')?;
            inner.strip_suffix("[@]").or_else(|| inner.strip_suffix("[*]")).unwrap_or(inner)
        }
        None => name,
    };
    is_name(name).then_some(name)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The commands that a script runs, with what is known of their words.
pub fn run(text: &str) -> Result<Vec<Command<'_>>, InputError> {
    let tokens = Lexer::tokens(text)?;
    let tree = parse(&tokens);
    let mut run = Run::new(text, Reading::Lenient);
    let mut state = State::default();
    run.list(&tree, &mut state);
    // What nothing here calls is called by others.
    state.has_ended = false;
    let functions: Vec<_> =
        run.functions.iter().map(|(name, body)| (name.clone(), *body)).collect();
    for (name, body) in functions {
        if !run.called.contains(&name) {
            run.list(body, &mut state.clone());
        }
    }
    if run.budget == 0 {
        return Err(InputError::whole("more branches and calls than are followed"));
    }
    if state.room.is_used_up() {
        return Err(InputError::whole(TOO_MUCH));
    }
    Ok(run.finish())
}

/// What variables hold once a shell has sourced a text, or what keeps that from being known. What
/// depends on a condition is open; a command is taken for one that changes no variable, unless it
/// is known to.
pub fn sourced(text: &str, shell: Shell) -> Result<State<'_>, String> {
    let tokens = Lexer::exact_tokens(text)?;
    let tree =
        parse_exact(&tokens).ok_or("no shell would take it: a keyword or sign is misplaced")?;
    let mut run = Run::new(text, Reading::Exact(shell));
    let mut state = State::default();
    run.list(&tree, &mut state);
    match run.fault {
        Some(fault) => Err(fault),
        None if run.budget == 0 => Err("more branches than are followed".into()),
        None if state.room.is_used_up() => Err(TOO_MUCH.into()),
        None => Ok(state),
    }
}

struct Run<'a, 't> {
    text: &'t str,
    reading: Reading,
    /// What cannot be followed exactly.
    fault: Option<String>,
    found: Vec<Command<'t>>,
    functions: BTreeMap<String, &'a List<'t>>,
    called: BTreeSet<String>,
    calls: usize,
    budget: usize,
}

impl<'a, 't> Run<'a, 't> {
    fn new(text: &'t str, reading: Reading) -> Self {
        Self {
            text,
            reading,
            fault: None,
            found: vec![],
            functions: BTreeMap::new(),
            called: BTreeSet::new(),
            calls: 0,
            budget: BUDGET,
        }
    }

    /// One command of a function that is called twice with the same words is one.
    fn finish(mut self) -> Vec<Command<'t>> {
        let mut seen = BTreeSet::new();
        self.found.retain(|command| {
            let start = command.words.first().map_or(0, |word| word.raw.start);
            let texts: Vec<String> =
                command.words.iter().map(|word| word.text.to_string()).collect();
            seen.insert((start, texts))
        });
        self.found
    }

    fn list(&mut self, list: &'a List<'t>, state: &mut State<'t>) {
        // Ways on which the rest of a chain of && and || is left out.
        let mut beside: Vec<State<'t>> = vec![];
        for (index, Item { link, node }) in list.iter().enumerate() {
            let is_piped = *link == Link::Piped
                || list.get(index + 1).is_some_and(|next| next.link == Link::Piped);
            match link {
                Link::Always => Self::rejoin(&mut beside, state),
                Link::IfDone => beside.push(state.clone()),
                Link::IfFailed => {
                    let done = state.clone();
                    Self::rejoin(&mut beside, state);
                    beside.push(done);
                }
                Link::Piped => {}
            }
            self.budget = self.budget.saturating_sub(1 + beside.len() * state.values.len());
            if self.budget == 0 {
                return;
            }
            if is_piped {
                self.node(node, &mut state.clone());
            } else {
                self.node(node, state);
            }
        }
        Self::rejoin(&mut beside, state);
    }

    fn rejoin(beside: &mut Vec<State<'t>>, state: &mut State<'t>) {
        if !beside.is_empty() {
            let mut ways = std::mem::take(beside);
            ways.push(std::mem::take(state));
            *state = State::merge_all(ways);
        }
    }

    fn node(&mut self, node: &'a Node<'t>, state: &mut State<'t>) {
        match node {
            Node::Simple(simple) => self.simple(simple, state),
            Node::Group(list) => self.list(list, state),
            Node::Subshell(list) => self.list(list, &mut state.clone()),
            Node::If { branches, otherwise } => {
                self.conditional(branches, otherwise.as_ref(), state)
            }
            Node::Loop { variable, head, body } => self.again(variable.as_ref(), head, body, state),
            Node::Case { arms, has_default } => {
                let mut ways = if *has_default { vec![] } else { vec![state.clone()] };
                for arm in arms {
                    ways.push(self.way(arm, state));
                }
                *state = State::merge_all(ways);
            }
            Node::Function { name, .. } if self.reading != Reading::Lenient => {
                self.fault.get_or_insert(format!("it defines the function '{name}'"));
            }
            Node::Function { name, body } => {
                self.functions.insert(name.clone(), body);
            }
        }
    }

    /// A list that may be left out, on a copy.
    fn way(&mut self, list: &'a List<'t>, state: &State<'t>) -> State<'t> {
        self.budget = self.budget.saturating_sub(state.values.len());
        let mut way = state.clone();
        self.list(list, &mut way);
        way
    }

    fn conditional(
        &mut self,
        branches: &'a [(List<'t>, List<'t>)],
        otherwise: Option<&'a List<'t>>,
        state: &mut State<'t>,
    ) {
        let mut ways = vec![];
        for (condition, body) in branches {
            self.list(condition, state);
            ways.push(self.way(body, state));
        }
        ways.push(match otherwise {
            Some(body) => self.way(body, state),
            None => state.clone(),
        });
        *state = State::merge_all(ways);
    }

    fn again(
        &mut self,
        variable: Option<&(String, Vec<Word<'t>>)>,
        head: &'a List<'t>,
        body: &'a List<'t>,
        state: &mut State<'t>,
    ) {
        let mut inside = state.clone();
        let mut names = BTreeSet::new();
        assigned(body, &mut names);
        for name in names {
            inside.set(&name, Value::Open);
        }
        if let Some((name, words)) = variable {
            let value = match expand::fields(words, state).as_slice() {
                [only] if !only.has_expansion => Value::Text(only.clone()),
                _ => Value::Open,
            };
            inside.set(name, value);
        }
        self.list(head, &mut inside);
        self.list(body, &mut inside);
        inside.has_ended = false;
        *state = State::merge_all(vec![std::mem::take(state), inside]);
    }

    fn simple(&mut self, simple: &Simple<'t>, state: &mut State<'t>) {
        if let Reading::Exact(shell) = self.reading {
            return self.simple_exactly(simple, state, shell);
        }
        for (name, elements) in &simple.arrays {
            let value = Value::List(expand::fields(elements, state));
            assign(name.text.trim_end_matches('='), value, state);
        }
        let Some(first) = simple.words.iter().find(|word| assignment(word).is_none()) else {
            for word in &simple.words {
                set(word, state);
            }
            return;
        };
        match first.text.as_ref() {
            "export" | "local" | "declare" | "typeset" | "readonly" => {
                for word in &simple.words {
                    set(word, state);
                }
            }
            "unset" => {
                for word in &simple.words {
                    let nothing = Word::plain("", word.raw.end);
                    state.values.entry(word.text.to_string()).and_modify(|value| {
                        *value = Rc::new(Value::Text(nothing));
                    });
                }
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for word in simple.words.iter().filter(|word| is_name(&word.text)) {
                    state.set(&word.text, Value::Open);
                }
            }
            // Another text may set anything.
            "." | "source" | "eval" => {
                for value in state.values.values_mut() {
                    *value = Rc::new(Value::Open);
                }
            }
            "exit" | "return" => state.has_ended = true,
            name => {
                if let Some(body) = self.functions.get(name).copied() {
                    self.call(name, body, state);
                } else {
                    let words = expand::fields(&simple.words, state);
                    self.budget = self.budget.saturating_sub(words.len());
                    self.found.push(Command { words });
                    state.has_ended |= name == "exec" && simple.words.len() > 1;
                }
            }
        }
    }

    fn simple_exactly(&mut self, simple: &Simple<'t>, state: &mut State<'t>, shell: Shell) {
        let assigns = |word: &Word<'t>| {
            let (name, appends) = assignment(word)?;
            let length = name.len() + 1 + usize::from(appends);
            // Quotes around the name make a command of it.
            let is_bare = self.text.get(word.raw.start..)?.starts_with(&word.text[..length]);
            (is_bare && (!appends || shell == Shell::Bash)).then_some(())
        };
        let count = simple.words.iter().take_while(|word| assigns(word).is_some()).count();
        let (prefix, rest) = simple.words.split_at(count);
        let Some(command) = rest.first() else {
            prefix.iter().for_each(|word| set(word, state));
            return;
        };
        if command.has_expansion {
            let text = &command.text;
            self.fault.get_or_insert(format!("which command '{text}' is, is not known"));
            return;
        }
        const CHANGING: [&str; 24] = [
            ".",
            "source",
            "eval",
            "read",
            "mapfile",
            "readarray",
            "getopts",
            "declare",
            "typeset",
            "local",
            "let",
            "set",
            "shift",
            "trap",
            "exec",
            "exit",
            "return",
            "alias",
            "command",
            "builtin",
            "shopt",
            "!",
            "coproc",
            "time",
        ];
        match command.text.as_ref() {
            "export" | "readonly" if prefix.is_empty() => {
                for word in &rest[1..] {
                    let is_split = word.expansions.iter().any(|expansion| !expansion.is_quoted);
                    match assignment(word) {
                        Some((name, _)) if is_split => state.set(name, Value::Open),
                        Some(_) if assigns(word).is_some() => set(word, state),
                        _ => {}
                    }
                }
            }
            "unset" if prefix.is_empty() => {
                for word in &rest[1..] {
                    state.values.remove(word.text.as_ref());
                }
            }
            name if CHANGING.contains(&name) => {
                self.fault.get_or_insert(format!("its command '{name}' may change any setting"));
            }
            ":" | "export" | "readonly" | "unset" if !prefix.is_empty() => {
                self.fault
                    .get_or_insert("an assignment stands before a command of the shell".into());
            }
            "printf" if rest.get(1).is_some_and(|word| word.text == "-v") => {
                self.fault.get_or_insert("its command 'printf -v' sets a variable".into());
            }
            _ => {}
        }
    }

    fn call(&mut self, name: &str, body: &'a List<'t>, state: &mut State<'t>) {
        self.called.insert(name.to_owned());
        if self.calls >= MAX_CALLS {
            return;
        }
        self.calls += 1;
        self.list(body, state);
        state.has_ended = false;
        self.calls -= 1;
    }
}

/// `NAME` and whether it appends, if the word assigns.
fn assignment<'w>(word: &'w Word<'_>) -> Option<(&'w str, bool)> {
    let (name, _) = word.text.split_once('=')?;
    let appends = name.ends_with('+');
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name).then_some((name, appends))
}

fn set<'t>(word: &Word<'t>, state: &mut State<'t>) {
    let Some((name, appends)) = assignment(word) else { return };
    let from = name.len() + 1 + usize::from(appends);
    let value = expand::joined(&word.tail(from), state);
    let target = if appends { format!("{name}+") } else { name.to_owned() };
    assign(&target, Value::Text(value), state);
}

/// `NAME`, or `NAME+` to append.
fn assign<'t>(target: &str, value: Value<'t>, state: &mut State<'t>) {
    let Some(name) = target.strip_suffix('+') else { return state.set(target, value) };
    let length = state.values.get(name).map_or(0, |known| known.length());
    if !state.room.take(length) {
        return state.set(name, Value::Open);
    }
    let joined = match (state.values.get(name).map(Rc::as_ref), value) {
        (None, value) => value,
        (Some(Value::List(list)), Value::List(more)) => {
            Value::List(list.iter().cloned().chain(more).collect())
        }
        (Some(Value::Text(text)), Value::Text(more)) => {
            Value::Text(expand::concatenated(text, &more))
        }
        (Some(Value::Text(text)), Value::List(more)) => {
            Value::List(std::iter::once(text.clone()).chain(more).collect())
        }
        _ => Value::Open,
    };
    state.set(name, joined);
}

/// Every name that a list may assign.
fn assigned(list: &List<'_>, names: &mut BTreeSet<String>) {
    for Item { node, .. } in list {
        match node {
            Node::Simple(simple) => {
                names.extend(
                    simple.words.iter().filter_map(|word| Some(assignment(word)?.0.to_owned())),
                );
                names.extend(
                    simple
                        .arrays
                        .iter()
                        .map(|(name, _)| name.text.trim_end_matches(['=', '+']).to_owned()),
                );
            }
            Node::If { branches, otherwise } => {
                for (condition, body) in branches {
                    assigned(condition, names);
                    assigned(body, names);
                }
                otherwise.iter().for_each(|body| assigned(body, names));
            }
            Node::Loop { variable, head, body } => {
                names.extend(variable.iter().map(|(name, _)| name.clone()));
                assigned(head, names);
                assigned(body, names);
            }
            Node::Case { arms, .. } => arms.iter().for_each(|arm| assigned(arm, names)),
            Node::Group(list) => assigned(list, names),
            Node::Subshell(_) | Node::Function { .. } => {}
        }
    }
}
