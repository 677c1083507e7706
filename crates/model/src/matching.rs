//! Patterns of paths and values, and conditions of a route beyond its path. All conditions of one line must hold;
//! several lines are alternatives.

use crate::address::{HostPattern, Scheme};
use crate::client_auth::ClientCertificatePart;
use crate::geo::GeoTest;
use crate::jwt::ClaimRequirement;
use ipnet::IpNet;

/// One `match` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchLine {
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub negated: bool,
    pub kind: ConditionKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionKind {
    /// Any of these methods, compared exactly: methods are case sensitive (RFC 9110 section 9.1).
    Method(Vec<String>),
    /// Any of these patterns.
    Path(Vec<PathPattern>),
    Header(Field),
    Query(Field),
    /// All behind the `?` as it was sent; nothing where there is none.
    WholeQuery(TextPattern),
    Cookie(Field),
    /// The client's address is in any of these networks.
    Client(Vec<IpNet>),
    Host(Vec<HostPattern>),
    Scheme(Scheme),
    /// Of the certificate that the client has shown; without one nothing fits.
    ClientCertificate {
        part: ClientCertificatePart,
        value: TextPattern,
    },
    /// Of the handshake by which the client came, any of these; in plain HTTP nothing fits.
    Ja4(Vec<TextPattern>),
    /// What the map of that name has for the request. Without a pattern there has to be a row of its key.
    Map(Field),
    /// What the token claims that was verified; without one nothing fits. Of routes, by the `jwt` of their site.
    Claim(ClaimRequirement),
    /// What is known of the client's address is one of these.
    Geo(GeoTest),
    /// `any { … }`: one of the lines holds, each with all its conditions.
    /// Turned round it is `not { … }`; what stands in an `all { … }` is a line.
    Any(Vec<MatchLine>),
}

impl MatchLine {
    /// Whether any condition of these lines, however deep, is about claims.
    pub fn ask_for_claims(lines: &[MatchLine]) -> bool {
        let mut found = false;
        let mut see = |condition: &Condition| found |= matches!(condition.kind, ConditionKind::Claim(_));
        lines.iter().flat_map(|line| &line.conditions).for_each(|condition| condition.each(&mut see));
        found
    }
}

impl Condition {
    /// Deeper blocks are refused: conditions are gone through by functions that call themselves.
    pub const DEPTH_MAX: usize = 16;

    /// Calls back with the condition, and with each that lies within it.
    pub fn each<'c>(&'c self, see: &mut dyn FnMut(&'c Condition)) {
        see(self);
        match &self.kind {
            ConditionKind::Any(lines) => lines.iter().flat_map(|line| &line.conditions).for_each(|one| one.each(see)),
            ConditionKind::Method(_)
            | ConditionKind::Path(_)
            | ConditionKind::Header(_)
            | ConditionKind::Query(_)
            | ConditionKind::WholeQuery(_)
            | ConditionKind::Cookie(_)
            | ConditionKind::Client(_)
            | ConditionKind::Host(_)
            | ConditionKind::Scheme(_)
            | ConditionKind::ClientCertificate { .. }
            | ConditionKind::Ja4(_)
            | ConditionKind::Map(_)
            | ConditionKind::Claim(_)
            | ConditionKind::Geo(_) => {}
        }
    }
}

/// A path as routes and `match path=` write it. Compared with the decoded, normalised path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathPattern {
    /// `/a`
    Exact(String),
    /// `/a/*`, kept as `/a/`; also matches `/a` itself.
    Prefix(String),
    /// `/a*`, kept as `/a`: whatever begins so, be it in the midst of a segment.
    Beginning(String),
    /// `~^/v[0-9]+/`, kept without the `~`; known to compile.
    Regex(String),
}

/// A named field and what its value must be. Several fields of one name: one of them must fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Header names in lower case; query and cookie names as written.
    pub name: String,
    pub value: TextPattern,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPattern {
    /// The field is there, whatever its value.
    Present,
    Exact(String),
    /// `beta*`
    Prefix(String),
    /// `*.beta`
    Suffix(String),
    /// `~regex`, unanchored; known to compile.
    Regex(String),
}
