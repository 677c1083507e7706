//! The paths of `try=`: what is looked for in place of the path that a request has. Which of them is there is found in
//! `root`.

use crate::path::{FilePath, SEGMENTS_MAX, is_hidden, is_servable};
use tidegate_model::Files;

/// One path, taken apart where the request's is put in.
#[derive(Debug)]
pub(crate) struct Try {
    pieces: Vec<Vec<u8>>,
}

impl Try {
    pub fn new(written: &str) -> Try {
        Try { pieces: written.split(Files::PATH).map(|piece| piece.as_bytes().to_vec()).collect() }
    }

    /// The path for a request; None where it names what nobody may have, or nothing. The request's own path was decoded
    /// and looked at before.
    pub fn of(&self, path: &FilePath, hidden: bool) -> Option<FilePath> {
        let own = if path.relative == b"." { &b""[..] } else { &path.relative };
        let slash: &[u8] = if path.ends_with_slash && !own.is_empty() { b"/" } else { b"" };
        let own = [b"/", own, slash].concat();
        let text = self.pieces.join(&own[..]);
        let names: Vec<&[u8]> = text.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let may_be_had = |name: &&[u8]| is_servable(name) && (hidden || !is_hidden(name));
        if names.len() > SEGMENTS_MAX || !names.iter().all(may_be_had) {
            return None;
        }
        let relative = if names.is_empty() { b".".to_vec() } else { names.join(&b'/') };
        Some(FilePath { relative, ends_with_slash: text.ends_with(b"/"), is_hidden: false })
    }
}

#[cfg(test)]
mod tests {
    use super::Try;
    use crate::path::parse;

    #[test]
    fn paths_are_made_of_the_one_that_was_asked_for() {
        let check = |written: &str, path: &str, expected: Option<&str>| {
            let path = parse(path.as_bytes()).expect("a path");
            let found = Try::new(written).of(&path, false).map(|found| {
                format!("{}{}", String::from_utf8_lossy(&found.relative), if found.ends_with_slash { "/" } else { "" })
            });
            assert_eq!(found.as_deref(), expected, "{written}");
        };
        check("{path}", "/a/b", Some("a/b"));
        check("{path}", "/a/b/", Some("a/b/"));
        check("{path}", "/", Some("./"));
        check("{path}.html", "/a/b", Some("a/b.html"));
        check("{path}.html", "/a%20b", Some("a b.html"));
        check("{path}/index.html", "/a/", Some("a/index.html"));
        check("{path}/index.html", "/", Some("index.html"));
        check("{path}/", "/a", Some("a/"));
        check("/pages{path}.html", "/a", Some("pages/a.html"));
        check("/index.html", "/a", Some("index.html"));
        // `/.html` and `/a/.html` are hidden.
        check("{path}.html", "/", None);
        check("{path}.html", "/a/", None);
    }
}
