//! A past request as the API gives it, and as text.

use super::explanation;
use crate::api::PastRequest;
use tidegate_control::PastRequest as Found;

pub fn past_request(past: Found) -> PastRequest {
    let mut text = render(&past);
    let Found { id, answered, duration, status, retries, client_ip, scheme, listen_port, method, host, path_and_query, .. } =
        past;
    let (explained, unexplained) = match past.explanation {
        Ok(found) => (Some(explanation(found)), None),
        Err(why) => (None, Some(why)),
    };
    match (&explained, &unexplained) {
        (Some(explanation), _) => {
            text.push_str("\nA request like it, by that configuration, without its header fields:\n\n");
            text.push_str(&explanation.text);
        }
        (None, Some(why)) => text.push_str(&format!("\nIt cannot be explained further: {why}\n")),
        (None, None) => {}
    }
    PastRequest {
        id,
        text,
        answered: answered.to_string(),
        duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        status,
        retries,
        client_ip: client_ip.to_string(),
        method,
        scheme: scheme.as_str().to_owned(),
        host,
        path_and_query,
        port: listen_port,
        generation: past.generation,
        site: past.site,
        route: past.route,
        pool: past.pool,
        server: past.server,
        reason: past.reason.map(str::to_owned),
        setting: past.setting.map(str::to_owned),
        explanation: explained,
        unexplained,
    }
}

fn render(past: &Found) -> String {
    let mut text = format!(
        "{} {}://{}{}\n  from {} on port {}, answered {} with {} after {:?}\n  by generation {}\n",
        past.method,
        past.scheme.as_str(),
        past.host,
        past.path_and_query,
        past.client_ip,
        past.listen_port,
        past.answered,
        past.status,
        past.duration,
        past.generation
    );
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!("  {name}: {value}\n"));
        }
    };
    line("site", past.site.clone());
    line("route", past.route.map(|rank| format!("number {rank} of the site")));
    line("pool", past.pool.clone());
    line("server", past.server.clone());
    line("tried again", (past.retries > 0).then(|| format!("{} times", past.retries)));
    line("reason", past.reason.map(str::to_owned));
    line("setting", past.setting.map(str::to_owned));
    text
}
