//! Bytes of others as text that does nothing to a terminal.

/// At most so many bytes of it, with what was left out as `…`.
pub fn readable(bytes: &[u8], bytes_max: usize) -> String {
    let text = String::from_utf8_lossy(bytes.get(..bytes_max).unwrap_or(bytes)).into_owned();
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    if bytes.len() > bytes_max {
        shown.push('…');
    }
    shown
}
