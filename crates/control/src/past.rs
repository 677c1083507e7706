//! A request that has ended, by its id: what was decided about it then, and what the configuration of that time says to one like it.

use crate::change::ChangeFault;
use crate::control::Control;
use crate::explain::{ExplainRequest, Explanation, explain};
use crate::source::{Proposal, read};
use jiff::Timestamp;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tidegate_model::{Configuration, Scheme};
use tidegate_proxy::recent::{RECENT_MAX, RecentRequest, RequestId};
use tidegate_proxy::worker::Worker;
use tidegate_transport::{Sock, TokioSock};

/// 128 bits.
const ID_CHARS: usize = 32;

#[derive(Debug, Clone)]
pub struct PastRequest {
    pub id: String,
    pub answered: Timestamp,
    pub duration: Duration,
    pub status: u16,
    pub retries: u32,
    pub client_ip: IpAddr,
    pub scheme: Scheme,
    pub listen_port: u16,
    pub method: String,
    pub host: String,
    pub path_and_query: String,
    /// Its host or path was longer than what is kept.
    pub is_cut: bool,
    pub generation: u64,
    pub site: Option<String>,
    /// From 1, in file order.
    pub route: Option<usize>,
    pub pool: Option<String>,
    pub server: Option<String>,
    /// Why the proxy itself answered, or the exchange ended early.
    pub reason: Option<&'static str>,
    pub setting: Option<&'static str>,
    /// What that generation says to a request like it, without its header fields; `Err` says why that is not known.
    pub explanation: Result<Explanation, String>,
}

impl Control {
    /// Looks for a request among the last ones of every worker.
    pub fn past_request(&self, id: &str) -> Result<PastRequest, ChangeFault> {
        let bad = || {
            let shown: String = id.chars().take(ID_CHARS).flat_map(char::escape_debug).collect();
            ChangeFault::Bad(format!(
                "`{shown}` is not a request id\n  help: an id has {ID_CHARS} hexadecimal digits, as `request_id` in the access log"
            ))
        };
        // `from_str_radix` takes a sign.
        if id.len() != ID_CHARS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let number = u128::from_str_radix(id, 16).map_err(|_| bad())?;
        let look = move |worker: &Worker<TokioSock>| {
            worker.recent.find(RequestId(number), |request| read_back(&request.id.to_hex(), request))
        };
        let found = self.workers.ask(look).into_iter().flatten().next();
        let mut found = found.ok_or_else(|| {
            ChangeFault::NotFound(format!(
                "the request {id} is not known\n  help: each worker keeps the last {RECENT_MAX} requests that failed, and as many that did not"
            ))
        })?;
        found.explanation = self.explain_again(&found);
        Ok(found)
    }

    fn explain_again(&self, past: &PastRequest) -> Result<Explanation, String> {
        if past.is_cut {
            return Err("its host or path is longer than what is kept of it".into());
        }
        let configuration = self.configuration_of(past.generation)?;
        let url = format!("{}://{}{}", past.scheme.as_str(), with_port(&past.host, past.listen_port), past.path_and_query);
        let headers: [&str; 0] = [];
        let request = ExplainRequest::parse(&past.method, &url, &headers, Some(&past.client_ip.to_string()))?;
        explain(&configuration, &request)
    }

    fn configuration_of(&self, number: u64) -> Result<Arc<Configuration>, String> {
        if number == self.generation() {
            return Ok(self.configuration().clone());
        }
        let generation = self.generations.of_number(number).ok_or(format!("generation {number} is no longer known"))?;
        let written = Proposal::Written(generation.files.clone());
        read(written.load(&self.source, &mut tidegate_config::LoadMemory::default())).map(|read| Arc::new(read.configuration))
    }
}

fn with_port(host: &str, port: u16) -> String {
    // The port that was connected to, whatever the client wrote behind the host.
    let name = match host.rsplit_once(':') {
        Some((name, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    format!("{name}:{port}")
}

fn read_back<S: Sock>(id: &[u8], request: &RecentRequest<S>) -> PastRequest {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (name, server) = match (&request.pool, &request.past_pool) {
        (Some(pool), _) => {
            let server = request.server.and_then(|server| pool.compiled.servers.get(server));
            (Some(&pool.compiled.name), server.map(|server| &server.authority))
        }
        (None, Some(past)) => (Some(&past.0), past.1.as_ref()),
        (None, None) => (None, None),
    };
    PastRequest {
        id: text(id),
        answered: Timestamp::from_second(request.answered_unix_seconds.cast_signed()).unwrap_or(Timestamp::UNIX_EPOCH),
        duration: Duration::from_micros(request.duration_us),
        status: request.status,
        retries: request.retries,
        client_ip: request.client_ip,
        scheme: request.scheme,
        listen_port: request.listen_port,
        method: text(request.method.bytes()),
        host: text(request.host.bytes()),
        path_and_query: text(request.target.bytes()),
        is_cut: request.host.is_cut() || request.target.is_cut(),
        generation: request.generation,
        site: request.site.as_ref().map(|site| site.compiled.name.to_string()),
        route: request.route.map(|route| route.0 as usize + 1),
        pool: name.map(ToString::to_string),
        server: server.map(ToString::to_string),
        reason: request.reason,
        setting: request.setting,
        explanation: Err(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn the_port_is_the_one_that_was_connected_to() {
        let check = |host: &str, expected: &str| assert_eq!(with_port(host, 8443), expected, "{host}");
        check("example.com", "example.com:8443");
        check("example.com:443", "example.com:8443");
        check("[::1]", "[::1]:8443");
        check("[::1]:80", "[::1]:8443");
    }
}
