//! The same rules a second time, written for plainness instead of speed, to compare with.

/// The normal form of a path; `None` when it is refused.
pub fn normalised_path(path: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(path).ok()?;
    if !text.starts_with('/') || !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#') {
        return None;
    }
    let mut pieces = text.split('%');
    let mut decoded = pieces.next()?.to_owned();
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        match u8::from_str_radix(digits, 16).ok()? {
            0 => return None,
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => decoded.push(byte as char),
            byte => decoded.push_str(&format!("%{byte:02X}")),
        }
        decoded.push_str(&piece[2..]);
    }
    for raw in "\"<>[\\]^`{|}".chars() {
        decoded = decoded.replace(raw, &format!("%{:02X}", raw as u32));
    }
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = decoded[1..].split('/').collect();
    let is_dotted = |segment: &&str| [".;", "..;", ".%3B", "..%3B"].iter().any(|start| segment.starts_with(start));
    if segments.iter().any(is_dotted) {
        return None;
    }
    for (place, segment) in segments.iter().enumerate() {
        let is_last = place + 1 == segments.len();
        match *segment {
            "." => {}
            ".." => drop(kept.pop()?),
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    Some(format!("/{}", kept.join("/")).into_bytes())
}

/// Payload and length of a chunked body; `None` when it is malformed or not complete.
pub fn chunked(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut rest = input;
    let mut payload = Vec::new();
    loop {
        let line = line(&mut rest)?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits == 0 || digits > 15 || !is_extension_list(&line[digits..]) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        payload.extend_from_slice(rest.get(..size)?);
        rest = rest[size..].strip_prefix(b"\r\n")?;
    }
    loop {
        let line = line(&mut rest)?;
        if line.is_empty() {
            return Some((payload, input.len() - rest.len()));
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        let is_value = value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control());
        if !is_token(name) || !is_value {
            return None;
        }
    }
}

/// What stands before the next CR LF.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}

fn is_extension_list(text: &[u8]) -> bool {
    if text.is_empty() {
        return true;
    }
    let Some(rest) = without_blanks(text).strip_prefix(b";").map(without_blanks) else { return false };
    let name_len = token_len(rest);
    let after_name = &rest[name_len..];
    if name_len == 0 {
        return false;
    }
    match without_blanks(after_name).strip_prefix(b"=").map(without_blanks) {
        None => is_extension_list(after_name),
        Some(value) if value.starts_with(b"\"") => {
            let mut at = 1;
            while at < value.len() && value[at] != b'"' {
                at += if value[at] == b'\\' { 2 } else { 1 };
            }
            let quoted = value.get(..at).unwrap_or_default();
            let is_text = quoted.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control());
            at < value.len() && is_text && is_extension_list(&value[at + 1..])
        }
        Some(value) => token_len(value) > 0 && is_extension_list(&value[token_len(value)..]),
    }
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[blanks..]
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && token_len(text) == text.len()
}

fn token_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)).count()
}
