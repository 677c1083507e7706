//! Virtual hosts of Envoy as sites, each with the routes of its own and what is said of all of them.

use super::hosts::{self, DomainList};
use super::routes::{self, RouteReader};
use super::{EnvoyReader, HttpConnections, filters, headers};
use crate::accounts::Origin;
use crate::outline::{Door, OutlinedAnswer, OutlinedSite, Service, TO_HTTPS, Whereabouts, any_depth, whereabouts};
use crate::tree::Tree;
use std::collections::BTreeSet;

const BEHIND: &str = "which cluster is asked hangs on conditions that no line here is told for, and all else comes behind them";
const REFUSED: &str = "a route that is not carried would take what comes to it, so that it is answered with 503";
const BEHIND_REFUSED: &str = "a route in front of it that is not carried would take a part of what comes to it, so that all of it is \
                              answered with 503";
/// Fields that Envoy says of a client itself, so that no server ever sees what the client has sent in them.
const OWN_FIELDS: &str = "request-header remove=\"X-Envoy-Internal\" remove=\"X-Envoy-External-Address\"";
const NO_NAME: &str = "none of its domains can stand in the address of a site: names are whole, or begin with `*.`";
const OF_OTHER_CHAIN: &str =
    "no client comes to it there: none of its domains is among the `server_names` of its chain, so it is left out";

const SPELLINGS: &str =
    "a name with another port behind it, or with a dot, comes to what all other hosts come to there, and is the same name here";

/// A list of hosts, and one of them.
type Places<'t> = (&'t Tree, &'t Tree);

impl EnvoyReader<'_> {
    pub(super) fn virtual_hosts(&mut self, config: &Tree, door: Door, server_names: &[String], manager: &HttpConnections<'_>) {
        let all = config.get("virtual_hosts").items();
        let domains: Vec<Vec<String>> = all.iter().map(|host| host.get("domains").texts()).collect();
        let lists = hosts::of_chain(&domains, server_names, |port| manager.authority.sees_port(port));
        // Who is asked for by another spelling of a name comes to another host there.
        let is_all = domains.iter().flatten().any(|domain| domain == "*");
        let has_spellings = manager.authority.is_as_sent() && domains.len() > 1;
        for (host, mut list) in all.iter().zip(lists) {
            let has_names = !list.names.is_empty() && !list.is_all;
            list.is_of_spellings = has_spellings && has_names && (is_all || !list.with_ports.is_empty());
            self.virtual_host((config, host), (door, server_names), &list, manager);
        }
    }

    /// A host in a chain for these server names.
    fn virtual_host(
        &mut self,
        (config, host): Places<'_>,
        (door, server_names): (Door, &[String]),
        list: &DomainList,
        manager: &HttpConnections<'_>,
    ) {
        let of_all = door.address(None).filter(|_| door != Door::HTTPS || manager.has_certificate);
        let own = whereabouts_of(list, door, of_all.as_ref());
        // Whoever asks for another name comes to another chain.
        let wide = server_names.iter().filter(|name| name.starts_with('*'));
        let of_patterns: Vec<String> = match server_names {
            [] => of_all.into_iter().collect(),
            // At one address of the machine names are hosts of its site.
            _ if door.ip.is_some() && list.patterns.is_empty() => door.address(None).into_iter().collect(),
            _ => wide.filter_map(|name| door.address(Some(&any_depth(name)))).collect(),
        };
        let mut site = OutlinedSite { origin: manager.origin.clone(), ..OutlinedSite::default() };
        let routes: BTreeSet<usize> = host.get("routes").statements();
        site.origin.within.extend(host.statements().difference(&routes));
        site.origin.carry_all(host.get("domains").statements());
        if list.is_of_spellings {
            site.origin.differ(host.get("domains").start(), SPELLINGS);
        }
        let has_patterns = !list.patterns.is_empty() || !list.with_ports.is_empty();
        if own.is_none() && (list.names.is_empty() || door.ip.is_none()) && !has_patterns {
            return self.because(host, if server_names.is_empty() { NO_NAME } else { OF_OTHER_CHAIN });
        }
        let require_tls = host.get("require_tls");
        let is_sending = !door.is_tls && matches!(require_tls.text(), Some("ALL" | "EXTERNAL_ONLY"));
        if door.is_tls || is_sending {
            site.origin.carry_all(require_tls.statements());
        }
        if is_sending {
            // Who comes there is sent to HTTPS, and to nothing else.
            self.outline.without.get_or_insert(TO_HTTPS);
            self.outline.done_without.extend(host.statements());
            if let Some(Whereabouts { addresses, .. }) = &own {
                // Filters have nothing to do there.
                let has_filters = !manager.steps.is_empty() || !manager.filters.leading.is_empty();
                let mut origin = if has_filters { Origin::default() } else { manager.origin.clone() };
                origin.carry_all(host.get("domains").statements());
                origin.carry_all(require_tls.statements());
                self.outline.redirects.push((addresses.clone(), origin));
            }
            site.answer = Some(OutlinedAnswer::Redirect { to: "https://{host}{uri}".to_owned(), status: 301 });
            self.patterned.extend(hosts::patterned(list, door, &of_patterns, &site));
            return;
        }
        site.steps.clone_from(&manager.steps);
        site.unsaid.push(OWN_FIELDS.to_owned());
        site.logs.clone_from(&manager.logs);
        headers::changes(host, &mut site.steps, &mut site.origin);
        filters::of_place(host, &mut site.steps, &mut site.origin);
        for access in &manager.filters.access {
            access.carry_of(host, &mut site.origin);
        }
        site.routes.clone_from(&manager.filters.leading);
        let is_told = self.fill((config, host), manager, &mut site);
        self.patterned.extend(hosts::patterned(list, door, &of_patterns, &site));
        let Some(Whereabouts { addresses, only_hosts, .. }) = own else { return };
        (site.addresses, site.only_hosts) = (addresses, only_hosts);
        if is_told {
            self.outline.services.push(Service::Site(site));
        } else if !list.is_all {
            self.closed.push(site);
        }
    }

    /// Adds the routes of a host; whether one of them is told.
    fn fill(&mut self, (config, host): Places<'_>, manager: &HttpConnections<'_>, site: &mut OutlinedSite) -> bool {
        let reader = RouteReader { clusters: &self.clusters, authority: manager.authority };
        let mut left: Vec<(&Tree, String)> = Vec::new();
        let (mut ended, mut is_told) = (None, false);
        for route in host.get("routes").items() {
            match ended {
                Some(REFUSED) => {
                    left.push((route, BEHIND_REFUSED.to_owned()));
                    continue;
                }
                // What stands behind a route for all is never reached.
                Some(_) => {
                    site.origin.carry_all(route.statements());
                    continue;
                }
                None => {}
            }
            match reader.read(route) {
                // What it leaves comes to the next there as well.
                Err((why, _)) if why == routes::CHANCE => left.push((route, why)),
                Err((why, mut refused)) => {
                    ended = (refused.patterns.is_empty() && refused.conditions.is_empty()).then_some(REFUSED);
                    refused.closed = Some(REFUSED);
                    site.routes.push(*refused);
                    left.push((route, why));
                }
                Ok(mut told) => {
                    is_told = true;
                    filters::of_place(route, &mut told.steps, &mut told.origin);
                    for access in manager.filters.access.iter().rev() {
                        access.guard([route, host, config], &mut told, &mut self.outline.reasons);
                    }
                    let is_bare = told.patterns.is_empty() && told.conditions.is_empty();
                    ended = is_bare.then_some("");
                    if is_bare && told.steps.is_empty() {
                        *site.answer_origin = told.origin;
                        site.answer = Some(told.answer);
                    } else {
                        site.routes.push(told);
                    }
                }
            }
        }
        if !left.is_empty() {
            self.outline.without.get_or_insert(BEHIND);
        }
        for (route, why) in left {
            self.because(route, &why);
        }
        if host.get("routes").items().is_empty() {
            site.origin.carry_all(host.get("routes").statements());
        }
        if site.answer.is_none() && site.routes.len() == manager.filters.leading.len() {
            site.answer = Some(OutlinedAnswer::status(404));
        }
        is_told
    }
}

/// Where the site of a host is, but for its patterns; at one address of the machine all names are asked one after
/// another.
fn whereabouts_of(list: &DomainList, door: Door, of_all: Option<&String>) -> Option<Whereabouts> {
    let names: Vec<String> = list.names.iter().map(|name| any_depth(name)).collect();
    let of_names = if names.is_empty() || door.ip.is_some() { None } else { whereabouts(&names, door) };
    match of_all {
        Some(address) if list.is_all => {
            let more = of_names.map(|own| own.addresses).unwrap_or_default();
            Some(Whereabouts { addresses: [vec![address.clone()], more].concat(), ..Whereabouts::default() })
        }
        _ if list.is_all => whereabouts(&[], door),
        _ => of_names,
    }
}
