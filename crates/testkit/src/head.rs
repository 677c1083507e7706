//! A message head as the tests see it: a start line and fields in the order received.

/// A head as received. For HTTP/2 the pseudo-headers are fields and `start` is empty.
#[derive(Debug, Clone, Default)]
pub struct Head {
    pub start: String,
    pub fields: Vec<(String, Vec<u8>)>,
}

impl Head {
    /// All values of a name, joined as one field.
    pub fn value(&self, name: &str) -> Option<Vec<u8>> {
        let values: Vec<&[u8]> =
            self.fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice()).collect();
        if values.is_empty() { None } else { Some(values.join(b", ".as_slice())) }
    }

    pub fn status(&self) -> Option<u16> {
        match self.value(":status") {
            Some(value) => String::from_utf8_lossy(&value).parse().ok(),
            None => self.start.split(' ').nth(1)?.parse().ok(),
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.start.is_empty() {
            text.push_str(&format!("{}\n", self.start));
        }
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value)));
        }
        text
    }
}
