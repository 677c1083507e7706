//! As much of XML as the answers of Route 53 need: the text within an element, and the elements of one name one after
//! the other. Names have neither prefixes nor attributes there, but for the root.

/// What is between `<name>` and `</name>`, of the first of them.
pub fn first<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    all(text, name).next()
}

/// Of all of them. Elements of one name do not nest in these answers.
pub fn all<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&open)?;
        let (inside, after) = after.split_once(&close)?;
        rest = after;
        Some(inside)
    })
}

pub fn unescaped(text: &str) -> String {
    // The ampersand last, or `&amp;lt;` would become `<`.
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{all, escaped, first, unescaped};

    #[test]
    fn elements_are_found_and_nothing_else() {
        let text = "<?xml version=\"1.0\"?><R xmlns=\"x\"><A><B>1</B></A><A><B>2</B></A><C/><D>&quot;a&amp;lt;b&quot;</D><E>cut";
        assert_eq!(all(text, "A").map(|a| first(a, "B")).collect::<Vec<_>>(), [Some("1"), Some("2")]);
        assert_eq!(first(text, "D").map(unescaped).as_deref(), Some("\"a&lt;b\""));
        assert_eq!((first(text, "C"), first(text, "E"), first("", "A")), (None, None, None));
        assert_eq!(unescaped(&escaped("<\"&\">")), "<\"&\">");
    }
}
