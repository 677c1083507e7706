//! What a router names that is not served, so that nobody comes to it through another one: its hosts, its paths and its
//! conditions, at the priority that it has. Nothing else of it is read.

use super::{AskedRouter, RouterLabel, SERVER, as_route, checks, reaches, site_node};
use crate::diagnostics::{Location, Sources};
use crate::labels::offer::{Offer, OfferDraft, text_of};
use crate::labels::reach::{Reach, ReachedHost};
use crate::labels::tree::text;
use crate::syntax::Value;
use tidegate_foreign::beginning::settle_prefixes;
use tidegate_foreign::outline::{OutlinedAnswer, OutlinedSite, Service};
use tidegate_foreign::outline_of_labels;
use tidegate_foreign::written;

/// Whether a rule that is not understood is for the hosts that it names and for no others, as far as anybody can see.
fn names_its_hosts(rule: &str) -> bool {
    let has_others = rule.contains("HostRegexp") || rule.contains("||") || rule.contains('!') || rule.contains('$');
    let names = rule.split("Host(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix(['`', '"', '\'']));
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric());
    !has_others && names.map(is_name).reduce(|all, one| all && one).unwrap_or(false)
}

impl AskedRouter<'_, '_> {
    /// What is shut of it.
    pub fn refused(&self, sources: &mut Sources) -> Vec<Offer> {
        let Some(rule) = self.own("rule") else {
            let said: Vec<&str> = self.all_own().map(|label| label.value.as_str()).collect();
            let Some(first) = self.all_own().next() else { return Vec::new() };
            // Without a rule it is for a host of the container's name, unless a word of it is meant for one.
            let or_all = checks::slip_of_rule(self).is_some();
            return vec![self.unreadable(&said.join("\n"), or_all, first.text.whole())];
        };
        let unquoted = rule.value.trim().trim_matches(['"', '\'']);
        let at = rule.text.whole();
        let sites = self.sites(rule, unquoted);
        let Some(priority) = self.priority().filter(|_| !sites.is_empty()) else {
            let offer = self.unreadable(unquoted, !names_its_hosts(unquoted), at);
            return vec![Offer { priority: self.priority().or(offer.priority), ..offer }];
        };
        let offers: Option<Vec<Vec<Offer>>> = sites.iter().map(|site| self.shut(site, &at, sources)).collect();
        match offers {
            Some(offers) => offers.into_iter().flatten().map(|offer| Offer { priority: Some(priority), ..offer }).collect(),
            None => vec![self.unreadable(unquoted, !names_its_hosts(unquoted), at)],
        }
    }

    fn unreadable(&self, said: &str, or_all: bool, at: Location) -> Offer {
        Offer::unreadable(self.group, &format!("traefik {}", self.name), said, or_all, at)
    }

    /// What its rule takes, at its entry points, with the answer that says nothing.
    fn sites(&self, rule: &RouterLabel<'_>, unquoted: &str) -> Vec<OutlinedSite> {
        let tls = format!("http.routers.{}.tls", self.name);
        let mut pairs = vec![(rule.key, unquoted)];
        if self.has_tls() {
            pairs.push((&tls, "true"));
        }
        let points = if self.is_everywhere() {
            self.points.known(false)
        } else {
            pairs.extend(self.own("entrypoints").map(|label| (label.key, label.value.as_str())));
            self.points.known(true)
        };
        let outline = outline_of_labels(&pairs, &points, SERVER, &[80]);
        let sites = outline.services.into_iter().filter_map(|service| match service {
            Service::Site(mut site) => {
                for route in &mut site.routes {
                    route.answer = OutlinedAnswer::status(503);
                    // What begins with a text of letters takes more than whole segments, and so must this.
                    route.steps = vec!["deny \"all\"".to_owned()];
                    settle_prefixes(route);
                    route.steps.clear();
                }
                site.answer = site.answer.map(|_| OutlinedAnswer::status(503));
                site.steps.clear();
                Some(site)
            }
            Service::Tcp(_) => None,
        });
        sites.collect()
    }

    /// Whether it is at all entry points: where it names none, or one that nobody knows.
    fn is_everywhere(&self) -> bool {
        let is_known = |label: &RouterLabel<'_>| checks::names(&label.value).all(|name| self.points.port(name).is_some());
        !self.own("entrypoints").is_some_and(is_known)
    }

    fn shut(&self, site: &OutlinedSite, at: &Location, sources: &mut Sources) -> Option<Vec<Offer>> {
        let is_of_all = written::is_name_open(site) || !site.only_hosts.is_empty();
        let node = site_node(site, at, sources)?;
        let addresses: Vec<Value> = node.entries.into_iter().map(|entry| entry.value).collect();
        let addresses = addresses.iter().filter_map(text_of).map(|address| text(address, at)).collect();
        let (patterns, conditions, content) = as_route(node.children.unwrap_or_default());
        let mut draft = OfferDraft::new(self.group, &format!("traefik {}", self.name));
        draft.add(addresses, at.clone(), patterns, content, &mut Vec::new());
        let mut offers = draft.offers;
        for offer in &mut offers {
            offer.conditions.clone_from(&conditions);
            if is_of_all {
                // No name is said, and where it listens is of those that nobody has.
                offer.addresses.clear();
                offer.reaches = vec![Reach { host: ReachedHost::All, scheme: None, port: None }];
            } else if self.is_everywhere() {
                let named_and_known = self.own("entrypoints").is_none();
                offer.reaches = reaches(&offer.addresses, true, named_and_known && self.has_tls());
                offer.addresses.clear();
            }
        }
        Some(offers.into_iter().map(Offer::refused).collect())
    }
}
