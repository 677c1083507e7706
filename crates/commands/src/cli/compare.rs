//! `tidegate compare …` as clap reads it.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Two servers, requests, and what counts as different.
#[derive(Debug, Args)]
pub struct CompareWanted {
    /// Where the server of today answers, as in `http://127.0.0.1:8080`. It is asked first.
    #[arg(long, value_name = "URL")]
    pub old: String,
    /// Where the one that is to take its place answers.
    #[arg(long, value_name = "URL")]
    pub new: String,
    /// Requests, one a line as `GET /path`, or an access log; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub requests: PathBuf,
    /// The host of requests that name none. By default that of `--old`.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// A header field of every request, in place of its own of that name; may be given several times.
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Send those requests, too, that may change something: POST, PUT, DELETE and all but GET, HEAD, OPTIONS and TRACE.
    /// Each is then done twice, once by either server.
    #[arg(long)]
    pub all_methods: bool,
    /// Ask again what a line before has asked; otherwise each request is sent once.
    #[arg(long)]
    pub repeats: bool,
    /// How many requests are sent at most.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_requests: u32,
    /// Speak HTTP/2: over TLS by ALPN, without it at once. Otherwise HTTP/1.1.
    #[arg(long)]
    pub http2: bool,
    /// A PEM file with the authorities that certificates are verified by, instead of the system's.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Take any certificate.
    #[arg(long)]
    pub insecure: bool,
    /// Requests at a time. Of each the old server is asked, then the new one.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Requests a second at most.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// How long one answer may take, its body with it.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = tidegate_config::parse_duration)]
    pub timeout: Duration,
    /// Compare the status, and where redirects lead, and nothing else: for pages that are others each time.
    #[arg(long, conflicts_with_all = ["ignore_header", "only_header", "exact_header", "ignore_body"])]
    pub status_only: bool,
    /// A header that is not compared, beside Date, Server, Age and others of the moment; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub ignore_header: Vec<String>,
    /// A header that is compared, and no other; may be given several times.
    #[arg(long, value_name = "NAME", conflicts_with = "ignore_header")]
    pub only_header: Vec<String>,
    /// A header that is compared letter by letter, even if it is otherwise not compared or only by what it means, as
    /// ETag and Set-Cookie are; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub exact_header: Vec<String>,
    /// What is left out of bodies before they are compared, such as tokens: a regular expression; may be given several
    /// times.
    #[arg(long, value_name = "REGEX")]
    pub ignore_body: Vec<String>,
    /// How many bytes of a body are kept to show where they differ. Longer ones are compared whole, by a digest.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(..=64 << 20))]
    pub body_bytes: u32,
    /// How many requests are shown of each kind of difference.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub examples: usize,
}
