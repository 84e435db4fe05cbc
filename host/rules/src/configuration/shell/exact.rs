//! Where an expansion ends, told only where every shell agrees.

/// Nesting of substitutions that is followed.
const MAX_DEPTH: usize = 16;

const OPEN: &str = "an expansion is not closed";
const UNCLEAR: &str = "an expansion in it is not followed";

/// One past the end of the expansion that starts at `at` with a dollar sign or a backquote.
pub fn expansion_end(text: &str, at: usize) -> Result<usize, &'static str> {
    let bytes = text.as_bytes();
    let end = match (bytes[at], bytes.get(at + 1)) {
        (b'`', _) => backquoted(bytes, at + 1)?,
        (_, Some(b'{')) => braced(bytes, at + 2)?,
        (_, Some(b'(')) => parenthesized(bytes, at + 2, 0)?,
        // $'…' and $"…" are bash's.
        (_, Some(b'\'')) => closing(bytes, at + 2, b'\'')?,
        (_, Some(b'"')) => return Err(UNCLEAR),
        (_, Some(b'@' | b'*' | b'#' | b'?' | b'!' | b'$' | b'-' | b'0'..=b'9')) => at + 2,
        _ => {
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            at + 1 + bytes[at + 1..].iter().take_while(|byte| is_name(byte)).count()
        }
    };
    // An assignment hides in `${NAME:=…}`, `${NAME=…}` and `$((NAME=1))`.
    let body = &text[at..end];
    let name_end = |body: &str| {
        body.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(body.len())
    };
    if let Some(inner) = body.strip_prefix("${") {
        let rest = &inner[name_end(inner)..];
        if rest.starts_with('=') || rest.starts_with(":=") {
            return Err("an expansion in it assigns");
        }
    }
    if body.starts_with("$((") && body.contains('=') {
        return Err("an expansion in it assigns");
    }
    Ok(end)
}

fn closing(bytes: &[u8], from: usize, close: u8) -> Result<usize, &'static str> {
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            _ if byte == close => return Ok(at + 1),
            _ => {}
        }
        at += 1;
    }
    Err(OPEN)
}

fn backquoted(bytes: &[u8], from: usize) -> Result<usize, &'static str> {
    let end = closing(bytes, from, b'`')?;
    match bytes[from..end].contains(&b'\\') {
        true => Err(UNCLEAR),
        false => Ok(end),
    }
}

/// Quotes and backslashes inside braces are read differently within and without double quotes.
fn braced(bytes: &[u8], from: usize) -> Result<usize, &'static str> {
    let end = closing(bytes, from, b'}')?;
    let is_unclear = |byte: &u8| matches!(byte, b'\'' | b'"' | b'\\' | b'{' | b'`' | b'\n');
    let inner = &bytes[from..end - 1];
    if inner.iter().any(is_unclear) || inner.windows(2).any(|two| two == b"$(") {
        return Err(UNCLEAR);
    }
    Ok(end)
}

/// `$(…)`: quotes are their own inside, whatever stands around them.
fn parenthesized(bytes: &[u8], from: usize, depth: usize) -> Result<usize, &'static str> {
    if depth > MAX_DEPTH {
        return Err(UNCLEAR);
    }
    let mut at = from;
    let mut open = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\'' => {
                at += 1 + bytes[at + 1..].iter().position(|b| *b == b'\'').ok_or(OPEN)?;
            }
            b'"' => at = double_quoted(bytes, at + 1, depth)? - 1,
            b'`' => at = backquoted(bytes, at + 1)? - 1,
            b'(' => open += 1,
            b')' => {
                open -= 1;
                if open == 0 {
                    let inner = String::from_utf8_lossy(&bytes[from..at]);
                    let has_case = inner.split_whitespace().any(|word| word == "case");
                    return match has_case || inner.contains("<<") {
                        true => Err(UNCLEAR),
                        false => Ok(at + 1),
                    };
                }
            }
            b'#' if bytes[at - 1].is_ascii_whitespace() => return Err(UNCLEAR),
            _ => {}
        }
        at += 1;
    }
    Err(OPEN)
}

/// One past the closing quote.
fn double_quoted(bytes: &[u8], from: usize, depth: usize) -> Result<usize, &'static str> {
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => return Ok(at + 1),
            b'`' => at = backquoted(bytes, at + 1)? - 1,
            b'$' if bytes.get(at + 1) == Some(&b'(') => {
                at = parenthesized(bytes, at + 2, depth + 1)? - 1;
            }
            _ => {}
        }
        at += 1;
    }
    Err(OPEN)
}
