//! What three public studies reported, to stand beside what was measured here. Their figures, our words.
//! They are context and no reference: other machines, versions and tools, so only the order and the kind of failure
//! compare.

/// A study, as the report names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Study {
    pub name: &'static str,
    /// `None` where it is not known.
    pub year: Option<u16>,
    /// Where and how it measured, in a sentence or two.
    pub setting: &'static str,
    /// What it is criticised for, or leaves open.
    pub doubts: &'static str,
}

pub const OUT_OF_THE_BOX: Study = Study {
    name: "Mish Product Lab",
    year: Some(2025),
    setting: "Three machines (load and proxy with 32 virtual processors each, backend with 8), containers, the shortest \
              configuration of each proxy. 50,000 requests/s for 60 s in open loop, an answer of 11 bytes.",
    doubts: "nginx wrote its access log to disk and kept few or no upstream connections; the backend was near its own limit at this \
             rate; ciphers and compression were not the same.",
};

pub const EQUALISED: Study = Study {
    name: "Devhands",
    year: Some(2025),
    setting: "One virtual machine of 8 processors for proxy and backend, TLS 1.3 with AES-128-GCM, kept upstream connections, no access \
              log, the fastest level of compression. wrk in closed loop.",
    doubts: "Left open: TLS libraries, handshakes, HTTP/2 and HTTP/3, memory. Received bytes are a cost and no merit when answers are \
             compressed.",
};

pub const UNDER_CHANGE: Study = Study {
    name: "ingress controllers, journal paper",
    year: None,
    setting: "Kubernetes with six workers of 4 cores, controllers as shipped, HTTPS only, 3,600 s for each, load by hey.",
    doubts: "No controller gave only right answers in both variants.",
};

/// One row of E1 and of its tuned variants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutOfTheBoxRow {
    pub target: &'static str,
    pub answered_per_second: f64,
    pub failed_percent: f64,
    /// Requests that were due but never started.
    pub dropped: Option<u64>,
    pub median_ms: Option<f64>,
    pub p95_ms: f64,
    pub max_ms: Option<f64>,
    /// Of 32.
    pub cores_busy: Option<f64>,
    pub received_mb: Option<f64>,
    pub sent_mb: Option<f64>,
}

/// E1: 50,000 requests/s offered.
pub const OUT_OF_THE_BOX_ROWS: [OutOfTheBoxRow; 6] = [
    row("backend alone", 49_940.0, 0.0, 3_476, [0.23, 0.39, 235.0], None, [438.0, 246.0]),
    row("HAProxy", 49_728.0, 0.0, 16_192, [0.57, 1.16, 1_070.0], Some(9.0), [374.0, 108.0]),
    row("Envoy", 49_749.0, 0.0, 14_895, [1.00, 3.34, 130.0], Some(16.0), [597.0, 344.0]),
    row("nginx", 9_158.0, 10.2, 1_154_367, [1_730.0, 3_820.0, 30_000.0], Some(30.0), [231.0, 95.0]),
    row("Traefik", 4_659.0, 32.8, 2_088_749, [70.0, 8_460.0, 33_000.0], Some(30.0), [126.0, 24.0]),
    row("Caddy", 3_354.0, 35.9, 1_861_627, [380.0, 17_000.0, 34_900.0], Some(30.0), [104.0, 23.0]),
];

/// E1 repeated for nginx, tuned as readers asked.
pub const NGINX_TUNED_ROWS: [OutOfTheBoxRow; 3] = [
    tuned("nginx, upstream keepalive 4, multi_accept off", 5_621.0, 69.0, 1_110.0),
    tuned("nginx, upstream keepalive 4, multi_accept on", 6_891.0, 74.0, 9_100.0),
    tuned("nginx, no upstream keepalive, AES-128-GCM first", 12_207.0, 9.8, 3_970.0),
];

/// One place in the ranking of E2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EqualisedRow {
    pub proxy: &'static str,
    pub size: &'static str,
    pub place: &'static str,
    /// Thousands of requests per second, from and to; `None` where the study gives no rate.
    pub thousand_per_second: Option<(f64, f64)>,
    pub remark: &'static str,
}

pub const EQUALISED_ROWS: [EqualisedRow; 10] = [
    place("Angie", "2 KB", "first", Some((80.0, 90.0)), "the best mean latency"),
    place("HAProxy", "2 KB", "level with Angie", None, "level on rate, slower on latency"),
    place("Traefik", "2 KB", "third", Some((30.0, 40.0)), ""),
    place("Envoy", "2 KB", "behind Traefik", Some((30.0, 30.0)), ""),
    place("Caddy", "2 KB", "behind Traefik", Some((30.0, 30.0)), ""),
    place("Angie", "100 KB", "first", Some((14.0, 14.0)), ""),
    place("HAProxy", "100 KB", "second", None, "just behind Angie, with more bytes per answer"),
    place("Envoy", "100 KB", "third", None, ""),
    place("Caddy", "100 KB", "fourth", None, ""),
    place("Traefik", "100 KB", "last", None, ""),
];

/// One row of E3: counts of answers, and percentiles in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnderChangeRow {
    pub controller: &'static str,
    /// Right answers; only the first variant states them.
    pub status_200: Option<u64>,
    /// Only the second variant states them.
    pub status_404: Option<u64>,
    pub status_502: u64,
    pub status_503: u64,
    pub status_504: u64,
    /// p75, p90, p95, p99.
    pub seconds: [f64; 4],
}

/// E3 with one generator of 250 connections.
pub const UNDER_CHANGE_1X250: [UnderChangeRow; 5] = [
    change("HAProxy", Some(1_000_000), None, [0, 0, 0], [0.0179, 0.0270, 0.0344, 0.0539]),
    change("Envoy (Contour)", Some(999_902), None, [0, 98, 0], [0.0293, 0.0385, 0.0443, 0.0569]),
    change("NGINX Inc.", Some(999_962), None, [34, 0, 4], [0.0317, 0.0682, 0.0740, 0.2116]),
    change("ingress-nginx", Some(999_951), None, [42, 0, 7], [0.0467, 0.0712, 0.0930, 0.2576]),
    change("Traefik", Some(994_863), None, [5_137, 0, 0], [0.0243, 0.0326, 0.0386, 0.0534]),
];

/// E3 with five generators of 50 connections each.
pub const UNDER_CHANGE_5X50: [UnderChangeRow; 5] = [
    change("HAProxy", None, Some(439), [0, 0, 0], [0.0169, 0.0329, 0.0479, 0.0809]),
    change("Envoy (Contour)", None, Some(0), [0, 136, 0], [0.0368, 0.0553, 0.0633, 0.0806]),
    change("NGINX Inc.", None, Some(0), [106, 0, 6], [0.0315, 0.0620, 0.0976, 0.1642]),
    change("ingress-nginx", None, Some(0), [117, 0, 6], [0.0515, 0.0820, 0.1076, 0.1842]),
    change("Traefik", None, Some(0), [660, 0, 0], [0.0233, 0.0328, 0.0394, 0.0556]),
];

impl Study {
    /// `Mish Product Lab, 2025`.
    pub fn cited(&self) -> String {
        match self.year {
            Some(year) => format!("{}, {year}", self.name),
            None => self.name.to_owned(),
        }
    }
}

const fn row(
    target: &'static str,
    answered_per_second: f64,
    failed_percent: f64,
    dropped: u64,
    [median_ms, p95_ms, max_ms]: [f64; 3],
    cores_busy: Option<f64>,
    [received_mb, sent_mb]: [f64; 2],
) -> OutOfTheBoxRow {
    OutOfTheBoxRow {
        target,
        answered_per_second,
        failed_percent,
        dropped: Some(dropped),
        median_ms: Some(median_ms),
        p95_ms,
        max_ms: Some(max_ms),
        cores_busy,
        received_mb: Some(received_mb),
        sent_mb: Some(sent_mb),
    }
}

const fn tuned(target: &'static str, answered_per_second: f64, failed_percent: f64, p95_ms: f64) -> OutOfTheBoxRow {
    OutOfTheBoxRow {
        target,
        answered_per_second,
        failed_percent,
        dropped: None,
        median_ms: None,
        p95_ms,
        max_ms: None,
        cores_busy: None,
        received_mb: None,
        sent_mb: None,
    }
}

const fn place(
    proxy: &'static str,
    size: &'static str,
    place: &'static str,
    thousand_per_second: Option<(f64, f64)>,
    remark: &'static str,
) -> EqualisedRow {
    EqualisedRow { proxy, size, place, thousand_per_second, remark }
}

const fn change(
    controller: &'static str,
    status_200: Option<u64>,
    status_404: Option<u64>,
    [status_502, status_503, status_504]: [u64; 3],
    seconds: [f64; 4],
) -> UnderChangeRow {
    UnderChangeRow { controller, status_200, status_404, status_502, status_503, status_504, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The study sent a million requests to each controller, which is what ties the columns together.
    #[test]
    fn the_rows_under_change_add_up_to_a_million() {
        for row in UNDER_CHANGE_1X250 {
            let sum = row.status_200.unwrap() + row.status_502 + row.status_503 + row.status_504;
            assert_eq!(sum, 1_000_000, "{}", row.controller);
        }
    }

    #[test]
    fn percentiles_ascend() {
        for row in UNDER_CHANGE_1X250.iter().chain(&UNDER_CHANGE_5X50) {
            assert!(row.seconds.is_sorted(), "{}", row.controller);
        }
        for row in OUT_OF_THE_BOX_ROWS {
            assert!(row.median_ms.unwrap() <= row.p95_ms && row.p95_ms <= row.max_ms.unwrap(), "{}", row.target);
        }
    }
}
