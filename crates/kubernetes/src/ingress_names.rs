//! How the API has names of objects written: whoever reads a file has not asked it.

/// As the API bounds the length of names.
pub const NAME_BYTES_MAX: usize = 253;
pub const LABEL_BYTES_MAX: usize = 63;

/// As names of Services and of their ports are written (RFC 1123).
pub fn is_label(name: &str) -> bool {
    let is_of_it = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_of_it) && !name.starts_with('-') && !name.ends_with('-')
}

/// As names of Secrets are written.
pub fn is_object_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-');
    let is_of_it = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    name.len() <= NAME_BYTES_MAX && name.bytes().all(is_of_it) && name.split('.').all(is_part)
}
