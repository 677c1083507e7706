//! The pages that the backend serves and the generator expects, byte for byte the same on both sides.
//! 2 KB and 100 KB are real HTML, since compression is measured on them; the other sizes are cut or joined from the
//! larger one.

use std::path::Path;

use serde::{Deserialize, Serialize};

const HELLO: &[u8] = b"hello world";
const PAGE_2K: &[u8] = include_bytes!("../content/page-2k.html");
const PAGE_100K: &[u8] = include_bytes!("../content/documentation-100k.html");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Page {
    /// `GET /` of E1.
    Root,
    Hello11B,
    Html1K,
    Html2K,
    Html10K,
    Html100K,
    Html1M,
    Html10M,
}

impl Page {
    pub const ALL: [Page; 8] =
        [Page::Root, Page::Hello11B, Page::Html1K, Page::Html2K, Page::Html10K, Page::Html100K, Page::Html1M, Page::Html10M];

    pub fn from_path(path: &[u8]) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.path().as_bytes() == path)
    }

    pub fn path(self) -> &'static str {
        match self {
            Page::Root => "/",
            Page::Hello11B => "/11b",
            Page::Html1K => "/1k",
            Page::Html2K => "/2k",
            Page::Html10K => "/10k",
            Page::Html100K => "/100k",
            Page::Html1M => "/1m",
            Page::Html10M => "/10m",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Page::Root | Page::Hello11B => "text/plain",
            Page::Html1K | Page::Html2K | Page::Html10K | Page::Html100K | Page::Html1M | Page::Html10M => {
                "text/html; charset=utf-8"
            }
        }
    }

    pub fn body(self) -> Vec<u8> {
        match self {
            Page::Root | Page::Hello11B => HELLO.to_vec(),
            Page::Html1K => PAGE_100K[..1024].to_vec(),
            Page::Html2K => PAGE_2K.to_vec(),
            Page::Html10K => PAGE_100K[..10 * 1024].to_vec(),
            Page::Html100K => PAGE_100K.to_vec(),
            Page::Html1M => joined(1024 * 1024),
            Page::Html10M => joined(10 * 1024 * 1024),
        }
    }
}

/// Each page as a file that is called as its path is, and `index` for `/`.
pub fn write_files(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for page in Page::ALL {
        let name = page.path().trim_start_matches('/');
        std::fs::write(folder.join(if name.is_empty() { "index" } else { name }), page.body())?;
    }
    Ok(())
}

/// The large page again and again, each time under its number, so that a body with a piece lost, doubled or moved never
/// compares equal.
fn joined(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + PAGE_100K.len() + 64);
    let mut number = 0;
    while text.len() < bytes {
        text.extend_from_slice(format!("<!-- part {number} -->\n").as_bytes());
        text.extend_from_slice(PAGE_100K);
        number += 1;
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_its_named_size_and_is_found_by_its_path() {
        let sizes = [11, 11, 1024, 2048, 10_240, 102_400, 1_048_576, 10_485_760];
        for (page, bytes) in Page::ALL.into_iter().zip(sizes) {
            assert_eq!(page.body().len(), bytes, "{page:?}");
            assert_eq!(Page::from_path(page.path().as_bytes()), Some(page));
        }
        assert_eq!(Page::from_path(b"/2"), None);
    }

    #[test]
    fn parts_of_a_large_page_cannot_be_exchanged() {
        let body = Page::Html1M.body();
        let part = body.len() / 2;
        assert_ne!(body[..part], body[part..]);
        assert!(memchr::memmem::find(&body, b"<!-- part 9 -->").is_some());
    }
}
