//! The configuration of kernelstub: JSON whose `user.kernel_options` are the words it gives.
//!
//! Its option `-d` leaves the other words in any order, and consoles depend on theirs. So the file
//! is changed in place and kernelstub, run without options, spreads it.

use super::Arguments;
use serde_json::Value;

/// Where it is; the tool makes it when it runs for the first time.
pub const PATH: &str = "/etc/kernelstub/configuration";

/// Whether words are kept in the form that is known here.
pub fn is_known(text: &str) -> bool {
    parse(text).is_some()
}

/// The configuration with arguments added and removed; `None` if nothing changes, or if its form
/// is not known.
pub fn change(text: &str, arguments: &Arguments) -> Option<String> {
    let (mut whole, given) = parse(text)?;
    let (add, remove) = (arguments.add(), arguments.remove());
    let kept = given.iter().map(String::as_str).filter(|word| !remove.contains(word));
    let missing = add.into_iter().filter(|word| !given.iter().any(|other| other == word));
    let words: Vec<String> = kept.chain(missing).map(String::from).collect();
    if words == given {
        return None;
    }
    let (start, end) = place(text)?;
    let lines: Vec<String> =
        words.iter().map(|word| format!("      {}", Value::from(word.as_str()))).collect();
    let list = format!("[\n{}\n    ]", lines.join(",\n"));
    let changed = format!("{}{list}{}", &text[..start], &text[end..]);
    // What was found by looking at the text has to be what the reader of JSON means.
    *whole.pointer_mut("/user/kernel_options")? = words.into();
    (serde_json::from_str::<Value>(&changed).ok()? == whole).then_some(changed)
}

fn parse(text: &str) -> Option<(Value, Vec<String>)> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let words = whole.pointer("/user/kernel_options")?.as_array()?;
    let words = words.iter().map(|word| word.as_str().map(String::from)).collect::<Option<_>>()?;
    Some((whole, words))
}

/// From the bracket that opens the list to behind the one that closes it.
fn place(text: &str) -> Option<(usize, usize)> {
    let user = text.find("\"user\"")?;
    let key = user + text[user..].find("\"kernel_options\"")?;
    let start = key + text[key..].find('[')?;
    let end = start + text[start..].find(']')? + 1;
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"default": {"kernel_options": ["quiet", "b=2"], "esp_path": "/boot/efi"},
  "user": {"live_mode": false, "kernel_options": ["quiet", "b=2", "console=tty0", "console=ttyS0"], "config_rev": 3}}"#;

    fn change_of(text: &str, add: &[&str], remove: &[&str]) -> Option<String> {
        change(text, &Arguments::new(add.iter().copied(), remove.iter().copied()))
    }

    #[test]
    fn the_users_words_change_and_keep_their_order() {
        let changed = change_of(TEXT, &["a=1", "quiet"], &["b=2"]).expect("a change");
        let (_, words) = parse(&changed).expect("JSON");
        assert_eq!(words, ["quiet", "console=tty0", "console=ttyS0", "a=1"]);
        assert!(changed.starts_with(&TEXT[..TEXT.find("\"user\"").unwrap_or(0)]), "{changed}");
        assert!(changed.ends_with(r#", "config_rev": 3}}"#), "{changed}");
        assert_eq!(change_of(&changed, &["a=1"], &["b=2"]), None);
    }

    #[test]
    fn a_form_that_is_not_known_is_left_alone() {
        for text in [
            "",
            "{}",
            r#"{"default": {"kernel_options": ["quiet"]}}"#,
            r#"{"user": {"kernel_options": "quiet b=2"}}"#,
            r#"{"user": {"kernel_options": ["quiet", 1]}}"#,
        ] {
            assert!(!is_known(text), "{text}");
            assert_eq!(change_of(text, &["a=1"], &["quiet"]), None, "{text}");
        }
        // A bracket in a word ends the list too early for the text, and so nothing is written.
        assert_eq!(change_of(r#"{"user": {"kernel_options": ["x=[1]", "y"]}}"#, &[], &["y"]), None);
    }
}
