//! The rules, a file each: what is true, why it matters, examples, sources, decision, fix.
//!
//! The folder is the list: the build script makes a module of each of its files, and all their
//! `RULE`s the table behind [`all`].

use super::rule::Rule;
use std::fmt::Write;

include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// All rules by identifier.
pub fn all() -> impl ExactSizeIterator<Item = &'static Rule> {
    RULES.iter().copied()
}

/// The rule of an identifier or name, whatever its case.
pub fn find(name: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id.eq_ignore_ascii_case(name) || rule.name.eq_ignore_ascii_case(name))
}

/// All rules on one page of Markdown.
pub fn page() -> String {
    let mut page = "# Rules of `avicenna lint`\n\nWhat `avicenna lint --explain RULE` prints, for all of them.\n\n\
                    | Rule | Severity | Vendors | |\n|---|---|---|---|\n"
        .to_owned();
    for Rule { id, name, severity, vendors, summary, .. } in all() {
        let vendors: Vec<_> = vendors.iter().map(|vendor| vendor.name()).collect();
        let (vendors, anchor) = (vendors.join(", "), id.to_lowercase());
        let _ = writeln!(
            page,
            "| [{id}](#{anchor}-{name}) {name} | {severity} | {vendors} | {summary} |"
        );
    }
    for rule in all() {
        page.push('\n');
        let mut is_code = false;
        for line in rule.page().lines() {
            is_code ^= line.starts_with("```");
            // One level deeper than on a page of its own.
            let sign = if line.starts_with('#') && !is_code { "#" } else { "" };
            let _ = writeln!(page, "{sign}{line}");
        }
    }
    page
}
