//! The rules, a file each: what is true, why it matters, examples, sources, decision, fix.
//!
//! The folder is the list: the build script makes a module of each of its files, and all their
//! `RULE`s the table behind [`all`].

use super::rule::Rule;

include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// All rules by identifier.
pub fn all() -> impl ExactSizeIterator<Item = &'static Rule> {
    RULES.iter().copied()
}

/// The rule of an identifier or name, whatever its case.
pub fn find(name: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id.eq_ignore_ascii_case(name) || rule.name.eq_ignore_ascii_case(name))
}
