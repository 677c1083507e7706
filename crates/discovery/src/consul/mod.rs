//! Healthy instances of a service in Consul, by blocking queries: the agent answers when something has changed. What an
//! answer means is in `services`; this asks, in plain text.

mod services;

use crate::answer::{Answer, Reporter};
use crate::backoff::Backoff;
use crate::http::{Answered, get};
use crate::{Event, Fault};
use http::StatusCode;
use std::time::Duration;
use tidegate_model::discover::ConsulDiscover;
use tidegate_model::{Scheme, TcpAddress};
use tidegate_outbound::percent_encoded;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// How long the agent may keep a question; it adds up to a sixteenth.
const WAIT: &str = "55s";
/// Beyond that, with time for the answer itself.
const ANSWER_LIMIT: Duration = Duration::from_secs(70);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Between an answer and the next question: what changes together is told at once, and an agent that does not wait is
/// not run over.
const PAUSE: Duration = Duration::from_millis(50);
/// For an agent that gives no index, and so cannot be waited on.
const PAUSE_WITHOUT_INDEX: Duration = Duration::from_secs(5);

pub async fn follow<R: FnMut(Event)>(discover: &ConsulDiscover, reporter: &mut Reporter<R>) -> ! {
    let mut backoff = Backoff::default();
    let mut index = 0;
    loop {
        let pause = match ask(discover, index).await {
            Ok((answer, index_now)) => {
                backoff.reset();
                reporter.answer(answer);
                index = services::next_index(index, index_now);
                if index_now == 0 { PAUSE_WITHOUT_INDEX } else { PAUSE }
            }
            Err(message) => {
                reporter.fault(Fault::new(message));
                // The first answer after a fault is to come at once.
                index = 0;
                backoff.pause(rand::random())
            }
        };
        sleep(pause).await;
    }
}

/// The instances, and the index that the next question waits on.
async fn ask(discover: &ConsulDiscover, index: u64) -> Result<(Answer, u64), String> {
    let agent = agent(&discover.agent)?;
    let token = discover.token.as_ref().map(|token| ("x-consul-token", token.reveal()));
    let asking = async {
        let connecting = TcpStream::connect((agent.host.as_str(), agent.port));
        let connected = timeout(CONNECT_LIMIT, connecting).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let stream =
            connected.map_err(|error| format!("cannot be connected to: {error}; start it, or name another with `agent=`"))?;
        let answered = get(stream, &agent.authority(), &target(discover, index), token.as_slice()).await?;
        if answered.status() != StatusCode::OK {
            return Err(refused(discover, answered).await);
        }
        let index = answered.headers().get("x-consul-index").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok((answered.whole().await?, index.unwrap_or(0)))
    };
    let sentence = |message: &str| format!("the Consul agent {} {message}", agent.authority());
    let asked = timeout(ANSWER_LIMIT, asking).await.unwrap_or_else(|_| Err("does not answer".into()));
    let (body, index) = asked.map_err(|message| sentence(&message))?;
    let (endpoints, faults) = services::read(&body).map_err(|message| sentence(&message))?;
    Ok((Answer::new(endpoints, faults.into_iter().min().map(Fault::new)), index))
}

fn agent(text: &str) -> Result<TcpAddress, String> {
    let agent = TcpAddress::parse(text).map_err(|message| format!("the agent `{text}`: {message}"))?;
    match agent.scheme {
        Scheme::Http => Ok(agent),
        Scheme::Https => Err(format!(
            "the agent `{text}`: asking over TLS is not supported; run an agent on this machine and name it with `http://`"
        )),
    }
}

fn target(discover: &ConsulDiscover, index: u64) -> String {
    let mut target = format!("/v1/health/service/{}?passing=1", percent_encoded(&discover.service));
    if index != 0 {
        target.push_str(&format!("&index={index}&wait={WAIT}"));
    }
    for (name, value) in [("tag", &discover.tag), ("dc", &discover.datacenter)] {
        if let Some(value) = value {
            target.push_str(&format!("&{name}={}", percent_encoded(value)));
        }
    }
    target
}

async fn refused(discover: &ConsulDiscover, answered: Answered) -> String {
    let status = answered.status();
    let reason = answered.reason().await;
    let remedy = match status {
        StatusCode::FORBIDDEN if discover.token.is_none() => {
            format!("; set `token=` to one that may read the service {}", discover.service)
        }
        StatusCode::FORBIDDEN => {
            format!("; its token must have `service:read` for {} and `node:read`", discover.service)
        }
        StatusCode::NOT_FOUND => "; is this a Consul agent?".to_owned(),
        StatusCode::INTERNAL_SERVER_ERROR => "; has the cluster a leader, and does the datacenter exist?".to_owned(),
        _ => String::new(),
    };
    format!("answers {} {reason}{remedy}", status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::{agent, target};
    use tidegate_model::discover::ConsulDiscover;

    fn discover() -> ConsulDiscover {
        ConsulDiscover { service: "web".into(), agent: ConsulDiscover::AGENT.into(), tag: None, datacenter: None, token: None }
    }

    #[test]
    fn what_is_asked() {
        let check = |discover: ConsulDiscover, index: u64, expected: &str| assert_eq!(target(&discover, index), expected);
        check(discover(), 0, "/v1/health/service/web?passing=1");
        check(discover(), 7, "/v1/health/service/web?passing=1&index=7&wait=55s");
        let tagged =
            ConsulDiscover { tag: Some("v=2&x".into()), datacenter: Some("dc1".into()), service: "a/b".into(), ..discover() };
        check(tagged, 0, "/v1/health/service/a%2Fb?passing=1&tag=v%3D2%26x&dc=dc1");
    }

    #[test]
    fn an_agent_is_asked_in_plain_text() {
        let check = |text: &str, expected: &str| {
            let seen = agent(text).map_or_else(|message| message, |agent| agent.authority());
            assert_eq!(seen, expected);
        };
        check("http://127.0.0.1:8500", "127.0.0.1:8500");
        check("consul.internal:8500", "consul.internal:8500");
        check(
            "https://consul:8501",
            "the agent `https://consul:8501`: asking over TLS is not supported; run an agent on this machine and name it with `http://`",
        );
        check("consul", "the agent `consul`: an upstream address needs a port, as in `consul:8080`");
    }
}
