//! The experiments, one file each: what is set up, which loads it gets, in which order. How they are led is in
//! `session`, how a grid of cases is measured in rounds is in `grid`; what comes out is `results`.

mod certificates;
mod change;
mod compression;
mod content;
mod e1;
mod e2;
mod e3;
mod grid;
mod kubernetes;
mod memory;
mod options;
mod phased;
mod plain;
mod progress;
mod round;
mod session;
mod targets;

pub use options::RunOptions;

use clap::ValueEnum;

use crate::net::Error;
use crate::results::ExperimentRecord;
use crate::stage::interrupt::Interrupted;

use session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Out of the box: the shortest configurations, a constant arrival rate (2025).
    E1,
    /// The three tuned variants of nginx that were measured afterwards.
    E1Nginx,
    /// Equalised: 2 KB and 100 KB of HTML, compression off and on (2025).
    E2,
    /// Under change: instances come and go, the configuration changes.
    E3,
    /// Under change in a cluster: the same for Ingress controllers, with pods and a real control plane.
    Kubernetes,
    /// What a change costs: start, time until it is seen, latency meanwhile, with one site and with thousands.
    Change,
    /// New connections: full and resumed TLS handshakes.
    Handshake,
    /// Thousands of certificates: start, memory, and a handshake beside them.
    Certificates,
    /// HTTP/2 with several streams on a connection.
    Http2,
    /// Answers from 1 KB to 10 MB.
    Sizes,
    /// Resident memory at start and of idle connections.
    Memory,
    /// CPU and bytes of each codec and level.
    Compression,
    /// What is served without an upstream, and what long compression costs.
    Content,
    /// 1, 2, … worker threads.
    Scale,
    /// What Tidegate has promised itself, against HAProxy and nginx.
    Targets,
}

impl Experiment {
    pub const ALL: [Experiment; 15] = [
        Experiment::E1,
        Experiment::E1Nginx,
        Experiment::E2,
        Experiment::E3,
        Experiment::Kubernetes,
        Experiment::Change,
        Experiment::Handshake,
        Experiment::Certificates,
        Experiment::Http2,
        Experiment::Sizes,
        Experiment::Memory,
        Experiment::Compression,
        Experiment::Content,
        Experiment::Scale,
        Experiment::Targets,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Experiment::E1 => "e1",
            Experiment::E1Nginx => "e1-nginx",
            Experiment::E2 => "e2",
            Experiment::E3 => "e3",
            Experiment::Kubernetes => "kubernetes",
            Experiment::Change => "change",
            Experiment::Handshake => "handshake",
            Experiment::Certificates => "certificates",
            Experiment::Http2 => "http2",
            Experiment::Sizes => "sizes",
            Experiment::Memory => "memory",
            Experiment::Compression => "compression",
            Experiment::Content => "content",
            Experiment::Scale => "scale",
            Experiment::Targets => "targets",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Experiment::E1 => "out of the box, at a constant arrival rate",
            Experiment::E1Nginx => "out of the box again: nginx as its users tuned it",
            Experiment::E2 => "equalised, with and without compression",
            Experiment::E3 => "under change",
            Experiment::Kubernetes => "under change, in a cluster",
            Experiment::Change => "what a change costs, with one site and with thousands",
            Experiment::Handshake => "new connections, full and resumed handshakes",
            Experiment::Certificates => "thousands of certificates: start, memory, handshakes",
            Experiment::Http2 => "several streams on a connection",
            Experiment::Sizes => "answers from 1 KB to 10 MB",
            Experiment::Memory => "at start, of idle connections, after a load",
            Experiment::Compression => "CPU and bytes of each codec and level",
            Experiment::Content => "what is served without an upstream, and what long compression costs",
            Experiment::Scale => "worker threads",
            Experiment::Targets => "what Tidegate has promised itself",
        }
    }

    /// About how many seconds it takes.
    fn seconds(self, session: &Session) -> f64 {
        match self {
            Experiment::E1 => e1::seconds(session),
            Experiment::E1Nginx => e1::seconds_nginx(session),
            Experiment::E2 => e2::seconds(session),
            Experiment::E3 => e3::seconds(session),
            Experiment::Kubernetes => kubernetes::seconds(session),
            Experiment::Change => change::seconds(session),
            Experiment::Handshake => plain::seconds(&plain::handshake_cases(), session),
            Experiment::Certificates => certificates::seconds(session),
            Experiment::Http2 => plain::seconds(&plain::http2_cases(), session),
            Experiment::Sizes => plain::seconds(&plain::sizes_cases(), session),
            Experiment::Scale => plain::scale_seconds(session),
            Experiment::Memory => memory::seconds(session),
            Experiment::Compression => compression::seconds(session),
            Experiment::Content => content::seconds(session),
            Experiment::Targets => targets::seconds(session),
        }
    }

    fn run(self, session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
        match self {
            Experiment::E1 => e1::run(session, record),
            Experiment::E1Nginx => e1::run_nginx(session, record),
            Experiment::E2 => e2::run(session, record),
            Experiment::E3 => e3::run(session, record),
            Experiment::Kubernetes => kubernetes::run(session, record),
            Experiment::Change => change::run(session, record),
            Experiment::Handshake => plain::handshake(session, record),
            Experiment::Certificates => certificates::run(session, record),
            Experiment::Http2 => plain::http2(session, record),
            Experiment::Sizes => plain::sizes(session, record),
            Experiment::Memory => memory::run(session, record),
            Experiment::Compression => compression::run(session, record),
            Experiment::Content => content::run(session, record),
            Experiment::Scale => plain::scale(session, record),
            Experiment::Targets => targets::run(session, record),
        }
    }
}

/// `tidegate-lab run`.
pub fn run(options: &RunOptions) -> Result<(), Error> {
    session::run(options)
}
