//! The lines of a configuration, with their places.

/// One `key: value` line; offsets are of the source.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'t> {
    pub key: &'t str,
    pub value: &'t str,
    pub start: usize,
    pub value_start: usize,
}

impl Entry<'_> {
    pub fn end(&self) -> usize {
        self.value_start + self.value.len()
    }
}

/// The lines of the first section.
pub fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut start = 0;
    text.split_inclusive('\n')
        .map(move |line| {
            let at = start;
            start += line.len();
            (at, line.trim_end())
        })
        .take_while(|(_, line)| !line.starts_with('['))
        .filter_map(|(start, line)| {
            let (key, rest) = line.split_once(':')?;
            let is_key = !key.is_empty()
                && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
            let value = rest.trim_start();
            let value_start = start + line.len() - value.len();
            is_key.then_some(Entry { key, value, start, value_start })
        })
}
