//! Histograms of events, as the kernel prints them.

/// A line of a histogram: what it is of, how often, and sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    keys: Vec<(String, String)>,
    values: Vec<(String, u64)>,
}

impl Entry {
    /// The text of a key, such as `96` or `~ 2^12`.
    pub fn key(&self, name: &str) -> Option<&str> {
        self.keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A key that is a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.key(name)?.parse().ok()
    }

    /// The sum of a field, or `hitcount`.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(value, _)| value == name).map(|(_, value)| *value)
    }
}

/// The lines of a `hist` file, such as
/// `{ thread: 7, reason: 96, ns: ~ 2^12 } hitcount: 5 ns: 12345`, in any spacing and order. An
/// event may have several histograms, one behind the other.
pub fn histogram(text: &str) -> Vec<Entry> {
    text.lines().filter_map(entry).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let (keys, values) = line.trim_start().strip_prefix('{')?.split_once('}')?;
    let pair = |pair: &str| {
        let (name, value) = pair.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let words: Vec<&str> = values.split_whitespace().collect();
    let named = |pair: &[&str]| {
        let name = pair[0].strip_suffix(':')?;
        Some((name.to_owned(), pair[1].parse().ok()?))
    };
    Some(Entry {
        keys: keys.split(',').filter_map(pair).collect(),
        values: words.windows(2).filter_map(named).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_keys_and_values_in_any_spacing() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=exit_reason [active]\n#\n\n\
            { exit_reason:        101 } hitcount:          1\n\
            { thread:   7, reason:   96, ns: ~ 2^12          } hitcount:  5  ns:      15000\n\
            \nTotals:\n    Hits: 4085\n    Entries: 2\n";
        let entries = histogram(text);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].number("exit_reason"), Some(101u64));
        assert_eq!(entries[0].number::<u64>("reason"), None);
        assert_eq!(entries[0].value("hitcount"), Some(1));
        assert_eq!((entries[1].key("ns"), entries[1].value("ns")), (Some("~ 2^12"), Some(15_000)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[{}:, a-z0-9\n]{0,200}") {
            histogram(&text);
        }
    }
}
