//! `path-policy`: what is made of spellings of a path that servers disagree about, before a route is looked for. What
//! comes out is matched and forwarded.

/// Dots, encoded letters and the case of percent codes are settled for every path, in `wire::path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPolicy {
    /// `//`
    pub slashes: Slashes,
    /// `%2F` and `%5C`.
    pub encoded_slashes: EncodedSlashes,
    pub case: PathCase,
    pub parameters: PathParameters,
    pub expressions: PathExpressions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slashes {
    /// Several are one for routes and steps. A path that no step changes goes on as it was sent, but for those at its
    /// beginning: a server could take what follows two of them for its host.
    Pass,
    /// Several are one.
    Merge,
    Keep,
    /// 400.
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodedSlashes {
    Keep,
    /// `%2F` is a slash for routes and steps, and so are other codes of characters that may stand in a path themselves,
    /// such as `%3A`. A path that no step changes goes on as it was sent. 400 where dots stand beside a slash of these:
    /// what a server makes of them is anybody's guess.
    Pass,
    /// `%2F` is a slash; `%5C` stays.
    Decode,
    /// 400, for `%5C` as well.
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathCase {
    Keep,
    /// Letters of ASCII are made small ones.
    Lower,
}

/// What stands behind a semicolon in a segment. Servers in Java cut it off before they look for what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathParameters {
    /// Dots with parameters (`..;`) are refused all the same.
    Keep,
    /// 400, for `%3B` as well.
    Refuse,
}

/// What regular expressions are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathExpressions {
    /// The path with its percent codes.
    Encoded,
    /// The bytes that it stands for, and what they find is of these. So nginx does it.
    Decoded,
}

impl PathPolicy {
    /// What holds where nothing is said. Most servers merge slashes themselves: were they not one for routes, `//admin`
    /// would go past one for `/admin` and arrive there. What takes addresses in paths, such as `/proxy/http://…`, needs
    /// them all the same.
    pub const DEFAULT: PathPolicy = PathPolicy {
        slashes: Slashes::Pass,
        encoded_slashes: EncodedSlashes::Keep,
        case: PathCase::Keep,
        parameters: PathParameters::Keep,
        expressions: PathExpressions::Encoded,
    };
}

impl Default for PathPolicy {
    fn default() -> Self {
        PathPolicy::DEFAULT
    }
}

impl Slashes {
    pub const NAMES: &'static [(&'static str, Slashes)] =
        &[("pass", Slashes::Pass), ("merge", Slashes::Merge), ("keep", Slashes::Keep), ("refuse", Slashes::Refuse)];
}

impl EncodedSlashes {
    pub const NAMES: &'static [(&'static str, EncodedSlashes)] = &[
        ("keep", EncodedSlashes::Keep),
        ("pass", EncodedSlashes::Pass),
        ("decode", EncodedSlashes::Decode),
        ("refuse", EncodedSlashes::Refuse),
    ];
}

impl PathCase {
    pub const NAMES: &'static [(&'static str, PathCase)] = &[("keep", PathCase::Keep), ("lower", PathCase::Lower)];
}

impl PathParameters {
    pub const NAMES: &'static [(&'static str, PathParameters)] =
        &[("keep", PathParameters::Keep), ("refuse", PathParameters::Refuse)];
}

impl PathExpressions {
    pub const NAMES: &'static [(&'static str, PathExpressions)] =
        &[("encoded", PathExpressions::Encoded), ("decoded", PathExpressions::Decoded)];
}
