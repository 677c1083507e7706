//! Questions to the proxy's admin endpoint: a plain GET, and metrics in Prometheus text read into sums.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(5);

/// One GET on a fresh connection: status and body.
pub fn get(address: &str, path: &str) -> Result<(u16, String), String> {
    asked_with(address, path, "")
}

/// As [`get`], by who has this token.
pub fn asked_as(address: &str, path: &str, token: &str) -> Result<(u16, String), String> {
    asked_with(address, path, &format!("Authorization: Bearer {token}\r\n"))
}

fn asked_with(address: &str, path: &str, fields: &str) -> Result<(u16, String), String> {
    let text = |error: std::io::Error| format!("GET http://{address}{path}: {error}");
    let place = address.to_socket_addrs().map_err(text)?.next().ok_or_else(|| format!("{address} is no address"))?;
    // Where a pod has gone nobody refuses, and the system itself would try for two minutes.
    let mut connection = TcpStream::connect_timeout(&place, WAIT).map_err(text)?;
    connection.set_read_timeout(Some(WAIT)).map_err(text)?;
    connection.set_write_timeout(Some(WAIT)).map_err(text)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}Connection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).map_err(text)?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).map_err(text)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("GET {path}: no whole head: {answer:?}"))?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| format!("GET {path}: {head:?}"))?;
    let is_chunked = head.lines().any(|line| line.eq_ignore_ascii_case("transfer-encoding: chunked"));
    Ok((status, if is_chunked { dechunked(body) } else { body.to_owned() }))
}

fn dechunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let Ok(length @ 1..) = usize::from_str_radix(size.trim(), 16) else { break };
        let Some(chunk) = after.get(..length) else { break };
        body.push_str(chunk);
        rest = after.get(length + 2..).unwrap_or("");
    }
    body
}

/// One scrape.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub text: String,
}

impl Metrics {
    pub fn fetch(address: &str) -> Result<Metrics, String> {
        match get(address, "/metrics")? {
            (200, text) => Ok(Metrics { text }),
            (status, _) => Err(format!("GET /metrics: status {status}")),
        }
    }

    /// The sum of all series of that name which have at least the labels of `selector`, as in `name{reason="x"}`. None
    /// there: 0.
    pub fn sum(&self, selector: &str) -> f64 {
        let (name, labels) = split_series(selector);
        self.text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (series, value) = line.rsplit_once(' ')?;
                let (own_name, own_labels) = split_series(series);
                let fits = own_name == name && labels.iter().all(|label| own_labels.contains(label));
                fits.then(|| value.parse::<f64>().ok()).flatten()
            })
            .fold(0.0, |sum, value| sum + value)
    }

    /// The lines of one metric, for failure messages.
    pub fn lines_of(&self, selector: &str) -> String {
        let (name, _) = split_series(selector);
        let lines: Vec<&str> = self.text.lines().filter(|line| line.starts_with(name)).collect();
        if lines.is_empty() { format!("(no series named {name})") } else { lines.join("\n") }
    }
}

/// Name and labels of `name{a="1",b="2"}`.
fn split_series(series: &str) -> (&str, Vec<&str>) {
    let Some((name, rest)) = series.split_once('{') else { return (series.trim(), Vec::new()) };
    let mut labels = Vec::new();
    let mut rest = rest.trim_end_matches('}');
    while let Some(open) = rest.find('"') {
        let Some(close) = rest[open + 1..].find('"').map(|close| open + 1 + close) else { break };
        labels.push(rest[..=close].trim_start_matches(',').trim());
        rest = &rest[close + 1..];
    }
    (name.trim(), labels)
}

#[cfg(test)]
mod tests {
    use super::{Metrics, dechunked};

    #[test]
    fn series_are_summed_by_the_labels_asked_for() {
        let metrics = Metrics {
            text: "# HELP a help 7\na{x=\"1\",y=\"b, c\"} 2\na{x=\"1\",y=\"d\"} 3\na{x=\"2\"} 10\naa 5\nb 1.5\n".to_owned(),
        };
        for (selector, sum) in [
            ("a", 15.0),
            ("a{x=\"1\"}", 5.0),
            ("a{y=\"d\",x=\"1\"}", 3.0),
            ("a{x=\"3\"}", 0.0),
            ("b", 1.5),
            ("c", 0.0),
            ("aa", 5.0),
        ] {
            assert_eq!(metrics.sum(selector).to_string(), sum.to_string(), "{selector}");
        }
    }

    #[test]
    fn a_chunked_body_is_put_together() {
        assert_eq!(dechunked("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), "abcde");
    }
}
