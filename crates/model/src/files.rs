//! `files`: a folder whose files are answers. Which file answers what is decided in the crate `files`.

use std::path::PathBuf;

/// One `files` step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The folder that is served. It may be reached through symlinks.
    pub root: PathBuf,
    /// Names of files that answer for their folder, the first that exists. Each is one name, without a slash.
    pub index: Vec<String>,
    /// Paths below the root that are looked for instead of the request's own, in this order; `{path}` stands for
    /// that. One that ends with a slash is a folder, others are files. Empty: the path of the request, whichever it is.
    pub tries: Vec<String>,
    /// Whether the route takes only requests for which there is a file; for others the routes behind it are looked at.
    pub goes_on: bool,
    /// A path below the root, not percent-encoded, that answers with 200 where nothing is found, as single-page
    /// applications want.
    pub fallback: Option<String>,
    /// Whether a folder without an index file answers with a list of its entries.
    pub listing: bool,
    /// Whether names that begin with `.` are served. `.well-known` always is (RFC 8615).
    pub hidden: bool,
    pub symlinks: Symlinks,
    /// Whether `name.zst`, `name.br` and `name.gz` are sent in place of `name` to clients that accept them.
    pub precompressed: bool,
    /// Extensions without their dot, in any case, and the whole value of `content-type`. They come before the built-in
    /// table.
    pub mime: Vec<(String, String)>,
}

impl Files {
    /// What stands for the path of the request in [`tries`](Files::tries).
    pub const PATH: &'static str = "{path}";

    /// Serves `root` with `index.html` as index file and everything optional off.
    pub fn new(root: impl Into<PathBuf>) -> Files {
        Files {
            root: root.into(),
            index: vec!["index.html".to_owned()],
            tries: Vec::new(),
            goes_on: false,
            fallback: None,
            listing: false,
            hidden: false,
            symlinks: Symlinks::default(),
            precompressed: false,
            mime: Vec::new(),
        }
    }
}

/// What happens to symlinks below the root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Followed as long as they stay below the root. An absolute target counts as leaving it, wherever it points.
    #[default]
    Within,
    /// Followed anywhere: whoever may write below the root decides what is served.
    Follow,
    /// Not served.
    Refuse,
}

impl Symlinks {
    pub const NAMES: &'static [(&'static str, Symlinks)] =
        &[("within", Symlinks::Within), ("follow", Symlinks::Follow), ("refuse", Symlinks::Refuse)];

    pub fn name(self) -> &'static str {
        match self {
            Symlinks::Within => "within",
            Symlinks::Follow => "follow",
            Symlinks::Refuse => "refuse",
        }
    }
}
