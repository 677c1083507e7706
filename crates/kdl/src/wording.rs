//! Names in a sentence of a message.

/// `a, b or c`
pub fn listed(names: &[&str], conjunction: &str) -> String {
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_string(),
        Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
    }
}
