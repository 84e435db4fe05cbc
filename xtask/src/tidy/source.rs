//! What checks read: the project's text files.

/// A text file of the project.
#[derive(Clone, Debug)]
pub struct File {
    /// From the project's folder on, with slashes.
    pub path: String,
    pub text: String,
}

/// The text of a line of Rust that is all comment.
pub fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim())
}

#[cfg(test)]
pub fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}
