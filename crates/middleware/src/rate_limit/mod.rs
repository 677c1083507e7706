//! `rate-limit`: asks the process's table whether a request's key has some left, and says in the answer how much. The
//! arithmetic and the table are in the crate `limiting`.

use crate::context::{Context, Scratch};
use crate::limit_key::LimitKey;
use crate::limited::Limited;
use std::sync::Arc;
use std::time::Duration;
use tidegate_limiting::{Quota, Rates, Standing, Tables, Taken};
use tidegate_model::RateLimit;
use tidegate_wire::head::{RequestHead, ResponseHead};

#[derive(Debug)]
pub struct CompiledRateLimit {
    rates: Arc<Rates>,
    quota: Quota,
    key: LimitKey,
    cost: u32,
    pub status: u16,
    dry_run: bool,
    /// `None`: answers say nothing.
    fields: Option<Fields>,
}

/// What answers say (draft-ietf-httpapi-ratelimit-headers-11).
#[derive(Debug)]
struct Fields {
    /// The value of `RateLimit-Policy`: `"100/s";q=200;w=2`.
    policy: Box<[u8]>,
    /// How the value of `RateLimit` begins: `"100/s";r=`.
    start: Box<[u8]>,
}

impl CompiledRateLimit {
    /// `scope` is the site or the route that the limit stands in.
    pub fn new(limit: &RateLimit, scope: &str, tables: &Tables) -> CompiledRateLimit {
        let quota = Quota::new(limit.rate.count, limit.rate.period, limit.burst);
        let name = limit.policy_name();
        let fields = Fields {
            policy: format!("\"{name}\";q={};w={}", quota.burst(), seconds_up(quota.window()).max(1)).into_bytes().into(),
            start: format!("\"{name}\";r=").into_bytes().into(),
        };
        CompiledRateLimit {
            rates: tables.rates(&format!("{scope} {}", limit.identity()), limit.keys_max),
            quota,
            key: LimitKey::new(&limit.by, limit.ipv6_prefix),
            cost: limit.cost,
            status: limit.status,
            dry_run: limit.dry_run,
            // What is only tried out is nothing that clients should keep to.
            fields: (limit.headers && !limit.dry_run).then_some(fields),
        }
    }

    /// Whether answers get header fields of it.
    pub fn changes_response(&self) -> bool {
        self.fields.is_some()
    }

    /// False: the request is to be refused.
    pub fn lets_through(
        &self,
        request: &RequestHead,
        context: &Context<'_>,
        scratch: &mut Scratch,
        limited: &mut Limited,
    ) -> bool {
        let key = self.key.of(&self.rates.hasher, request, context, scratch);
        let (standing, wait) = match self.rates.take(key, &self.quota, self.cost, context.since_start) {
            Taken::Yes(standing) => (standing, None),
            Taken::No { standing, wait } => (standing, Some(wait)),
        };
        if self.fields.is_some() {
            limited.tell(standing);
        }
        let Some(wait) = wait else { return true };
        if self.dry_run {
            limited.dry_run.rate = true;
            return true;
        }
        limited.come_back_in(seconds_up(wait).max(1));
        false
    }

    /// `told` is what [`lets_through`](Self::lets_through) has left behind.
    pub fn write_fields(&self, told: &mut std::slice::Iter<'_, Standing>, response: &mut ResponseHead, scratch: &mut Scratch) {
        let Some(fields) = &self.fields else { return };
        // A request that ended before it came to this limit was not told anything.
        let Some(standing) = told.next() else { return };
        response.fields.push(b"ratelimit-policy", &fields.policy);
        let value = &mut scratch.rendered;
        value.clear();
        value.extend_from_slice(&fields.start);
        let mut digits = itoa::Buffer::new();
        value.extend_from_slice(digits.format(standing.left).as_bytes());
        value.extend_from_slice(b";t=");
        value.extend_from_slice(digits.format(seconds_up(standing.next_unit_in)).as_bytes());
        response.fields.push(b"ratelimit", value);
    }
}

/// Who comes after that many seconds comes late enough.
fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::CompiledRateLimit;
    use crate::context::{Context, Scratch};
    use crate::fixtures::{context, lines, request};
    use crate::limited::{DryRun, Limited};
    use std::time::Duration;
    use tidegate_limiting::Tables;
    use tidegate_model::{CountBy, Rate, RateLimit};
    use tidegate_wire::head::ResponseHead;

    fn limit(count: u32, seconds: u64, burst: u32) -> RateLimit {
        RateLimit {
            name: None,
            rate: Rate { count, period: Duration::from_secs(seconds) },
            burst,
            by: CountBy::Client,
            ipv6_prefix: 64,
            cost: 1,
            keys_max: 1_000,
            status: 429,
            headers: true,
            dry_run: false,
        }
    }

    /// Requests of one client at one moment: whether each is let through, what its answer says, and when it may come
    /// back.
    fn ask(limit: &CompiledRateLimit, ip: [u8; 4], at: Duration) -> (bool, Vec<String>, Option<u64>, DryRun) {
        let (mut limited, mut scratch) = (Limited::default(), Scratch::default());
        let context = Context { client_ip: ip.into(), since_start: at, ..context() };
        let is_let = limit.lets_through(&request("/", "example.com", &[]), &context, &mut scratch, &mut limited);
        let mut response = ResponseHead::default();
        limit.write_fields(&mut limited.told().iter(), &mut response, &mut scratch);
        (is_let, lines(&response.fields), limited.retry_after_seconds(), limited.dry_run)
    }

    #[test]
    fn answers_say_what_is_left() {
        let tables = Tables::default();
        let limit = CompiledRateLimit::new(&limit(5, 3_600, 2), "site", &tables);
        let check = |at: u64, is_let: bool, rate_limit: &str, retry_after: Option<u64>| {
            let (seen, fields, seen_after, _) = ask(&limit, [192, 0, 2, 1], Duration::from_secs(at));
            assert_eq!((seen, seen_after), (is_let, retry_after), "at {at} s");
            assert_eq!(fields, ["ratelimit-policy: \"5/h\";q=2;w=1440", &format!("ratelimit: {rate_limit}")]);
        };
        check(0, true, "\"5/h\";r=1;t=720", None);
        check(20, true, "\"5/h\";r=0;t=700", None);
        check(20, false, "\"5/h\";r=0;t=700", Some(700));
        check(719, false, "\"5/h\";r=0;t=1", Some(1));
        check(720, true, "\"5/h\";r=0;t=720", None);
        check(10_000, true, "\"5/h\";r=1;t=720", None);
        assert!(ask(&limit, [192, 0, 2, 2], Duration::ZERO).0, "another client");
    }

    #[test]
    fn a_part_of_a_second_is_a_second() {
        let limit = CompiledRateLimit::new(&limit(100, 1, 1), "site", &Tables::default());
        let (_, fields, _, _) = ask(&limit, [192, 0, 2, 1], Duration::ZERO);
        assert_eq!(fields, ["ratelimit-policy: \"100/s\";q=1;w=1", "ratelimit: \"100/s\";r=0;t=1"]);
        assert_eq!(ask(&limit, [192, 0, 2, 1], Duration::ZERO).2, Some(1));
    }

    #[test]
    fn what_is_tried_out_refuses_nothing_and_says_nothing_to_clients() {
        let limit = CompiledRateLimit::new(&RateLimit { dry_run: true, ..limit(1, 3_600, 1) }, "site", &Tables::default());
        let nothing = (true, Vec::new(), None, DryRun::default());
        assert_eq!(ask(&limit, [192, 0, 2, 1], Duration::ZERO), nothing);
        let seen = ask(&limit, [192, 0, 2, 1], Duration::ZERO);
        assert_eq!(seen, (true, Vec::new(), None, DryRun { rate: true, concurrency: false }));
        let quiet =
            CompiledRateLimit::new(&RateLimit { headers: false, ..self::limit(1, 3_600, 1) }, "quiet", &Tables::default());
        assert_eq!(ask(&quiet, [192, 0, 2, 1], Duration::ZERO), nothing);
        assert!(!ask(&quiet, [192, 0, 2, 1], Duration::ZERO).0);
    }

    #[test]
    fn a_limit_is_the_same_by_what_it_counts() {
        let tables = Tables::default();
        let at = Duration::from_secs(1);
        let first = CompiledRateLimit::new(&limit(1, 3_600, 1), "site", &tables);
        assert!(ask(&first, [192, 0, 2, 1], at).0);
        let check = |limit: RateLimit, scope: &str, is_known: bool| {
            let compiled = CompiledRateLimit::new(&limit, scope, &tables);
            assert_eq!(!ask(&compiled, [192, 0, 2, 1], at).0, is_known, "{limit:?} in {scope}");
        };
        check(limit(1, 3_600, 1), "site", true);
        check(RateLimit { status: 503, headers: false, ..limit(1, 3_600, 1) }, "site", true);
        check(limit(1, 3_600, 1), "route", false);
        check(limit(1, 60, 1), "site", false);
        check(RateLimit { name: Some("api".into()), ..limit(1, 3_600, 1) }, "site", false);
        // Three units more than the one that is used.
        let raised = CompiledRateLimit::new(&limit(4, 3_600, 4), "site", &tables);
        assert_eq!(
            (0..5).filter(|_| ask(&raised, [192, 0, 2, 1], at).0).count(),
            0,
            "an hour is missing still, as the whole of four"
        );
        assert_eq!((0..5).filter(|_| ask(&raised, [192, 0, 2, 1], at + Duration::from_secs(1_800)).0).count(), 2);
    }
}
