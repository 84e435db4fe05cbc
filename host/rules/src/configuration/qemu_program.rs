//! Which word of a command starts a QEMU machine, and which only speaks of one.
//!
//! Scripts and build files name QEMU's programs to look for them, to install them or to ask them
//! for lists.

use super::qemu_arguments::{Invocation, option_name};
use super::shell::Word;

/// Whether a word is the name of a QEMU program.
fn is_qemu(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.trim_start_matches('.').trim_end_matches("-wrapped");
    if is_of_other_language(name) {
        return false;
    }
    matches!(name, "qemu" | "kvm" | "qemu-kvm" | "qemu-system") || name.starts_with("qemu-system-")
}

/// Whether a name is a string or an element of another language's list, read as a shell's word.
pub(super) fn is_of_other_language(name: &str) -> bool {
    name.contains(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')' | ']'))
}

/// Commands that speak of QEMU and do not start it.
const SPEAKING: [&str; 24] = [
    "[", "[[", "apk", "apt", "apt-get", "cargo", "cp", "dnf", "echo", "find", "git", "grep",
    "install", "killall", "ln", "ls", "make", "pgrep", "pkill", "printf", "rm", "test", "type",
    "which",
];

/// Commands and words of a shell behind which another command stands.
const RUNNING: [&str; 14] = [
    "time", "sudo", "doas", "env", "nohup", "setsid", "exec", "if", "then", "else", "elif",
    "while", "do", "!",
];

/// Whether the word at `index` is a QEMU that starts here: something for it has to follow.
pub(super) fn starts_machine(words: &[Word<'_>], index: usize) -> bool {
    let Some(text) = words.get(index).map(|word| word.text.as_ref()) else { return false };
    // Unit files put a key in front.
    let unit = text.strip_prefix("ExecStart=");
    let text = unit.unwrap_or(text);
    let is_name = is_qemu(text) && text != "/dev/kvm" && !text.contains(['*', '?']);
    let Some(next) = words.get(index + 1).filter(|_| is_name) else { return false };
    // Plain "kvm" and "qemu" are words of their own, and file names may follow a program only.
    let is_program = index == 0 || unit.is_some();
    let is_special = text.contains("qemu-system-") || text.starts_with('/');
    !is_spoken_of(words, index, is_special)
        && (option_name(next.text.as_ref()).is_some()
            || (next.has_expansion && (is_program || is_special))
            || (is_program && is_special))
}

/// Whether a program's name is only an argument here: behind a word that says so, or as the value
/// of an option such as `--features`, which one that cannot be anything else is not.
pub(super) fn is_spoken_of(words: &[Word<'_>], index: usize, is_special: bool) -> bool {
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_ref());
    let is_value = index > 0 && text(index - 1).starts_with("--") && text(index - 1) != "--";
    // What runs another command in its place stands in front of the one that counts.
    let is_before = |word: &str| {
        RUNNING.contains(&word) || word.starts_with('-') || word.split_once('=').is_some()
    };
    let first = (0..index).find(|at| !is_before(text(*at))).unwrap_or(index);
    SPEAKING.contains(&text(first))
        || (text(first) == "command" && text(first + 1).starts_with('-'))
        || (is_value && !is_special)
}

/// Whether QEMU is asked for a list or its version, and starts nothing.
pub(super) fn only_informs(found: &Invocation<'_>) -> bool {
    found.flags.iter().any(|flag| {
        matches!(flag.name.as_str(), "h" | "help" | "version" | "version-json")
            || flag.value.as_ref().is_some_and(|value| {
                let text = value.text.as_ref();
                matches!(text, "help" | "?") || text.ends_with("=help") || text.ends_with(",help")
            })
    })
}
