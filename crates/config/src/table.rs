//! What the directive table is made of: places, arguments, properties, kinds of values. What one entry is and how a
//! line of it is read is in `language`; the entries are in `directives`.

use std::time::Duration;

/// A block in which directives stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Not inside any block.
    Top,
    Site,
    Route,
    /// The block of a `header` or one of its kind: conditions.
    Header,
    /// The block of a `log` in a site or a route.
    Log,
    /// The block of a `split`.
    Split,
    /// The block of an `arm` of a `split`.
    Arm,
    /// The block of a `tcp`.
    Tcp,
    /// The block of an `sni`.
    Sni,
    /// The block of a `split` in a `tcp` or an `sni`.
    TcpSplit,
    Pool,
    /// The block of a `fastcgi`.
    FastCgi,
    /// The block of a site's `tls`.
    Tls,
    /// The block of an `acme`.
    Acme,
    Listener,
    Limits,
    /// The block of `basic-auth`.
    BasicAuth,
    /// The block of `jwt`.
    Jwt,
    /// The block of `oidc`.
    Oidc,
    /// The block of a `provider` of an `oidc`.
    OidcProvider,
    /// The block of `forward-auth`.
    ForwardAuth,
    /// The block of `error-page`.
    ErrorPage,
    /// The block of `api-key`.
    ApiKey,
    /// The block of an `auth any`.
    AuthAny,
    /// The block of a `match`.
    Match,
    /// The block of an `any`, `all` or `not`.
    Conditions,
    /// The block of a `map`.
    Map,
    /// The block of a `docker`.
    Docker,
}

impl Place {
    pub const ALL: [Place; 28] = [
        Place::Top,
        Place::Site,
        Place::Route,
        Place::Header,
        Place::Log,
        Place::Split,
        Place::Arm,
        Place::Tcp,
        Place::Sni,
        Place::TcpSplit,
        Place::Pool,
        Place::FastCgi,
        Place::Tls,
        Place::Acme,
        Place::Listener,
        Place::Limits,
        Place::BasicAuth,
        Place::Jwt,
        Place::Oidc,
        Place::OidcProvider,
        Place::ForwardAuth,
        Place::ErrorPage,
        Place::ApiKey,
        Place::AuthAny,
        Place::Match,
        Place::Conditions,
        Place::Map,
        Place::Docker,
    ];

    /// As it is said in messages and in the reference.
    pub fn describe(self) -> &'static str {
        match self {
            Place::Top => "at the top level",
            Place::Site => "in a `site`",
            Place::Route => "in a `route`",
            Place::Header => "in the block of a `header`",
            Place::Log => "in the `log` of a site or a route",
            Place::Split => "in a `split`",
            Place::Arm => "in an `arm`",
            Place::Tcp => "in a `tcp`",
            Place::Sni => "in an `sni`",
            Place::TcpSplit => "in the `split` of a `tcp`",
            Place::Pool => "in a `pool`",
            Place::FastCgi => "in a `fastcgi`",
            Place::Tls => "in the `tls` of a site",
            Place::Acme => "in an `acme`",
            Place::Listener => "in a `listener`",
            Place::Limits => "in `limits`",
            Place::BasicAuth => "in a `basic-auth`",
            Place::Jwt => "in a `jwt`",
            Place::Oidc => "in an `oidc`",
            Place::OidcProvider => "in a `provider` of an `oidc`",
            Place::ForwardAuth => "in a `forward-auth`",
            Place::ErrorPage => "in an `error-page`",
            Place::ApiKey => "in an `api-key`",
            Place::AuthAny => "in an `auth any`",
            Place::Match => "in the block of a `match`",
            Place::Conditions => "in an `any`, `all` or `not`",
            Place::Map => "in a `map`",
            Place::Docker => "in a `docker`",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// A second one in the same block is an error.
    Once,
    /// In the order written.
    Many,
}

#[derive(Debug)]
pub struct Argument {
    pub name: &'static str,
    pub kind: Kind,
    pub count: Count,
    pub summary: &'static str,
}

impl Argument {
    pub const fn one(name: &'static str, kind: Kind, summary: &'static str) -> Argument {
        Argument { name, kind, count: Count::One, summary }
    }

    pub const fn optional(name: &'static str, kind: Kind, summary: &'static str) -> Argument {
        Argument { name, kind, count: Count::Optional, summary }
    }

    pub const fn one_or_more(name: &'static str, kind: Kind, summary: &'static str) -> Argument {
        Argument { name, kind, count: Count::OneOrMore, summary }
    }

    pub const fn any(name: &'static str, kind: Kind, summary: &'static str) -> Argument {
        Argument { name, kind, count: Count::Any, summary }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    One,
    Optional,
    OneOrMore,
    Any,
}

#[derive(Debug)]
pub struct Property {
    pub name: &'static str,
    pub kind: Kind,
    pub repeat: Repeat,
    pub summary: &'static str,
}

impl Property {
    /// A property that may be given once.
    pub const fn once(name: &'static str, kind: Kind, summary: &'static str) -> Property {
        Property { name, kind, repeat: Repeat::Once, summary }
    }

    /// A property that may be given several times.
    pub const fn many(name: &'static str, kind: Kind, summary: &'static str) -> Property {
        Property { name, kind, repeat: Repeat::Many, summary }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    None,
    Optional(Place),
    Required(Place),
}

/// What a value is. Bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Text of a form that the string describes, such as "an address".
    Text(&'static str),
    /// Text that is never to be shown where the configuration is read as JSON.
    Secret(&'static str),
    /// Text with placeholders.
    Template(Stage),
    /// A file; relative to the file it is written in.
    Path,
    Choice(&'static [&'static str]),
    /// A choice, or else text of the form described; an empty description when other text is only kept for its own
    /// message.
    ChoiceOr(&'static [&'static str], &'static str),
    /// `auto`, or a number.
    AutoOrInteger {
        min: u64,
        max: u64,
    },
    /// A status as a number, or a range of them as text. Read as text.
    Statuses,
    Integer {
        min: u64,
        max: u64,
    },
    Duration {
        min: Duration,
        max: Duration,
    },
    Size {
        min: u64,
        max: u64,
    },
    ByteRate {
        min: u64,
        max: u64,
    },
    /// A share of all requests, as in `"0.5%"`; read in millionths.
    Sample,
    /// A share, as in `"20%"`.
    Percent {
        min: u64,
        max: u64,
    },
    /// `#true`, `#false`, `"on"`, `"off"`.
    Switch,
}

/// Which placeholders have a value where a template is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before an upstream was chosen.
    Request,
    /// Once there is a response.
    Response,
    /// When there is an error, of an upstream or our own.
    Error,
    /// When the request is over: the access log.
    Log,
}
