//! What is measured, where, and what is to be reached. Data only; `rounds` runs it and `verdict` judges it.

use serde::Serialize;

use crate::content::Page;

/// One kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    #[serde(rename = "h1-11b")]
    Http1Hello11B,
    #[serde(rename = "h1-2k")]
    Http1Html2K,
    #[serde(rename = "h1-100k")]
    Http1Html100K,
    #[serde(rename = "h2-2k")]
    Http2Html2K,
    HandshakeFull,
    HandshakeResumed,
    #[serde(rename = "open-5000")]
    Open5000,
    AccessLog,
}

/// Where the processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Placement {
    /// "S": proxy, generator and upstream share one core.
    Shared,
    /// "C": the proxy has a core of its own.
    OwnCore,
}

/// A bound that the project has set itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    pub figure: Figure,
    /// Tidegate's figure as a multiple of what it is compared with.
    pub ratio_max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    CpuPerRequest,
    LatencyP99,
}

impl Scenario {
    pub const ALL: [Scenario; 8] = [
        Scenario::Http1Hello11B,
        Scenario::Http1Html2K,
        Scenario::Http1Html100K,
        Scenario::Http2Html2K,
        Scenario::HandshakeFull,
        Scenario::HandshakeResumed,
        Scenario::Open5000,
        Scenario::AccessLog,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scenario::Http1Hello11B => "h1-11b",
            Scenario::Http1Html2K => "h1-2k",
            Scenario::Http1Html100K => "h1-100k",
            Scenario::Http2Html2K => "h2-2k",
            Scenario::HandshakeFull => "handshake-full",
            Scenario::HandshakeResumed => "handshake-resumed",
            Scenario::Open5000 => "open-5000",
            Scenario::AccessLog => "access-log",
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Scenario::Http1Hello11B => "HTTP/1.1, 64 connections, 11-byte answers",
            Scenario::Http1Html2K => "HTTP/1.1, 64 connections, 2 KB of HTML",
            Scenario::Http1Html100K => "HTTP/1.1, 64 connections, 100 KB of HTML",
            Scenario::Http2Html2K => "HTTP/2, 8 connections × 16 streams, 2 KB of HTML",
            Scenario::HandshakeFull => "new connection each time: TCP, full ECDSA handshake, one 11-byte request",
            Scenario::HandshakeResumed => "new connection each time: TCP, resumed handshake, one 11-byte request",
            Scenario::Open5000 => "HTTP/1.1, open loop at 5,000 requests/s, 2 KB of HTML",
            Scenario::AccessLog => "as h1-2k, Tidegate with its access log to a file against Tidegate without",
        }
    }

    pub fn placements(self) -> &'static [Placement] {
        match self {
            Scenario::Http1Hello11B
            | Scenario::Http1Html2K
            | Scenario::Http1Html100K
            | Scenario::Http2Html2K
            | Scenario::Open5000 => &[Placement::Shared, Placement::OwnCore],
            // A handshake costs the generator as much as the proxy; on one core it would mostly measure itself.
            Scenario::HandshakeFull | Scenario::HandshakeResumed => &[Placement::OwnCore],
            Scenario::AccessLog => &[Placement::Shared],
        }
    }

    /// Arguments of `tidegate-bench load`, address, time and observed processes excepted.
    pub fn load_arguments(self) -> Vec<String> {
        let text = match self {
            Scenario::Http1Hello11B => "--connections 64",
            Scenario::Http1Html2K | Scenario::Http1Html100K | Scenario::AccessLog => "--connections 64",
            Scenario::Http2Html2K => "--alpn h2 --connections 8 --streams 16",
            Scenario::HandshakeFull => "--handshakes full --connections 16",
            Scenario::HandshakeResumed => "--handshakes resumed --connections 16",
            Scenario::Open5000 => "--rate 5000 --connections 64",
        };
        let path = ["--path", self.page().path()];
        path.into_iter().chain(text.split(' ')).map(str::to_owned).collect()
    }

    pub fn page(self) -> Page {
        match self {
            Scenario::Http1Hello11B | Scenario::HandshakeFull | Scenario::HandshakeResumed => Page::Hello11B,
            Scenario::Http1Html2K | Scenario::Http2Html2K | Scenario::Open5000 | Scenario::AccessLog => Page::Html2K,
            Scenario::Http1Html100K => Page::Html100K,
        }
    }

    /// The relay speaks no TLS, so it is a floor only where plain HTTP/1.1 on kept connections is one.
    pub fn has_floor(self) -> bool {
        match self {
            Scenario::Http1Hello11B | Scenario::Http1Html2K | Scenario::Http1Html100K | Scenario::Open5000 => true,
            Scenario::Http2Html2K | Scenario::HandshakeFull | Scenario::HandshakeResumed | Scenario::AccessLog => false,
        }
    }

    pub fn goals(self) -> &'static [Goal] {
        const fn cpu(ratio_max: f64) -> Goal {
            Goal { figure: Figure::CpuPerRequest, ratio_max }
        }
        match self {
            Scenario::Http1Hello11B | Scenario::Http1Html2K => const { &[cpu(0.75)] },
            Scenario::Http1Html100K => const { &[cpu(0.5)] },
            Scenario::Http2Html2K => const { &[cpu(0.9)] },
            Scenario::HandshakeFull | Scenario::HandshakeResumed => const { &[cpu(0.65)] },
            Scenario::Open5000 => const { &[cpu(0.8), Goal { figure: Figure::LatencyP99, ratio_max: 1.0 }] },
            Scenario::AccessLog => const { &[cpu(1.1)] },
        }
    }
}

impl Placement {
    pub fn letter(self) -> char {
        match self {
            Placement::Shared => 'S',
            Placement::OwnCore => 'C',
        }
    }
}

impl Figure {
    pub fn name(self) -> &'static str {
        match self {
            Figure::CpuPerRequest => "CPU µs/request",
            Figure::LatencyP99 => "p99 µs",
        }
    }
}

/// Bounds that are no ratio of CPU or latency.
pub const IDLE_MEMORY_RATIO_MAX: f64 = 1.0;
pub const RESIDENT_MB_AT_START_MAX: f64 = 25.0;
/// A hundredth of leeway for the calls that are not made for a request, such as those of a timer.
pub const SOCKET_CALLS_PER_REQUEST_MAX: f64 = 4.05;
