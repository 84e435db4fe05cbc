//! Rust cut into words and signs, without comments, texts and tests: what checks of names read.

/// Items that end with a brace.
const BODIES: [&str; 7] = ["mod", "fn", "impl", "struct", "enum", "trait", "macro_rules"];

/// A word or a sign, and its line from 0 on. `::` is one sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    pub text: &'t str,
    pub line: usize,
}

impl Token<'_> {
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The tokens of a file that are neither in a comment nor in a text nor in a test.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    without_tests(&all(text))
}

fn all(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = literal(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let length = length.unwrap_or(rest.len());
            tokens.push(Token { text: &rest[..length], line });
            length
        } else if rest.starts_with("::") {
            tokens.push(Token { text: "::", line });
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(Token { text: &rest[..first.len_utf8()], line });
            }
            first.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a text, a raw one or a character, if that is what comes.
fn literal(text: &str) -> Option<usize> {
    let body = text.strip_prefix('b').unwrap_or(text);
    let before = text.len() - body.len();
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inside = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = inside.find(&end).map_or(inside.len(), |length| length + end.len());
        return Some(before + 1 + hashes + 1 + length);
    }
    let quote = body.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let inside = &body[1..];
    // 'a is a lifetime, 'a' a character.
    let mut characters = inside.chars();
    if quote == '\'' && characters.next()? != '\\' && characters.next() != Some('\'') {
        return (before == 0).then_some(1);
    }
    let mut is_escaped = false;
    let end = inside.find(|c: char| {
        let ends = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    Some(before + 1 + end.map_or(inside.len(), |length| length + 1))
}

/// Leaves out what follows `#[cfg(test)]` or `#[test]`: up to its semicolon, or its last brace.
fn without_tests<'t>(tokens: &[Token<'t>]) -> Vec<Token<'t>> {
    let mut left = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let is = |words: &[&str]| {
            let there = tokens[at..].iter().map(|token| token.text);
            there.take(words.len()).eq(words.iter().copied())
        };
        if is(&["#", "[", "cfg", "(", "test", ")", "]"]) || is(&["#", "[", "test", "]"]) {
            at = end_of_item(tokens, at);
        } else {
            left.push(*token);
            at += 1;
        }
    }
    left
}

/// What has a body ends with its brace, anything else with a semicolon.
fn end_of_item(tokens: &[Token<'_>], from: usize) -> usize {
    let mut depth = 0;
    let mut has_body = false;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            text => has_body |= depth == 0 && BODIES.contains(&text),
        }
        if depth == 0 && (token.text == ";" || token.text == "}" && has_body) {
            return at + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_texts_and_tests_are_no_tokens() {
        for (text, expected) in [
            ("use a::b; // c", "use a :: b ;"),
            ("a /* b /* c */ d */ e", "a e"),
            ("f(\"a \\\" b\", 'c', '\\'', 'd)", "f ( , , , d )"),
            ("r#\"a \" b\"# b\"c\" br\"d\" e", "e"),
            ("a #[cfg(test)] mod tests { fn f() { { } } } b", "a b"),
            ("#[cfg(test)] use a::{b, c}; d #[test] fn f() {} e", "d e"),
            ("#[cfg(test)] const A: B = B { c: [1; 2] }; d", "d"),
        ] {
            let found: Vec<&str> = tokens(text).iter().map(|token| token.text).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
        assert_eq!(tokens("a\n\"\n\"\nb")[1].line, 3);
    }
}
