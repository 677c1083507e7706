//! Where a request would go. Nothing is sent.

use crate::ServerState;
use crate::schema::Word;
use crate::schema::{objects, words};
use std::net::IpAddr;

objects! {
    /// A request that nobody sends.
    #[serde(deny_unknown_fields)]
    pub struct ExplainRequest {
        pub method: String,
        /// `http[s]://host[:port][/path][?query]`
        pub url: String,
        /// Lines `Name: value`.
        pub headers: Option<Vec<String>>,
        /// The client's IP address; 127.0.0.1 when it is left out.
        pub from: Option<String>,
    }

    /// Where a request would go, and why not elsewhere.
    pub struct Explanation {
        /// A route answers; otherwise the request is refused or does not arrive.
        pub has_route: bool,
        /// Everything as text for a terminal.
        pub text: String,
        pub request: ExplainedRequest,
        pub outcome: Outcome,
        pub listener: Option<ExplainedListener>,
        pub certificate: Option<ExplainedCertificate>,
        pub site: Option<String>,
        /// Where the route comes from, or its site: the `origin` line.
        pub origin: Option<String>,
        pub route: Option<ExplainedRoute>,
        pub pool: Option<ExplainedPool>,
        pub limits: Vec<Setting>,
        pub other_routes: Vec<PassedRoute>,
        pub other_routes_left_out: usize,
        pub other_sites: Vec<PassedSite>,
        pub other_sites_left_out: usize,
        pub notes: Vec<String>,
    }

    /// The request as it is matched.
    pub struct ExplainedRequest {
        pub method: String,
        pub url: String,
        pub host: String,
        /// Normalised; empty when the head was refused.
        pub path: String,
        pub query: Option<String>,
        pub client: IpAddr,
    }

    pub struct Outcome {
        pub kind: OutcomeKind,
        /// Of an answer that the proxy makes itself.
        pub status: Option<u16>,
        /// Of a refusal: the code in log and metrics.
        pub reason: Option<String>,
        pub sentence: Option<String>,
        /// Of a redirect: its template.
        pub to: Option<String>,
        pub pool: Option<String>,
        /// Whose files answer, or whose scripts.
        pub folder: Option<String>,
        /// Of a split: the template of its key; none when it goes by chance. Of a connection that is passed on: what
        /// does that.
        pub by: Option<String>,
        /// Of a split, of requests or of connections: each part and its arm, on one line.
        pub shares: Option<String>,
    }

    pub struct ExplainedListener {
        /// `[::]:443`, or `unix:/run/tidegate.sock`.
        pub address: String,
        pub scheme: Word,
        /// Nobody wrote it: it redirects to HTTPS.
        pub implied: bool,
        pub trusted_proxies: Vec<String>,
        /// Peers whose connections begin with a header of the PROXY protocol.
        pub proxy_protocol_from: Vec<String>,
    }

    pub struct ExplainedCertificate {
        pub site: String,
        pub internal_ca: bool,
        /// By ACME, from a CA that verifies the name.
        pub acme: bool,
        pub files: Vec<String>,
        pub min_version: String,
        pub alpn: String,
    }

    pub struct ExplainedRoute {
        /// The route's place in the site, from 1.
        pub rank: usize,
        pub title: String,
        pub steps: Vec<ExplainedStep>,
        pub terminal: String,
    }

    pub struct ExplainedStep {
        pub text: String,
        pub of_site: bool,
    }

    pub struct ExplainedPool {
        pub name: String,
        pub balance: String,
        pub servers: Vec<ExplainedServer>,
        pub settings: Vec<Setting>,
    }

    pub struct ExplainedServer {
        pub address: String,
        pub weight: u32,
        /// 0 is used first; a backup is 1.
        pub priority: u32,
        pub zone: Option<String>,
        /// Bounds of its own, where it has any.
        pub max_connections: Option<u32>,
        pub max_requests: Option<u32>,
        pub state: Option<ServerState>,
        /// Why it gets no requests, or fewer than its share.
        pub why: Option<String>,
        pub requests_in_flight: Option<u64>,
        pub idle_connections: Option<u64>,
    }

    pub struct Setting {
        pub name: Word,
        pub value: String,
    }

    /// A route that is not taken.
    pub struct PassedRoute {
        pub rank: usize,
        pub title: String,
        /// Where it comes from, where it says so itself.
        pub origin: Option<String>,
        pub why: WhyNotRoute,
        /// The rank of the route before it that fits as well.
        pub shadowed_by: Option<usize>,
        pub failed: Vec<FailedLine>,
    }

    /// A `match` line, and the first of its conditions that does not hold.
    pub struct FailedLine {
        pub line: String,
        pub condition: String,
    }

    /// A site on the listening address that does not answer.
    pub struct PassedSite {
        pub site: String,
        /// Where it comes from.
        pub origin: Option<String>,
        pub hosts: Vec<String>,
        pub why: WhyNotSite,
    }
}

words! {
    pub enum OutcomeKind {
        Responds = "responds",
        Redirects = "redirects",
        Proxied = "proxied",
        Passthrough = "passthrough",
        Split = "split",
        Serves = "serves",
        RunsScript = "runs-script",
        Refused = "refused",
        NothingListens = "nothing-listens",
        HandshakeRefused = "handshake-refused",
    }
}

words! {
    pub enum WhyNotRoute {
        Path = "path",
        Conditions = "conditions",
        Shadowed = "shadowed",
    }
}

words! {
    pub enum WhyNotSite {
        Host = "host",
        LessSpecific = "less-specific",
    }
}
