//! What storage has of a name, and what becomes of a certificate that has come: whether its dates let it be used, how
//! it is stored, and what is done when storage does not take it. The order that it came from is in `attempt`; when it
//! is tried again to store it, in `engine`.

use crate::cause::{Blame, Cause, minute, one_line};
use crate::certificate::{Bundle, Leaf};
use crate::shared::{Shared, storage_cause};
use crate::stored::{self, Facts, Held, History};
use crate::subject::Subject;
use jiff::{SignedDuration, Timestamp};
use tidegate_storage::StorageFault;
use zeroize::Zeroizing;

/// Clocks of hosts differ by seconds, and those of clients as well: nobody is told about so little.
pub const AHEAD_TOLERATED: SignedDuration = SignedDuration::from_secs(60);

/// A certificate that is in use and that storage did not take. Until it does, this process is the only one that has it;
/// a restart takes its order up again.
#[derive(Clone)]
pub struct Unkept {
    pub bundle: Bundle,
    pub facts: Facts,
    pub history: History,
    pub cause: Cause,
}

/// What storage has of a name.
#[derive(Default)]
pub struct Read {
    pub certificate: Option<(Held, Bundle)>,
    pub history: History,
    /// What lies there and is of no use, for the log.
    pub damage: Option<String>,
}

/// Reads what storage has of a name.
pub async fn read(shared: &Shared, subject: &Subject) -> Result<Read, Cause> {
    let read = async |key: String| shared.store.read(&key).await.map_err(|fault| storage_cause(&fault));
    let history = read(stored::history_key(subject)).await?;
    let history = history.and_then(|bytes| stored::parse(&bytes)).unwrap_or_default();
    let Some(bytes) = read(stored::bundle_key(subject)).await?.map(Zeroizing::new) else {
        return Ok(Read { certificate: None, history, damage: None });
    };
    let bundle = match std::str::from_utf8(&bytes) {
        Ok(text) => Bundle(Zeroizing::new(text.to_owned())),
        Err(_) => return Ok(Read { certificate: None, history, damage: Some("it is no text".into()) }),
    };
    match bundle.leaf_for(subject) {
        Ok(leaf) => {
            let facts = read(stored::facts_key(subject)).await?.and_then(|bytes| stored::parse::<Facts>(&bytes));
            Ok(Read { certificate: Some((Held::new(leaf, facts), bundle)), history, damage: None })
        }
        Err(fault) => Ok(Read { certificate: None, history, damage: Some(fault.to_string()) }),
    }
}

/// A certificate that has just come, by its dates.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    Usable,
    /// Not now, and another order would bring the same: this one stays, to be taken up when clocks agree.
    Later(Cause),
    /// Never; another one has to be ordered.
    Useless(Cause),
}

/// `begun_at`: when it was ordered, by this machine's clock.
pub fn judge(leaf: &Leaf, in_use: Option<&Held>, authority: &str, begun_at: Timestamp, now: Timestamp) -> Arrival {
    if leaf.not_after <= now && leaf.not_after <= begun_at {
        return Arrival::Later(Cause::new(
            Blame::Clock,
            format!(
                "{authority} has issued a certificate that ended on {}, and this machine's clock says {}",
                minute(leaf.not_after),
                minute(now)
            ),
            "set this machine's clock (NTP), or tell the CA that its own is wrong; the same order is taken up again by itself",
        ));
    }
    let end = leaf.chain_not_after.min(leaf.not_after);
    if end <= now {
        let whose = if leaf.not_after <= now { "a certificate" } else { "a chain with a certificate of its own" };
        return Arrival::Useless(Cause::new(
            Blame::Authority,
            format!("{authority} hands out {whose} that ended on {}", minute(end)),
            "another one is ordered by itself; check this machine's clock (NTP), and the CA's status page if it goes on",
        ));
    }
    let is_good = |held: &Held| !held.facts.is_revoked && held.leaf.not_before <= now && held.leaf.not_after > now;
    match early(leaf, now) {
        // What is in use is good for everybody whose clock is like ours.
        Some(cause) if in_use.is_some_and(is_good) => Arrival::Later(Cause {
            text: format!("{}: {}; the one in use stays", authority, cause.text),
            remedy: format!("{}; the same order is taken up again by itself", cause.remedy),
            ..cause
        }),
        Some(_) | None => Arrival::Usable,
    }
}

/// A certificate whose time has not come: our clock is behind, or the CA's is ahead.
pub fn early(leaf: &Leaf, now: Timestamp) -> Option<Cause> {
    let ahead = leaf.not_before.duration_since(now);
    (ahead > AHEAD_TOLERATED).then(|| {
        Cause::new(
            Blame::Clock,
            format!(
                "the certificate is valid from {} on, {} s from now by this machine's clock",
                minute(leaf.not_before),
                ahead.as_secs()
            ),
            "check this machine's clock (NTP), which is probably behind; else the CA's is ahead",
        )
    })
}

/// Stores a certificate, and only then forgets its order.
pub async fn store(shared: &Shared, subject: &Subject, bundle: &Bundle, facts: &Facts) -> Result<(), StorageFault> {
    let store = &shared.store;
    store.write(&stored::bundle_key(subject), bundle.0.as_bytes()).await?;
    store.write(&stored::facts_key(subject), &stored::write(facts)).await?;
    store.remove(&stored::order_key(subject)).await
}

/// Tries again to store what is in use already. Another process may have been faster, or have got a newer one since:
/// then that one counts.
pub async fn store_again(shared: &Shared, subject: &Subject, unkept: &Unkept) -> Result<(), Cause> {
    let failed = |fault: StorageFault| unkept_cause(&fault);
    let Some(lock) = shared.store.try_lock(&stored::order_lock(subject)).await.map_err(failed)? else {
        // It is this name's order that another one has taken up.
        return Err(unkept.cause.clone());
    };
    let outcome = store_alone(shared, subject, unkept).await;
    let _ = lock.release().await;
    outcome
}

async fn store_alone(shared: &Shared, subject: &Subject, unkept: &Unkept) -> Result<(), Cause> {
    let failed = |fault: StorageFault| unkept_cause(&fault);
    let stored = read(shared, subject).await?.certificate;
    let issued_at = |(held, _): &(Held, Bundle)| (held.facts.serial != unkept.facts.serial).then_some(held.facts.issued_at);
    if stored.as_ref().and_then(issued_at).is_some_and(|at| at > unkept.facts.issued_at) {
        return Ok(());
    }
    store(shared, subject, &unkept.bundle, &unkept.facts).await.map_err(failed)?;
    shared.store.write(&stored::history_key(subject), &stored::write(&unkept.history)).await.map_err(failed)
}

/// What storage says of a certificate that is there already.
pub fn unkept_cause(fault: &StorageFault) -> Cause {
    let remedy = fault.remedy();
    let text = fault.to_string();
    let text = text.strip_suffix(&format!("; {remedy}")).unwrap_or(&text);
    let remedy = format!("{remedy}; it is stored as soon as that works, and not ordered again");
    Cause::new(
        Blame::Storage,
        one_line(&format!("the certificate was obtained and is in use, but is not stored: {text}")),
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::{Arrival, judge};
    use crate::cause::Blame;
    use crate::certificate::Leaf;
    use crate::stored::Held;
    use jiff::{SignedDuration, Timestamp};

    fn at(hours: i64) -> Timestamp {
        let start: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        start + SignedDuration::from_hours(hours)
    }

    fn leaf(from_hours: i64, to_hours: i64, chain_to_hours: i64) -> Leaf {
        Leaf {
            not_before: at(from_hours),
            not_after: at(to_hours),
            chain_not_after: at(chain_to_hours),
            serial: "01".into(),
            renewal_id: None,
            der: Vec::new().into(),
        }
    }

    /// At hour 0; what is in use lasts until hour 10.
    fn check(leaf: &Leaf, begun_hours: i64, has_one: bool, expected: &str) {
        let in_use = Held::new(self::leaf(-100, 10, 10), None);
        let arrival = judge(leaf, has_one.then_some(&in_use), "the CA", at(begun_hours), at(0));
        let seen = match &arrival {
            Arrival::Usable => "usable".to_owned(),
            Arrival::Later(cause) => format!("later: {cause}"),
            Arrival::Useless(cause) => format!("useless: {cause}"),
        };
        assert!(seen.starts_with(expected), "{seen}");
        assert!(!matches!(&arrival, Arrival::Later(cause) if cause.blame != Blame::Clock), "{seen}");
    }

    #[test]
    fn dates_decide_what_becomes_of_a_certificate() {
        check(&leaf(-1, 2000, 9000), 0, true, "usable");
        // Ended before it was ordered: somebody's clock is wrong, and another order would bring the same.
        check(
            &leaf(-2000, -100, 9000),
            0,
            true,
            "later: the CA has issued a certificate that ended on 2026-05-27 20:00 UTC, and this machine's clock says 2026-06-01 00:00 UTC; set this",
        );
        // The order was left for long, and its certificate ended meanwhile.
        check(&leaf(-200, -1, 9000), -200, true, "useless: the CA hands out a certificate that ended on 2026-05-31 23:00 UTC");
        check(&leaf(-1, 2000, -5), 0, true, "useless: the CA hands out a chain with a certificate of its own that ended");
        check(
            &leaf(3, 2000, 9000),
            0,
            true,
            "later: the CA: the certificate is valid from 2026-06-01 03:00 UTC on, 10800 s from now by this machine's clock; the one in use stays; check",
        );
        // Better than none.
        check(&leaf(3, 2000, 9000), 0, false, "usable");
    }

    #[test]
    fn seconds_are_no_news() {
        let now = at(0);
        let mut leaf = leaf(0, 2000, 9000);
        leaf.not_before = now + SignedDuration::from_secs(59);
        assert!(super::early(&leaf, now).is_none());
        leaf.not_before = now + SignedDuration::from_secs(61);
        assert!(super::early(&leaf, now).is_some());
    }
}
