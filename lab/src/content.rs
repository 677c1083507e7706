//! The pages that the upstream answers and the generator expects, byte for byte.
//! Both sides compute them from the same rule, so that the generator can compare whole bodies without ever having asked for them.

/// What is served and checked at one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Hello11B,
    Html2K,
    Html100K,
    Html1M,
}

impl Page {
    pub const ALL: [Page; 4] = [Page::Hello11B, Page::Html2K, Page::Html100K, Page::Html1M];

    pub fn from_path(path: &[u8]) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.path().as_bytes() == path)
    }

    pub fn path(self) -> &'static str {
        match self {
            Page::Hello11B => "/11b",
            Page::Html2K => "/2k",
            Page::Html100K => "/100k",
            Page::Html1M => "/1m",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Page::Hello11B => "text/plain",
            Page::Html2K | Page::Html100K | Page::Html1M => "text/html; charset=utf-8",
        }
    }

    pub fn body(self) -> Vec<u8> {
        match self {
            Page::Hello11B => b"hello world".to_vec(),
            Page::Html2K => html(2 * 1024),
            Page::Html100K => html(100 * 1024),
            Page::Html1M => html(1024 * 1024),
        }
    }
}

/// Text whose every line differs, so that a body with a piece lost, doubled or moved never compares equal.
fn html(bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "tide", "gate", "harbour", "lock", "quay", "pilot", "buoy", "channel", "current", "mooring", "lantern", "keel", "sluice",
        "estuary", "ebb", "flood",
    ];
    const END: &str = "</body></html>\n";
    let mut text = String::with_capacity(bytes + 256);
    text.push_str("<!doctype html>\n<html><head><title>A page of the benchmark</title></head><body>\n");
    let mut state: u32 = 0x2545_f491;
    let mut line = 0;
    while text.len() + END.len() < bytes {
        text.push_str(&format!("<p id=\"{line}\">"));
        for _ in 0..9 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(WORDS[(state >> 28) as usize]);
            text.push(' ');
        }
        text.push_str("</p>\n");
        line += 1;
    }
    text.truncate(bytes - END.len());
    text.push_str(END);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_its_named_size_and_is_found_by_its_path() {
        for (page, bytes) in [(Page::Hello11B, 11), (Page::Html2K, 2048), (Page::Html100K, 102_400), (Page::Html1M, 1_048_576)] {
            assert_eq!(page.body().len(), bytes, "{page:?}");
            assert_eq!(Page::from_path(page.path().as_bytes()), Some(page));
        }
        assert_eq!(Page::from_path(b"/2"), None);
    }

    #[test]
    fn no_two_lines_of_a_page_are_equal() {
        let body = Page::Html100K.body();
        let text = std::str::from_utf8(&body).unwrap();
        let lines: std::collections::HashSet<_> = text.lines().collect();
        assert_eq!(lines.len(), text.lines().count());
    }
}
