//! Ceilings that only fall: what a figure of the code is, it may not exceed again.

use super::source::File;
use std::collections::BTreeMap;
use toml::Table;

const FILE: &str = "xtask/ceilings.toml";

/// A figure of the code: its section and key in the file, its value, and what stands behind it.
#[derive(Clone, Debug)]
pub struct Figure {
    pub section: &'static str,
    pub key: String,
    pub value: usize,
    /// What it may be without a ceiling of its own.
    pub limit: usize,
    pub what: String,
}

/// Figures against the file. One below its ceiling asks for a lower one, so that nobody climbs back
/// up.
pub fn check(files: &[File], figures: &[Figure], problems: &mut Vec<String>) {
    let text = files.iter().find(|file| file.path == FILE).map_or("", |file| &file.text);
    let sections: BTreeMap<String, Table> = match toml::from_str(text) {
        Ok(sections) => sections,
        Err(error) => return problems.push(format!("{FILE}: {error}")),
    };
    let ceiling = |section: &str, key: &str| sections.get(section)?.get(key)?.as_integer();
    for Figure { section, key, value, limit, what } in figures {
        let ceiling = ceiling(section, key).and_then(|most| usize::try_from(most).ok());
        let most = ceiling.unwrap_or(*limit);
        if *value > most {
            problems.push(format!("{key}: {value} {section}, at most {most}: {what}"));
        }
    }
    for (section, table) in &sections {
        for (key, most) in table {
            let found = figures.iter().find(|one| one.section == section && one.key == *key);
            let (value, limit) = found.map_or((0, 0), |one| (one.value, one.limit));
            let most = most.as_integer().and_then(|most| usize::try_from(most).ok());
            let problem = match most {
                None => "is not a number",
                Some(_) if value <= limit => "is not needed any more",
                Some(most) if most > value => "can fall",
                Some(_) => continue,
            };
            problems.push(format!("{FILE}: {section}, {key}: {problem}: there are {value}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn a_figure_above_its_ceiling_and_a_ceiling_above_its_figure_are_problems() {
        for (ceiling, value, expected) in [
            ("[circle]\na = 3\n", 3, 0),
            ("[circle]\na = 3\n", 4, 1),
            ("[circle]\na = 3\n", 2, 1),
            ("[circle]\na = 3\n", 1, 1),
            ("[circle]\na = \"three\"\n", 3, 2),
            ("", 1, 0),
            ("", 2, 1),
            ("[circle]\nb = 3\n", 1, 1),
            ("circle = 3\n", 1, 1),
        ] {
            let figure =
                Figure { section: "circle", key: "a".into(), value, limit: 1, what: String::new() };
            let mut problems = vec![];
            check(&[file(FILE, ceiling)], &[figure], &mut problems);
            assert_eq!(problems.len(), expected, "{ceiling:?} {value}: {problems:?}");
        }
    }
}
