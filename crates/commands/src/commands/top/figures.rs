//! What `/metrics` says that the API does not: how each site does, how long requests take, and memory. Read line by
//! line by the names of a few metrics; whatever else is there is passed over.

use std::collections::BTreeMap;

/// Of answers from 1xx to 5xx.
pub const CLASSES: usize = 5;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub sites: BTreeMap<String, SiteFigures>,
    pub resident_bytes: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteFigures {
    pub classes: [u64; CLASSES],
    /// Requests that took no longer than so many seconds, in rising order; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl Figures {
    pub fn read(text: &str) -> Figures {
        let mut figures = Figures::default();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once(['{', ' ']) else { continue };
            match name {
                "tidegate_http_requests_total" => figures.add_requests(rest),
                "tidegate_http_request_duration_seconds_bucket" => figures.add_bucket(rest),
                "process_resident_memory_bytes" => {
                    figures.resident_bytes = rest.trim().parse::<f64>().ok().map(|bytes| bytes as u64);
                }
                _ => {}
            }
        }
        figures
    }

    fn site(&mut self, labels: &str) -> &mut SiteFigures {
        self.sites.entry(label(labels, "site").unwrap_or_default()).or_default()
    }

    fn add_requests(&mut self, rest: &str) {
        let Some((labels, value)) = rest.rsplit_once('}') else { return };
        let class = label(labels, "class").and_then(|class| class.chars().next()?.to_digit(10));
        if let (Some(class @ 1..=5), Ok(count)) = (class, value.trim().parse::<f64>()) {
            self.site(labels).classes[class as usize - 1] += count as u64;
        }
    }

    fn add_bucket(&mut self, rest: &str) {
        let Some((labels, value)) = rest.rsplit_once('}') else { return };
        let bound = label(labels, "le").and_then(|bound| bound.trim_start_matches('+').parse::<f64>().ok());
        if let (Some(bound), Ok(count)) = (bound, value.trim().parse::<f64>()) {
            self.site(labels).buckets.push((bound, count as u64));
        }
    }

    /// All sites together.
    pub fn whole(&self) -> SiteFigures {
        let mut whole = SiteFigures::default();
        for site in self.sites.values() {
            whole.classes.iter_mut().zip(site.classes).for_each(|(sum, count)| *sum += count);
            for (position, (bound, count)) in site.buckets.iter().enumerate() {
                match whole.buckets.get_mut(position) {
                    Some((_, sum)) => *sum += count,
                    None => whole.buckets.push((*bound, *count)),
                }
            }
        }
        whole
    }
}

impl SiteFigures {
    /// What came in since `before`.
    pub fn since(&self, before: &SiteFigures) -> SiteFigures {
        let mut classes = self.classes;
        classes.iter_mut().zip(before.classes).for_each(|(now, was)| *now = now.saturating_sub(was));
        let was = |position: usize| before.buckets.get(position).map_or(0, |(_, count)| *count);
        let buckets = self.buckets.iter().enumerate().map(|(position, (bound, now))| (*bound, now.saturating_sub(was(position))));
        SiteFigures { classes, buckets: buckets.collect() }
    }

    /// The time that such a share of requests stayed below, in seconds: the upper end of its bucket.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all = self.buckets.last().map_or(0, |(_, count)| *count);
        let wanted = (all as f64 * share).ceil() as u64;
        let of_share = self.buckets.iter().find(|(_, count)| all > 0 && *count >= wanted)?;
        Some(of_share.0)
    }
}

/// The value of a label, without its escapes.
fn label(labels: &str, name: &str) -> Option<String> {
    let wanted = format!("{name}=\"");
    let start = labels
        .match_indices(&wanted)
        .map(|(at, _)| at)
        .find(|at| *at == 0 || labels.as_bytes().get(at - 1).is_some_and(|before| matches!(before, b',' | b'{')))?;
    let mut value = String::new();
    let mut characters = labels[start + wanted.len()..].chars();
    loop {
        match characters.next()? {
            '"' => return Some(value),
            '\\' => value.push(match characters.next()? {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, SiteFigures};

    const PAGE: &str = "\
# HELP tidegate_http_requests_total Requests answered.
# TYPE tidegate_http_requests_total counter
tidegate_http_requests_total{site=\"https://a.test\",status=\"200\",class=\"2xx\"} 90
tidegate_http_requests_total{site=\"https://a.test\",status=\"204\",class=\"2xx\"} 6
tidegate_http_requests_total{site=\"https://a.test\",status=\"503\",class=\"5xx\"} 4
tidegate_http_requests_total{site=\"https://b\\\"b\",status=\"404\",class=\"4xx\"} 1
tidegate_http_request_duration_seconds_bucket{site=\"https://a.test\",le=\"0.01\"} 50
tidegate_http_request_duration_seconds_bucket{site=\"https://a.test\",le=\"0.1\"} 98
tidegate_http_request_duration_seconds_bucket{site=\"https://a.test\",le=\"+Inf\"} 100
tidegate_http_request_duration_seconds_sum{site=\"https://a.test\"} 2.5
process_resident_memory_bytes 1048576
other 7
";

    #[test]
    fn sites_are_read_by_class_and_latency() {
        let figures = Figures::read(PAGE);
        let names: Vec<&str> = figures.sites.keys().map(String::as_str).collect();
        assert_eq!(names, ["https://a.test", "https://b\"b"]);
        let site = &figures.sites["https://a.test"];
        assert_eq!(site.classes, [0, 96, 0, 0, 4]);
        let quantiles = [0.5, 0.9, 0.99].map(|share| site.quantile(share));
        assert_eq!(quantiles, [Some(0.01), Some(0.1), Some(f64::INFINITY)]);
        assert_eq!(figures.resident_bytes, Some(1 << 20));
        assert_eq!(figures.whole().classes, [0, 96, 0, 1, 4]);
        assert_eq!(SiteFigures::default().quantile(0.5), None);
    }

    #[test]
    fn what_came_in_since_is_the_difference() {
        let before = Figures::read(PAGE);
        let now =
            Figures::read(&PAGE.replace("} 90", "} 95").replace("0.1\"} 98", "0.1\"} 103").replace("Inf\"} 100", "Inf\"} 105"));
        let since = now.sites["https://a.test"].since(&before.sites["https://a.test"]);
        assert_eq!((since.classes[1], since.quantile(0.5)), (5, Some(0.1)));
    }
}
