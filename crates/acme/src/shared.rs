//! What all attempts of the engine share on its one thread: storage, ways to CAs, bounds, what is counted. No decision
//! is made here.

use crate::answers::Answers;
use crate::cause::{Blame, Cause, one_line};
use crate::contact::Contacts;
use crate::interface::Timing;
use crate::on_demand::ASKS_AT_A_TIME;
use crate::quota::Totals;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::rc::Rc;
use tidegate_dns_records::{DnsFault, Lookup, LookupSettings, Published, Publisher};
use tidegate_model::AcmeDns;
use tidegate_storage::{StorageFault, Store};
use tokio::sync::{Mutex, Semaphore, watch};

/// Orders that are on their way at the same time. A CA answers each of their requests in a tenth of a second, and
/// validates in seconds: two hundred names take minutes, and no CA takes it for an attack (Let's Encrypt allows 20
/// requests a second to new orders, and 300 orders in three hours).
pub const ORDERS_AT_A_TIME: usize = 16;
/// Look-ups and probes before orders; they wait for time limits more than for anything else, and must not hold up
/// orders of names that are fine.
pub const PREFLIGHTS_AT_A_TIME: usize = 32;

pub struct Shared {
    pub store: Store,
    pub contacts: Contacts,
    pub answers: Answers,
    pub timing: Timing,
    pub totals: RefCell<Totals>,
    /// Held while an account is looked up or made.
    pub accounts_alone: Mutex<()>,
    pub orders: Semaphore,
    pub preflights: Semaphore,
    /// Places for questions to `ask` of `on-demand`.
    pub asks: Semaphore,
    /// True once the engine is to end.
    pub stop: watch::Receiver<bool>,
    /// Of the names that are wanted.
    pub emails: RefCell<HashSet<Option<String>>>,
    lookups: RefCell<HashMap<Option<SocketAddr>, Lookup>>,
    publishers: RefCell<HashMap<AcmeDns, Rc<Publisher>>>,
    /// Records that were published by attempts which were cut short; see [`Shared::sweep`].
    left_over: RefCell<Vec<(Rc<Publisher>, Published)>>,
}

impl Shared {
    pub fn new(store: Store, answers: Answers, timing: Timing, stop: watch::Receiver<bool>) -> Shared {
        Shared {
            store,
            contacts: Contacts::default(),
            answers,
            timing,
            totals: RefCell::default(),
            accounts_alone: Mutex::new(()),
            orders: Semaphore::new(ORDERS_AT_A_TIME),
            preflights: Semaphore::new(PREFLIGHTS_AT_A_TIME),
            asks: Semaphore::new(ASKS_AT_A_TIME),
            stop,
            emails: RefCell::default(),
            lookups: RefCell::default(),
            publishers: RefCell::default(),
            left_over: RefCell::default(),
        }
    }

    pub fn is_email_in_use(&self, email: Option<&str>) -> bool {
        self.emails.borrow().iter().any(|known| known.as_deref() == email)
    }

    /// The look-up that asks this resolver; one is kept for each that is configured.
    pub fn lookup(&self, resolver: Option<SocketAddr>) -> Lookup {
        if let Some(known) = self.lookups.borrow().get(&resolver) {
            return known.clone();
        }
        let lookup = Lookup::new(LookupSettings { resolver, ..LookupSettings::default() });
        self.lookups.borrow_mut().insert(resolver, lookup.clone());
        lookup
    }

    /// The publisher at this provider; one is kept for each that is configured, and remembers zones.
    pub fn publisher(&self, dns: &AcmeDns, lookup: Lookup) -> Result<Rc<Publisher>, DnsFault> {
        if let Some(known) = self.publishers.borrow().get(dns) {
            return Ok(known.clone());
        }
        let publisher = Rc::new(Publisher::new(dns, lookup)?);
        self.publishers.borrow_mut().insert(dns.clone(), publisher.clone());
        Ok(publisher)
    }

    /// Settings that nobody uses any more take their publishers with them; their secrets should not stay.
    pub fn keep_publishers(&self, is_used: impl Fn(&AcmeDns) -> bool) {
        self.publishers.borrow_mut().retain(|dns, _| is_used(dns));
    }

    pub fn leave_over(&self, publisher: Rc<Publisher>, published: Published) {
        self.left_over.borrow_mut().push((publisher, published));
    }

    /// Takes away what attempts have left that were dropped in the middle and could not wait for it.
    pub async fn sweep(&self) {
        self.answers.sweep(&self.store).await;
        loop {
            let Some((publisher, published)) = self.left_over.borrow_mut().pop() else { return };
            withdraw(&publisher, &published).await;
        }
    }

    /// Returns when the engine is to end.
    pub async fn stopped(&self) {
        // An engine whose sender is gone is to end as well.
        let _ = self.stop.clone().wait_for(|is_stopped| *is_stopped).await;
    }
}

/// What storage says, as a cause. The last good certificate goes on being used meanwhile.
pub fn storage_cause(fault: &StorageFault) -> Cause {
    let remedy = fault.remedy();
    let text = fault.to_string();
    let text = text.strip_suffix(&format!("; {remedy}")).unwrap_or(&text);
    Cause::new(Blame::Storage, one_line(&format!("nothing can be ordered that cannot be kept: {text}")), remedy)
}

/// A record that stays does no harm but to order, so that it is only told.
pub async fn withdraw(publisher: &Publisher, published: &Published) {
    if let Err(fault) = publisher.withdraw(published).await {
        tracing::warn!(record = %published.name, %fault, "a record of dns-01 could not be taken away; it may be removed by hand");
    }
}
