//! Kernel command lines as files hold them: as they are, and in boot loader entries.

use super::Arguments;
use crate::configuration::dialect::module_options::words;
use std::ops::Range;

/// A command line with the arguments added and removed; `None` if nothing changes. Words are those
/// of the kernel: double quotes keep blanks together.
fn change_words(line: &str, arguments: &Arguments) -> Option<String> {
    let (add, remove) = (arguments.add(), arguments.remove());
    let given = words(line, 0);
    let is_given = |word: &str| given.iter().any(|range| &line[range.clone()] == word);
    let missing: Vec<&str> = add.into_iter().filter(|word| !is_given(word)).collect();
    let is_unwanted = |range: &&Range<usize>| remove.contains(&&line[(*range).clone()]);
    if missing.is_empty() && !given.iter().any(|range| is_unwanted(&range)) {
        return None;
    }
    let kept = given.iter().filter(|range| !is_unwanted(range)).map(|range| &line[range.clone()]);
    Some(kept.chain(missing).collect::<Vec<_>>().join(" "))
}

/// /etc/kernel/cmdline: new words go to its first line, unwanted ones leave all of them. Lines that
/// start with `#` are comments.
pub fn change_line(text: &str, arguments: &Arguments) -> Option<String> {
    let is_command = |line: &str| !line.trim_start().starts_with('#');
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = lines.iter().position(|line| is_command(line) && !line.trim().is_empty());
    let all: Vec<&str> = lines
        .iter()
        .filter(|line| is_command(line))
        .flat_map(|line| words(line, 0).into_iter().map(|range| &line[range]))
        .collect();
    let missing = arguments.add().into_iter().filter(|word| !all.contains(word));
    let here = Arguments::new(missing, arguments.remove());
    let mut result = String::with_capacity(text.len() + 80);
    for (index, line) in lines.iter().enumerate() {
        let wanted = match Some(index) == first {
            true => here.clone(),
            false => Arguments::new([], arguments.remove()),
        };
        let body = line.trim_end_matches(['\r', '\n']);
        match is_command(line).then(|| change_words(body, &wanted)).flatten() {
            Some(changed) => result.push_str(&format!("{changed}{}", &line[body.len()..])),
            None => result.push_str(line),
        }
    }
    if first.is_none() && !here.add().is_empty() {
        result = format!("{}\n{result}", here.add().join(" "));
    }
    (result != text).then_some(result)
}

/// A boot loader entry: its line `options`, or one more of them where there is none.
pub fn change_entry(text: &str, arguments: &Arguments) -> Option<String> {
    let options = |line: &str| line.split_whitespace().next() == Some("options");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let all: Vec<&str> = lines
        .iter()
        .filter(|line| options(line))
        .flat_map(|line| line.split_whitespace().skip(1))
        .collect();
    let missing = Arguments::new(
        arguments.add().into_iter().filter(|word| !all.contains(word)),
        arguments.remove(),
    );
    let last = lines.iter().rposition(|line| options(line));
    let mut changed = false;
    let mut result = String::with_capacity(text.len() + 80);
    for (index, line) in lines.iter().enumerate() {
        // New words go to the last of its lines.
        let here = match Some(index) == last {
            true => missing.clone(),
            false => Arguments::new([], arguments.remove()),
        };
        let body = line.trim_end_matches(['\r', '\n']);
        let edited = options(line)
            .then(|| change_words(body.trim_start().strip_prefix("options")?, &here))
            .flatten();
        match edited {
            Some(words) => {
                let start = body.len() - body.trim_start().len();
                result.push_str(&format!(
                    "{}options {words}{}",
                    &body[..start],
                    &line[body.len()..]
                ));
                changed = true;
            }
            None => result.push_str(line),
        }
    }
    if last.is_none() && !missing.add().is_empty() {
        if !result.is_empty() && !result.ends_with('\n') {
            result.push('\n');
        }
        result.push_str(&format!("options {}\n", missing.add().join(" ")));
        changed = true;
    }
    changed.then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(add: &[&'static str], remove: &[&'static str]) -> Arguments {
        Arguments::new(add.iter().copied(), remove.iter().copied())
    }

    #[test]
    fn cmdline_file_keeps_its_other_lines() {
        assert_eq!(
            change_line("root=x quiet\n# note\n", &arguments(&["a=1"], &["quiet"])).as_deref(),
            Some("root=x a=1\n# note\n")
        );
        assert_eq!(change_line("root=x", &arguments(&["root=x"], &[])), None);
    }

    #[test]
    fn entry_changes_its_options_and_nothing_else() {
        let entry = "title Linux\nlinux /vmlinuz\noptions root=x quiet\noptions amd_iommu=off\n";
        assert_eq!(
            change_entry(entry, &arguments(&["a=1", "quiet"], &["amd_iommu=off"])).as_deref(),
            Some("title Linux\nlinux /vmlinuz\noptions root=x quiet\noptions a=1\n")
        );
        assert_eq!(
            change_entry("linux /vmlinuz", &arguments(&["a=1"], &[])).as_deref(),
            Some("linux /vmlinuz\noptions a=1\n")
        );
        assert_eq!(change_entry(entry, &arguments(&["quiet"], &[])), None);
    }
}
