//! One line of an answer's head: a field, or the empty line that ends it.
//! What the fields mean together is settled in `answer`.

use super::{AnswerError, Field, HEAD_BYTES_MAX, Status};

/// Places in a head fit the sixteen bits that they are kept in.
const _: () = assert!(HEAD_BYTES_MAX <= u16::MAX as usize);

pub enum Line {
    Empty,
    Field(Field),
}

/// The line from `start` to the end of `bytes`, which ends in LF or CR LF.
pub fn parse(bytes: &[u8], start: usize) -> Result<Line, AnswerError> {
    let line = &bytes[start..];
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Ok(Line::Empty);
    }
    let name_len = line.iter().position(|byte| !is_token(*byte)).unwrap_or(line.len());
    if name_len == 0 || line.get(name_len) != Some(&b':') {
        return Err(AnswerError::BadFieldName);
    }
    let after_colon = &line[name_len + 1..];
    if !after_colon.iter().all(|byte| is_value_byte(*byte)) {
        return Err(AnswerError::BadFieldValue);
    }
    let leading = after_colon.iter().position(|byte| !is_blank(*byte)).unwrap_or(after_colon.len());
    let trailing = after_colon[leading..].iter().rev().position(|byte| !is_blank(*byte)).unwrap_or(0);
    let value_start = start + name_len + 1 + leading;
    let value_end = start + line.len() - trailing;
    Ok(Line::Field(Field {
        start: start as u16,
        name_end: (start + name_len) as u16,
        value_start: value_start as u16,
        value_end: value_end as u16,
    }))
}

/// Three digits, then nothing or a space and a reason. No 1xx: an interim answer or a change of protocol would be no
/// answer to the request.
pub fn parse_status(bytes: &[u8], field: Field) -> Option<Status> {
    let value = &bytes[usize::from(field.value_start)..usize::from(field.value_end)];
    let (digits, reason) = value.split_first_chunk::<3>()?;
    if !digits.iter().all(u8::is_ascii_digit) || !(reason.is_empty() || is_blank(reason[0])) {
        return None;
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    let leading = reason.iter().position(|byte| !is_blank(*byte)).unwrap_or(reason.len());
    let reason_start = field.value_start + 3 + leading as u16;
    (code >= 200).then_some(Status { code, reason_start, reason_end: field.value_end })
}

/// Digits and nothing else (RFC 9110 section 8.6).
pub fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |length, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        length.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// RFC 9110 section 5.5: HTAB, SP, visible ASCII and everything above 0x7f.
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
