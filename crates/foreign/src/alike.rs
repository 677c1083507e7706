//! Words that proxies join differently: `max_body`, `max-body`, `maxBody`.

/// A word as it is compared with those of others, who join the same ones by `_`, `-` or a capital letter.
pub fn joined_alike(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).map(|c| c.to_ascii_lowercase()).collect()
}
