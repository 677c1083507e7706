//! `header-names`: what is made of fields of requests whose names servers may read as others.

/// Servers that make variables of names (CGI, PHP, WSGI and many more) read `X_User` and `X.User` as `X-User`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderNames {
    /// Dropped where it would be read as a name that the site sets or removes itself.
    #[default]
    DropColliding,
    /// Every name goes on, but for those that say who a client is.
    Keep,
    /// Names of anything but letters, digits and `-` are dropped.
    Drop,
    /// A request with one is answered with 400.
    Refuse,
}

impl HeaderNames {
    pub const NAMES: &'static [(&'static str, HeaderNames)] = &[
        ("drop-colliding", HeaderNames::DropColliding),
        ("keep", HeaderNames::Keep),
        ("drop", HeaderNames::Drop),
        ("refuse", HeaderNames::Refuse),
    ];
}
