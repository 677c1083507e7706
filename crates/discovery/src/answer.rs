//! What a source said, put in order, and what of it is news. Pure: it is given answers and tells events; who asks, and
//! when, is in the modules of the sources.

use crate::{Endpoint, Event, Fault};
use std::cmp::Reverse;

/// More servers than any pool has; a source that names more is taken for broken beyond that.
pub const ENDPOINTS_MAX: usize = 10_000;

/// What a source says, whole: never a difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Sorted by address, one of each, at most [`ENDPOINTS_MAX`].
    pub endpoints: Vec<Endpoint>,
    /// What of the answer could not be used.
    pub remark: Option<Fault>,
}

impl Answer {
    /// Of what stands twice, the one that is not leaving is kept, then that of the lowest priority, then that of the
    /// highest weight.
    pub fn new(mut endpoints: Vec<Endpoint>, remark: Option<Fault>) -> Answer {
        for endpoint in &mut endpoints {
            endpoint.addresses.sort_unstable();
            endpoint.addresses.dedup();
        }
        let preference = |endpoint: &Endpoint| (endpoint.is_leaving, endpoint.server.priority, Reverse(endpoint.server.weight));
        endpoints.sort_by(|a, b| {
            let by_address = a.server.address.cmp(&b.server.address);
            let by_zone = || (&a.server.zone, &a.addresses).cmp(&(&b.server.zone, &b.addresses));
            by_address.then_with(|| preference(a).cmp(&preference(b))).then_with(by_zone)
        });
        endpoints.dedup_by(|a, b| a.server.address == b.server.address);
        let surplus = endpoints.len() > ENDPOINTS_MAX;
        let too_many = || Fault::new(format!("{} servers are named; the first {ENDPOINTS_MAX} are used", endpoints.len()));
        let remark = remark.or_else(|| surplus.then(too_many));
        endpoints.truncate(ENDPOINTS_MAX);
        Answer { endpoints, remark }
    }
}

/// Between a source and whoever follows it: tells only what is new.
pub struct Reporter<R> {
    report: R,
    endpoints: Option<Vec<Endpoint>>,
    /// What was told and is not over.
    fault: Option<Event>,
}

impl<R: FnMut(Event)> Reporter<R> {
    pub fn new(report: R) -> Reporter<R> {
        Reporter { report, endpoints: None, fault: None }
    }

    pub fn answer(&mut self, answer: Answer) {
        let Answer { endpoints, remark } = answer;
        if self.endpoints.as_ref() != Some(&endpoints) {
            self.endpoints = Some(endpoints.clone());
            (self.report)(Event::Endpoints(endpoints));
        }
        match remark {
            Some(fault) => self.tell(Event::Remark(fault)),
            None if self.fault.take().is_some() => (self.report)(Event::Recovered),
            None => {}
        }
    }

    pub fn fault(&mut self, fault: Fault) {
        self.tell(Event::Fault(fault));
    }

    fn tell(&mut self, event: Event) {
        if self.fault.as_ref() != Some(&event) {
            self.fault = Some(event.clone());
            (self.report)(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, ENDPOINTS_MAX, Reporter};
    use crate::{Endpoint, Event, Fault};
    use tidegate_model::{Server, UpstreamAddress};

    /// `10.0.0.1:80`, with a weight after `*`, a priority after `^`, and `-` at the end when it is leaving.
    fn endpoint(text: &str) -> Endpoint {
        let is_leaving = text.ends_with('-');
        let (text, priority) = text.trim_end_matches('-').split_once('^').unwrap_or((text.trim_end_matches('-'), "0"));
        let (address, weight) = text.split_once('*').unwrap_or((text, "1"));
        let mut server = Server::new(UpstreamAddress::parse(address).expect("an address"));
        server.weight = weight.parse().expect("a weight");
        server.priority = priority.parse().expect("a priority");
        Endpoint { server, addresses: Vec::new(), is_leaving }
    }

    fn endpoints(text: &str) -> Vec<Endpoint> {
        text.split_whitespace().map(endpoint).collect()
    }

    #[test]
    fn an_answer_is_in_order_and_has_each_server_once() {
        let check = |said: &str, expected: &str| {
            assert_eq!(Answer::new(endpoints(said), None).endpoints, endpoints(expected), "for {said}");
        };
        check("10.0.0.2:80 10.0.0.1:80", "10.0.0.1:80 10.0.0.2:80");
        check("10.0.0.1:80 10.0.0.1:80 10.0.0.1:81", "10.0.0.1:80 10.0.0.1:81");
        check("10.0.0.1:80*2 10.0.0.1:80*3", "10.0.0.1:80*3");
        check("10.0.0.1:80*9^1 10.0.0.1:80*3", "10.0.0.1:80*3");
        check("10.0.0.1:80- 10.0.0.1:80^2", "10.0.0.1:80^2");
        check("", "");
    }

    #[test]
    fn servers_beyond_the_bound_are_left_out_and_told_of() {
        let many =
            |count: usize| (0..count).map(|number| endpoint(&format!("10.0.{}.{}:80", number / 256, number % 256))).collect();
        assert_eq!(Answer::new(many(ENDPOINTS_MAX), None).remark, None);
        let answer = Answer::new(many(ENDPOINTS_MAX + 1), None);
        assert_eq!(answer.endpoints.len(), ENDPOINTS_MAX);
        assert_eq!(answer.remark, Some(Fault::new("10001 servers are named; the first 10000 are used")));
    }

    /// `said`: `ok LIST`, `part LIST` for an answer that could not be used wholly, `fault TEXT`.
    fn check(said: &[&str], expected: &[&str]) {
        let mut seen = Vec::new();
        let mut reporter = Reporter::new(|event| {
            seen.push(match event {
                Event::Endpoints(endpoints) => {
                    let texts: Vec<String> = endpoints.iter().map(|endpoint| endpoint.server.address.to_string()).collect();
                    format!("endpoints {}", texts.join(" "))
                }
                Event::Fault(fault) => format!("fault {fault}"),
                Event::Remark(fault) => format!("remark {fault}"),
                Event::Recovered => "recovered".to_owned(),
            });
        });
        for said in said {
            let (kind, rest) = said.split_once(' ').unwrap_or((said, ""));
            match kind {
                "ok" => reporter.answer(Answer::new(endpoints(rest), None)),
                "part" => reporter.answer(Answer::new(endpoints(rest), Some(Fault::new("in part")))),
                _ => reporter.fault(Fault::new(rest)),
            }
        }
        assert_eq!(seen, expected, "for {said:?}");
    }

    #[test]
    fn only_news_is_told() {
        check(&["ok a:1", "ok a:1", "ok b:1 a:1", "ok a:1 b:1"], &["endpoints a:1", "endpoints a:1 b:1"]);
        check(&["ok"], &["endpoints "]);
        check(&["fault x", "fault x", "fault y"], &["fault x", "fault y"]);
        check(&["ok a:1", "fault x", "ok a:1", "fault x"], &["endpoints a:1", "fault x", "recovered", "fault x"]);
        check(&["fault x", "ok a:1"], &["fault x", "endpoints a:1", "recovered"]);
        check(
            &["part a:1", "part a:1 b:1", "ok a:1 b:1"],
            &["endpoints a:1", "remark in part", "endpoints a:1 b:1", "recovered"],
        );
    }
}
