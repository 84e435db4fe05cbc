//! GRUB's defaults: /etc/default/grub, then the files of grub.d in order, as grub-mkconfig sources
//! them.

use super::{Arguments, Planned};
use crate::configuration::settings::{Outcome, Wanted, change};
use crate::enable::Action;
use reading::Facts;

/// The main file.
pub const DEFAULTS: &str = "/etc/default/grub";

/// Variables of the kernel command line, the one for ordinary boots first.
pub const VARIABLES: [&str; 2] = ["GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"];

/// Files that change, as actions; or why none can be, in words for the operator.
pub fn edit(
    facts: &Facts,
    planned: &mut Planned,
    arguments: &Arguments,
) -> Result<Vec<Action>, String> {
    let is_one = |path: &str| {
        path == DEFAULTS || path.starts_with("/etc/default/grub.d/") && path.ends_with(".cfg")
    };
    let mut files: Vec<(&str, String)> = facts
        .boot
        .files
        .iter()
        .filter(|file| is_one(&file.path))
        .map(|file| {
            let text = planned.get(&file.path).unwrap_or(&file.text);
            (file.path.as_str(), text.clone())
        })
        .collect();
    if files.is_empty() {
        return Ok(vec![]);
    }
    files.sort_by_key(|(path, _)| (*path != DEFAULTS, path.to_string()));
    let texts: Vec<&str> = files.iter().map(|(_, text)| text.as_str()).collect();
    let (add, remove) = (arguments.add(), arguments.remove());
    let wanted = Wanted { variables: &VARIABLES, add: &add, remove: &remove };
    let changed = match change(&texts, &wanted) {
        Outcome::Same => return Ok(vec![]),
        Outcome::Changed(changed) => changed,
        Outcome::Refused(why) => {
            let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
            return Err(format!("{} left as it is, because {why}", paths.join(" and ")));
        }
    };
    let actions = changed.into_iter().filter_map(|(index, after)| {
        let (path, before) = files.get(index)?;
        planned.insert((*path).to_owned(), after.clone());
        Some(Action::Write { path: (*path).to_owned(), before: Some(before.clone()), after })
    });
    Ok(actions.collect())
}
