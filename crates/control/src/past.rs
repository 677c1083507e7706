//! A request that has ended, by its id: what was decided about it then, and what the configuration of that time says to
//! one like it.

use crate::applying::ChangeFault;
use crate::control::Control;
use crate::source::{Proposal, read};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tidegate_api::{Explanation, PastRequest, Word};
use tidegate_explain::{Question, explain};
use tidegate_model::{Configuration, RequestIds};
use tidegate_proxy::recent::{RECENT_MAX, RecentRequest, RequestId};
use tidegate_proxy::worker::Worker;
use tidegate_transport::{DriverSock, Sock};

impl Control {
    /// Looks for a request among the last ones of every worker.
    pub fn past_request(&self, id: &str) -> Result<PastRequest, ChangeFault> {
        // As it is written in the log; ours in capitals are ours all the same.
        let lower = id.to_ascii_lowercase();
        let known = if RequestId::parse(&lower).is_some() { lower } else { id.to_owned() };
        if known.is_empty() || known.len() > RequestIds::BYTES_MAX || !known.bytes().all(|byte| byte.is_ascii_graphic()) {
            let shown: String = id.chars().take(RequestIds::BYTES_MAX).flat_map(char::escape_debug).collect();
            return Err(ChangeFault::Bad(format!(
                "`{shown}` is not a request id\n  help: an id is what `request_id` in the access log is, such as 32 hexadecimal digits"
            )));
        }
        let number = RequestId::of_text(&known);
        let look = move |worker: &Worker<DriverSock>| worker.recent.find(number, |request| read_back(known.as_bytes(), request));
        let found = self.workers.ask(look).into_iter().flatten().next();
        let mut found = found.ok_or_else(|| {
            ChangeFault::NotFound(format!(
                "the request {id} is not known\n  help: each worker keeps the last {RECENT_MAX} requests that failed, and as many that did not"
            ))
        })?;
        match found.unexplained.take().map_or_else(|| self.explain_again(&found), Err) {
            Ok(explanation) => found.explanation = Some(explanation),
            Err(why) => found.unexplained = Some(why),
        }
        found.text = render(&found);
        Ok(found)
    }

    fn explain_again(&self, past: &PastRequest) -> Result<Explanation, String> {
        let configuration = self.configuration_of(past.generation)?;
        let url = format!("{}://{}{}", past.scheme, with_port(&past.host, past.port), past.path_and_query);
        let headers: [&str; 0] = [];
        let request = Question::parse(&past.method, &url, &headers, Some(&past.client_ip.to_string()))?;
        explain(&configuration, &request, self.known())
    }

    fn configuration_of(&self, number: u64) -> Result<Arc<Configuration>, String> {
        if number == self.generation() {
            return Ok(self.configuration().clone());
        }
        let files = self.history.generations.files_of(number).ok_or(format!("generation {number} is no longer known"))?;
        let written = Proposal::Written(files);
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
    let RecentRequest { ended, asked } = request;
    let (name, server) = match (&ended.pool, &ended.past_pool) {
        (Some(pool), _) => {
            let server = ended.server.and_then(|server| pool.compiled.servers.get(server));
            (Some(&pool.compiled.name), server.map(|server| &server.authority))
        }
        (None, Some(past)) => (Some(&past.0), past.1.as_ref()),
        (None, None) => (None, None),
    };
    let answered = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(ended.at.elapsed());
    let is_cut = asked.host.is_cut() || asked.target.is_cut();
    PastRequest {
        id: text(id),
        answered: Timestamp::from_second(answered.as_secs().cast_signed()).unwrap_or(Timestamp::UNIX_EPOCH),
        text: String::new(),
        duration_us: ended.duration_us,
        status: ended.status,
        retries: ended.retries,
        client_ip: ended.client_ip,
        scheme: ended.scheme.as_str().into(),
        port: ended.listen_port,
        method: text(asked.method.bytes()),
        host: text(asked.host.bytes()),
        path_and_query: text(asked.target.bytes()),
        generation: ended.generation,
        site: ended.site.as_ref().map(|site| site.compiled.name.to_string()),
        route: ended.route.map(|route| route.0 as usize + 1),
        pool: name.map(ToString::to_string),
        server: server.map(ToString::to_string),
        reason: ended.reason.map(Word::from),
        setting: ended.setting.map(Word::from),
        explanation: None,
        unexplained: is_cut.then(|| "its host or path is longer than what is kept of it".to_owned()),
    }
}

fn render(past: &PastRequest) -> String {
    let mut text = format!(
        "{} {}://{}{}\n  from {} on port {}, answered {} with {} after {:?}\n  by generation {}\n",
        past.method,
        past.scheme,
        past.host,
        past.path_and_query,
        past.client_ip,
        past.port,
        past.answered,
        past.status,
        Duration::from_micros(past.duration_us),
        past.generation
    );
    let mut line = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("  {name}: {value}\n"));
        }
    };
    line("site", past.site.as_deref());
    line("route", past.route.map(|rank| format!("number {rank} of the site")).as_deref());
    line("pool", past.pool.as_deref());
    line("server", past.server.as_deref());
    line("tried again", (past.retries > 0).then(|| format!("{} times", past.retries)).as_deref());
    line("reason", past.reason.as_deref());
    line("setting", past.setting.as_deref());
    if let Some(explanation) = &past.explanation {
        text.push_str("\nA request like it, by that configuration, without its header fields:\n\n");
        text.push_str(&explanation.text);
    }
    if let Some(why) = &past.unexplained {
        text.push_str(&format!("\nIt cannot be explained further: {why}\n"));
    }
    text
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
