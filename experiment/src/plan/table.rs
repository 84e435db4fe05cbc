//! A table of a plan file as it was read, each value with its line.

use super::fault::{Fault, nearest};
use super::keys::{Kind, Table};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What was read so far, and what was wrong with it.
pub(super) struct Reader<'t> {
    text: &'t str,
    pub(super) faults: Vec<Fault>,
}

/// A table with a line for each value.
#[derive(Clone, Debug)]
pub(super) struct Read<'t> {
    /// Where it begins.
    pub(super) line: usize,
    values: BTreeMap<String, (usize, DeValue<'t>)>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, faults: Vec::new() }
    }

    fn line_at(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().iter().take(offset);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    pub(super) fn fault(
        &mut self,
        line: usize,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.faults.push(Fault { line, cause: cause.into(), remedy: remedy.into() });
    }

    /// The whole file; None if it is not TOML.
    pub(super) fn root(&mut self, table: &Table) -> Option<Read<'t>> {
        match DeTable::parse(self.text) {
            Ok(root) => Some(self.table(root.into_inner(), 1, table)),
            Err(error) => {
                let line = self.line_at(error.span().map_or(0, |span| span.start));
                self.fault(
                    line,
                    error.message().to_lowercase().trim_end().replace('\n', ", "),
                    "this is not TOML; texts stand in quotation marks, tables in brackets",
                );
                None
            }
        }
    }

    /// Refuses keys that are not known and values of the wrong kind, and asks for what is missing.
    fn table(&mut self, read: DeTable<'t>, line: usize, table: &Table) -> Read<'t> {
        let mut values = BTreeMap::new();
        for (name, value) in read {
            let line = self.line_at(name.span().start);
            let name = name.into_inner().into_owned();
            let Some(key) = table.key(&name) else {
                let known = table.names();
                let remedy = match nearest(&name, &known) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("known are {}", known.join(", ")),
                };
                self.fault(line, format!("[{}] has no key {name:?}", table.name), remedy);
                continue;
            };
            let value_line = self.line_at(value.span().start);
            if fits(key.kind, value.get_ref()) {
                values.insert(name, (value_line, value.into_inner()));
            } else {
                let cause = format!("{name} is {}", value.get_ref().type_str());
                self.fault(line, cause, format!("it must be {}", key.kind.words()));
            }
        }
        let missing = table.keys.iter().filter(|key| key.is_required);
        for key in missing.filter(|key| !values.contains_key(key.name)) {
            let is_at_fault =
                self.faults.iter().any(|one| one.cause.starts_with(&format!("{} is ", key.name)));
            if !is_at_fault {
                let cause = format!("[{}] lacks {}", table.name, key.name);
                self.fault(line, cause, format!("add it: {}; {}", key.about, key.kind.words()));
            }
        }
        Read { line, values }
    }

    /// A table below a key.
    pub(super) fn below(&mut self, read: &Read<'t>, name: &str, table: &Table) -> Option<Read<'t>> {
        match read.values.get(name)? {
            (line, DeValue::Table(inner)) => Some(self.table(inner.clone(), *line, table)),
            _ => None,
        }
    }

    /// All tables below a key.
    pub(super) fn each(&mut self, read: &Read<'t>, name: &str, table: &Table) -> Vec<Read<'t>> {
        let Some((_, DeValue::Array(inner))) = read.values.get(name) else { return Vec::new() };
        let tables: Vec<(usize, DeTable<'t>)> = inner
            .iter()
            .filter_map(|one| {
                Some((self.line_at(one.span().start), one.get_ref().as_table()?.clone()))
            })
            .collect();
        tables.into_iter().map(|(line, one)| self.table(one, line, table)).collect()
    }
}

impl Read<'_> {
    /// Where a key's value stands, or else the table.
    pub(super) fn line_of(&self, name: &str) -> usize {
        self.values.get(name).map_or(self.line, |(line, _)| *line)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        Some(self.values.get(name)?.1.as_str()?.to_owned())
    }

    pub(super) fn integer(&self, name: &str) -> Option<u64> {
        integer(&self.values.get(name)?.1)
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        number(&self.values.get(name)?.1)
    }

    pub(super) fn truth(&self, name: &str) -> Option<bool> {
        self.values.get(name)?.1.as_bool()
    }

    /// A text, number or truth as text.
    pub(super) fn scalar(&self, name: &str) -> Option<String> {
        scalar(&self.values.get(name)?.1)
    }

    pub(super) fn list(&self, name: &str) -> Option<Vec<String>> {
        let (_, DeValue::Array(items)) = self.values.get(name)? else { return None };
        Some(items.iter().filter_map(|one| scalar(one.get_ref())).collect())
    }

    pub(super) fn free(&self, name: &str) -> BTreeMap<String, String> {
        let Some((_, DeValue::Table(members))) = self.values.get(name) else {
            return BTreeMap::new();
        };
        let member = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let key: &std::borrow::Cow<'_, str> = key.get_ref();
            Some((key.clone().into_owned(), scalar(value.get_ref())?))
        };
        members.iter().filter_map(member).collect()
    }
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let DeValue::Integer(number) = value else { return None };
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => number.as_str().parse().ok().filter(|one: &f64| one.is_finite()),
        DeValue::Integer(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Integer(_) => integer(value).map(|one| one.to_string()),
        DeValue::Float(_) => number(value).map(|one| one.to_string()),
        _ => None,
    }
}

fn fits(kind: Kind, value: &DeValue<'_>) -> bool {
    let all = |fits: &dyn Fn(&DeValue<'_>) -> bool| {
        value.as_array().is_some_and(|items| items.iter().all(|one| fits(one.get_ref())))
    };
    match kind {
        Kind::Text => value.is_str(),
        Kind::Integer => integer(value).is_some(),
        Kind::Number => number(value).is_some(),
        Kind::Truth => value.is_bool(),
        Kind::Texts => all(&|one| one.is_str()),
        Kind::Integers => all(&|one| integer(one).is_some()),
        Kind::Levels => all(&|one| scalar(one).is_some() && !one.is_float()),
        Kind::Scalar => scalar(value).is_some(),
        Kind::Free => {
            let members = value.as_table();
            members.is_some_and(|all| all.values().all(|one| scalar(one.get_ref()).is_some()))
        }
        Kind::OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        Kind::Table(_) => value.is_table(),
        Kind::Tables(_) => all(&|one| one.is_table()),
    }
}

impl Read<'_> {
    /// Lines of the table and its values, for faults that are found later.
    pub(super) fn clone_lines(&self) -> super::check::LinesOf {
        let keys = self.values.iter().map(|(name, (line, _))| (name.clone(), *line));
        super::check::LinesOf { line: self.line, keys: keys.collect() }
    }
}
