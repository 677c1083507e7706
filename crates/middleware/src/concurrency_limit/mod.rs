//! `concurrency-limit`: a place for each request on its way, held with the request and given back when it is over. The
//! counts are in the crate `limiting`.

use crate::context::{Context, Scratch};
use crate::limit_key::LimitKey;
use crate::limited::Limited;
use std::sync::Arc;
use tidegate_limiting::{Permits, Tables};
use tidegate_model::ConcurrencyLimit;
use tidegate_wire::head::RequestHead;

/// Nobody knows when a place will be free; a second keeps clients that ask at once from asking at once.
const RETRY_AFTER_SECONDS: u64 = 1;

#[derive(Debug)]
pub struct CompiledConcurrencyLimit {
    permits: Arc<Permits>,
    key: LimitKey,
    requests_max: u32,
    pub status: u16,
    dry_run: bool,
}

impl CompiledConcurrencyLimit {
    /// `scope` is the site or the route that the limit stands in.
    pub fn new(limit: &ConcurrencyLimit, scope: &str, tables: &Tables) -> CompiledConcurrencyLimit {
        CompiledConcurrencyLimit {
            permits: tables.permits(&format!("{scope} {}", limit.identity())),
            key: LimitKey::new(&limit.by, limit.ipv6_prefix),
            requests_max: limit.requests_max,
            status: limit.status,
            dry_run: limit.dry_run,
        }
    }

    /// False: the request is to be refused.
    pub fn lets_through(
        &self,
        request: &RequestHead,
        context: &Context<'_>,
        scratch: &mut Scratch,
        limited: &mut Limited,
    ) -> bool {
        let key = self.key.of(&self.permits.hasher, request, context, scratch);
        let mut place = self.permits.enter(key, self.requests_max);
        if place.is_none() && self.dry_run {
            limited.dry_run.concurrency = true;
            // It goes on, so it counts for those behind it.
            place = self.permits.enter(key, u32::MAX);
        }
        let Some(place) = place else {
            limited.come_back_in(RETRY_AFTER_SECONDS);
            return false;
        };
        limited.hold(place);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::CompiledConcurrencyLimit;
    use crate::context::{Context, Scratch};
    use crate::fixtures::{context, request};
    use crate::limited::{DryRun, Limited};
    use tidegate_limiting::Tables;
    use tidegate_model::{ConcurrencyLimit, CountBy};

    fn limit(requests_max: u32, by: CountBy, dry_run: bool) -> ConcurrencyLimit {
        ConcurrencyLimit { name: None, requests_max, by, ipv6_prefix: 64, status: 429, dry_run }
    }

    fn ask(limit: &CompiledConcurrencyLimit, ip: [u8; 4]) -> (bool, Limited) {
        let mut limited = Limited::default();
        let context = Context { client_ip: ip.into(), ..context() };
        let head = request("/", "example.com", &[]);
        (limit.lets_through(&head, &context, &mut Scratch::default(), &mut limited), limited)
    }

    #[test]
    fn a_place_is_held_until_the_request_is_over() {
        let tables = Tables::default();
        let limit = CompiledConcurrencyLimit::new(&limit(2, CountBy::Client, false), "site", &tables);
        let mut held: Vec<Limited> = (0..2)
            .map(|_| ask(&limit, [192, 0, 2, 1]))
            .map(|(is_let, limited)| is_let.then_some(limited).expect("a place"))
            .collect();
        let (is_let, refused) = ask(&limit, [192, 0, 2, 1]);
        assert_eq!((is_let, refused.retry_after_seconds()), (false, Some(1)));
        assert!(ask(&limit, [192, 0, 2, 2]).0, "another client");
        held[0].clear();
        let again = ask(&limit, [192, 0, 2, 1]);
        assert!(again.0 && !ask(&limit, [192, 0, 2, 1]).0, "cleared for its next use");
        held.pop();
        assert!(ask(&limit, [192, 0, 2, 1]).0, "dropped");
    }

    #[test]
    fn what_is_on_its_way_counts_after_a_change_as_well() {
        let tables = Tables::default();
        let before = CompiledConcurrencyLimit::new(&limit(5, CountBy::All, false), "site", &tables);
        let _held: Vec<_> = (0..5).map(|_| ask(&before, [192, 0, 2, 1])).collect();
        let lowered = CompiledConcurrencyLimit::new(&limit(3, CountBy::All, false), "site", &tables);
        assert!(!ask(&lowered, [192, 0, 2, 2]).0);
        let raised = CompiledConcurrencyLimit::new(&limit(6, CountBy::All, false), "site", &tables);
        assert!(ask(&raised, [192, 0, 2, 2]).0);
    }

    #[test]
    fn what_is_tried_out_refuses_nothing_and_goes_on_counting() {
        let tables = Tables::default();
        let dry_run = CompiledConcurrencyLimit::new(&limit(1, CountBy::Client, true), "site", &tables);
        let held: Vec<_> = (0..3).map(|_| ask(&dry_run, [192, 0, 2, 1])).collect();
        assert!(held.iter().all(|(is_let, _)| *is_let));
        let refused: Vec<DryRun> = held.iter().map(|(_, limited)| limited.dry_run).collect();
        let would_be = DryRun { rate: false, concurrency: true };
        assert_eq!(refused, [DryRun::default(), would_be, would_be]);
        let in_earnest = CompiledConcurrencyLimit::new(&limit(3, CountBy::Client, false), "site", &tables);
        assert!(!ask(&in_earnest, [192, 0, 2, 1]).0);
    }
}
