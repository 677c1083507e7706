//! A look at one name: what storage has of it, and what its CA advises about renewal. At the start, now and then, and
//! when something is due.

use crate::cause::Cause;
use crate::certificate::Bundle;
use crate::contact::Conversation;
use crate::kept::{self, Unkept};
use crate::shared::{Shared, storage_cause};
use crate::stored::{self, Advice, Held, History};
use crate::subject::Subject;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tidegate_model::Acme;

/// Where a CA does not say when to ask again, or says what makes no sense (RFC 9773 section 4.3.2).
const ASK_AGAIN_DEFAULT: SignedDuration = SignedDuration::from_hours(6);
const ASK_AGAIN_MIN: SignedDuration = SignedDuration::from_mins(1);
const ASK_AGAIN_MAX: SignedDuration = SignedDuration::from_hours(24);

/// What was found.
pub struct Seen {
    /// With the bundle where it is another than was known.
    pub certificate: Option<(Held, Option<Bundle>)>,
    pub history: History,
    pub damage: Option<String>,
}

pub async fn look(
    shared: &Shared,
    subject: &Subject,
    acme: &Acme,
    known: Option<Held>,
    unkept: Option<Box<Unkept>>,
) -> Result<Seen, Cause> {
    if let Some(unkept) = unkept {
        kept::store_again(shared, subject, &unkept).await?;
    }
    let read = kept::read(shared, subject).await?;
    let Some((mut held, bundle)) = read.certificate else {
        // What was lost in storage is still in use, and still good.
        return Ok(Seen { certificate: known.map(|held| (held, None)), history: read.history, damage: read.damage });
    };
    let is_known = known.is_some_and(|known| known.leaf.serial == held.leaf.serial);
    if let Some(advice) = advice(shared, acme, &held).await {
        held.facts.advice = Some(advice);
        let written = shared.store.write(&stored::facts_key(subject), &stored::write(&held.facts)).await;
        if let Err(fault) = written {
            tracing::debug!(name = %subject, cause = %storage_cause(&fault), "advice about renewal cannot be kept");
        }
    }
    Ok(Seen { certificate: Some((held, (!is_known).then_some(bundle))), history: read.history, damage: None })
}

/// What the CA says now, if it is time to ask. No answer leaves what was known.
async fn advice(shared: &Shared, acme: &Acme, held: &Held) -> Option<Advice> {
    let now = Timestamp::now();
    if held.facts.advice.as_ref().is_some_and(|advice| advice.ask_again_at > now) || held.facts.is_revoked {
        return None;
    }
    let authority = acme.authorities.iter().find(|authority| Some(&authority.directory) == held.facts.directory.as_ref())?;
    let conversation = shared.contacts.open(authority, &authority.directory, shared.timing.request_max).await.ok()?;
    let id = held.leaf.renewal_id.as_ref()?;
    let url = conversation.directory.renewal_info.as_ref().map(|base| format!("{}/{id}", base.trim_end_matches('/')))?;
    match ask(&conversation, &url, now).await {
        Some(advice) => Some(advice),
        // Asked and not answered: the window that was known stays, and the next question waits its time.
        None => held.facts.advice.clone().map(|advice| Advice { ask_again_at: later(now, ASK_AGAIN_DEFAULT), ..advice }),
    }
}

async fn ask(conversation: &Conversation, url: &str, now: Timestamp) -> Option<Advice> {
    let answer = conversation.get(url).await.ok()?;
    let again = conversation.take_retry_after().map_or(ASK_AGAIN_DEFAULT, |when| when.duration_since(now));
    if answer.status() != StatusCode::OK {
        return None;
    }
    read_advice(answer.body(), again, now)
}

/// `again`: after how long the CA wants to be asked again.
fn read_advice(body: &[u8], again: SignedDuration, now: Timestamp) -> Option<Advice> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RenewalInfo {
        suggested_window: Window,
        #[serde(rename = "explanationURL")]
        explanation: Option<String>,
    }
    #[derive(Deserialize)]
    struct Window {
        start: String,
        end: String,
    }
    let info: RenewalInfo = serde_json::from_slice(body).ok()?;
    let (start, end) = (info.suggested_window.start.parse().ok()?, info.suggested_window.end.parse().ok()?);
    // Section 4.2: a window that ends before it starts is as if there were none.
    if end <= start {
        return None;
    }
    let explanation = info.explanation.map(|text| crate::cause::one_line(&text));
    Some(Advice { start, end, explanation, ask_again_at: later(now, again.clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX)) })
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::read_advice;
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn renewal_information_is_read_and_nonsense_is_none() {
        fn check(body: &str, again_secs: i64, expected: Option<(&str, i64)>) {
            let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
            let advice = read_advice(body.as_bytes(), SignedDuration::from_secs(again_secs), now);
            let seen = advice.map(|advice| (advice.start.to_string(), advice.ask_again_at.duration_since(now).as_secs()));
            assert_eq!(seen, expected.map(|(start, secs)| (start.to_owned(), secs)), "{body}");
        }
        let good = r#"{"suggestedWindow":{"start":"2026-07-01T00:00:00Z","end":"2026-07-02T00:00:00+02:00"},"explanationURL":"https://x"}"#;
        check(good, 21600, Some(("2026-07-01T00:00:00Z", 21600)));
        check(good, 0, Some(("2026-07-01T00:00:00Z", 60)));
        check(good, 1 << 40, Some(("2026-07-01T00:00:00Z", 86400)));
        check(r#"{"suggestedWindow":{"start":"2026-07-02T00:00:00Z","end":"2026-07-01T00:00:00Z"}}"#, 60, None);
        check(r#"{"suggestedWindow":{"start":"soon","end":"later"}}"#, 60, None);
        check("{}", 60, None);
    }
}
