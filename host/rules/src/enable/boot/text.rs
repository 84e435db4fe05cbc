//! Kernel command lines as files hold them: one line, GRUB's defaults, boot loader entries.

use super::Arguments;

/// A command line with the arguments added and removed; `None` if nothing changes.
fn change_words(line: &str, arguments: &Arguments) -> Option<String> {
    let (add, remove) = (arguments.add(), arguments.remove());
    let given: Vec<&str> = line.split_whitespace().collect();
    let missing: Vec<&str> = add.into_iter().filter(|word| !given.contains(word)).collect();
    if missing.is_empty() && !given.iter().any(|word| remove.contains(word)) {
        return None;
    }
    let kept = given.into_iter().filter(|word| !remove.contains(word));
    Some(kept.chain(missing).collect::<Vec<_>>().join(" "))
}

/// /etc/kernel/cmdline: one line.
pub fn change_line(text: &str, arguments: &Arguments) -> Option<String> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    change_words(line, arguments).map(|line| format!("{line}\n{rest}"))
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
        let body = line.trim_end_matches('\n');
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

/// Variables of GRUB's defaults, the one for ordinary boots first.
const VARIABLES: [&str; 2] = ["GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"];

/// The variable that new words go to, in the last of the files that assigns it: later files
/// override earlier ones.
pub fn place_for_words<'f>(files: &[(&'f str, String)]) -> Option<(&'f str, &'static str)> {
    VARIABLES.into_iter().find_map(|name| {
        let assigns = |text: &str| text.lines().any(|line| variable(line) == Some(name));
        let (path, _) = files.iter().rev().find(|(_, text)| assigns(text))?;
        Some((*path, name))
    })
}

/// One file of GRUB's defaults: words go from both variables, and are added to `adding_to`, where
/// it is assigned last.
pub fn change_defaults(
    text: &str,
    arguments: &Arguments,
    adding_to: Option<&str>,
) -> Option<String> {
    let last = text
        .lines()
        .enumerate()
        .filter(|(_, line)| adding_to.is_some() && variable(line) == adding_to)
        .map(|(index, _)| index)
        .last();
    let mut changed = false;
    let mut result = String::with_capacity(text.len() + 80);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let here = match Some(index) == last {
            true => arguments.clone(),
            false => Arguments::new([], arguments.remove()),
        };
        let is_ours = variable(line).is_some_and(|name| VARIABLES.contains(&name));
        let edited = is_ours.then(|| change_assignment(line, &here)).flatten();
        changed |= edited.is_some();
        result.push_str(edited.as_deref().unwrap_or(line));
    }
    changed.then_some(result)
}

/// The words inside the quotes of an assignment; what stands behind them stays.
fn change_assignment(line: &str, arguments: &Arguments) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let body = value.trim_end_matches('\n');
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''));
    let inner = match quote {
        Some(quote) => body[1..].split(quote).next()?,
        None => body,
    };
    let words = change_words(inner, arguments)?;
    let tail = body.get(inner.len() + if quote.is_some() { 2 } else { 0 }..).unwrap_or("");
    let quote = quote.unwrap_or('"');
    Some(format!("{key}={quote}{words}{quote}{tail}{}", &value[body.len()..]))
}

fn variable(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim_start();
    let name = name.strip_prefix("export ").unwrap_or(name);
    (!name.starts_with('#')).then(|| name.trim().trim_end_matches('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(add: &[&'static str], remove: &[&'static str]) -> Arguments {
        Arguments::new(add.iter().copied(), remove.iter().copied())
    }

    #[test]
    fn grub_defaults_change_in_place_and_keep_everything_else() {
        let text = "# comment\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\" # default\n\
                    GRUB_CMDLINE_LINUX='amd_iommu=off root=x'\n";
        let expected = "# comment\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash kvm_amd.avic=1\" \
                        # default\nGRUB_CMDLINE_LINUX='root=x'\n";
        let change = |text: &str, add: &[&'static str], remove: &[&'static str], to| {
            change_defaults(text, &arguments(add, remove), to)
        };
        let default = Some("GRUB_CMDLINE_LINUX_DEFAULT");
        assert_eq!(
            change(text, &["kvm_amd.avic=1"], &["amd_iommu=off"], default).as_deref(),
            Some(expected)
        );
        assert_eq!(change(text, &["quiet"], &["absent"], default), None);
        assert_eq!(
            change("GRUB_CMDLINE_LINUX=quiet\n", &["a=1"], &[], Some("GRUB_CMDLINE_LINUX"))
                .as_deref(),
            Some("GRUB_CMDLINE_LINUX=\"quiet a=1\"\n")
        );
    }

    #[test]
    fn words_go_to_the_file_that_counts() {
        let main = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n".to_owned();
        let cloud = "GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1\"\n".to_owned();
        let files =
            [("/etc/default/grub", main.clone()), ("/etc/default/grub.d/50-cloud.cfg", cloud)];
        let default = "GRUB_CMDLINE_LINUX_DEFAULT";
        assert_eq!(place_for_words(&files), Some(("/etc/default/grub.d/50-cloud.cfg", default)));
        assert_eq!(place_for_words(&files[..1]), Some(("/etc/default/grub", default)));
        assert_eq!(place_for_words(&[("/etc/default/grub", "GRUB_TIMEOUT=5".into())]), None);
        assert_eq!(change_defaults(&main, &arguments(&["a=1"], &[]), None), None);
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
