//! Objects in a stream of bytes: where one ends, before anybody reads it.

/// Bytes of one request.
const LONGEST: usize = 64 << 10;

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes from an opening brace to the one that closes it.
    Object(Vec<u8>),
    /// Something else, up to the end of its line.
    Garbage(String),
}

/// Takes bytes as they come.
#[derive(Default)]
pub struct Framer {
    bytes: Vec<u8>,
    depth: u32,
    is_in_string: bool,
    is_escaped: bool,
    is_garbage: bool,
}

impl Framer {
    /// All that is whole now.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Frame> {
        bytes.iter().filter_map(|byte| self.take_byte(*byte)).collect()
    }

    fn take_byte(&mut self, byte: u8) -> Option<Frame> {
        if self.is_garbage {
            self.is_garbage = byte != b'\n';
            let said = || Frame::Garbage("JSON parse error, expected an object".into());
            return (!self.is_garbage).then(said);
        }
        if self.depth == 0 {
            match byte {
                b'{' => {}
                b' ' | b'\t' | b'\r' | b'\n' => return None,
                _ => {
                    self.is_garbage = true;
                    return None;
                }
            }
        }
        self.bytes.push(byte);
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_in_string => self.is_escaped = true,
            b'"' => self.is_in_string = !self.is_in_string,
            b'{' if !self.is_in_string => self.depth += 1,
            b'}' if !self.is_in_string => self.depth -= 1,
            _ => {}
        }
        if self.depth == 0 {
            return Some(Frame::Object(std::mem::take(&mut self.bytes)));
        }
        if self.bytes.len() >= LONGEST {
            *self = Self { is_garbage: true, ..Self::default() };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Frame {
        Frame::Object(text.as_bytes().to_vec())
    }

    #[test]
    fn an_object_ends_with_its_own_brace_however_it_comes() {
        let text = r#" {"a": {"b": "}\"}{"}} {"c":1}{"d":2"#;
        let mut whole = Framer::default();
        let expected = [object(r#"{"a": {"b": "}\"}{"}}"#), object(r#"{"c":1}"#)];
        assert_eq!(whole.take(text.as_bytes()), expected);
        let mut by_bytes = Framer::default();
        let found: Vec<Frame> = text.bytes().flat_map(|byte| by_bytes.take(&[byte])).collect();
        assert_eq!(found, expected);
        assert_eq!(by_bytes.take(b"}"), [object(r#"{"d":2}"#)]);
    }

    #[test]
    fn what_is_no_object_or_too_long_is_dropped_to_the_end_of_its_line() {
        let mut framer = Framer::default();
        let garbage = |frames: &[Frame]| matches!(frames, [Frame::Garbage(_)]);
        assert!(garbage(&framer.take(b"[1, 2]\n")));
        assert!(garbage(&framer.take(b"}\n")));
        let long = vec![b'{'; 3 * LONGEST];
        assert_eq!(framer.take(&long), []);
        assert!(framer.bytes.is_empty());
        assert!(garbage(&framer.take(b"\n")));
        assert_eq!(framer.take(b"{}"), [object("{}")]);
    }
}
