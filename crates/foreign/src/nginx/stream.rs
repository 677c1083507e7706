//! Servers of nginx that hand connections on as they are.

use super::scope::{nearest, time};
use super::upstreams::over_tls;
use super::{BY_VARIABLE, NginxReader, words};
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use crate::outline::{Door, OutlinedTcp, ServerGroup, Service, any_depth, tcp_address, upstream};

const UDP: &str = "UDP is not handed on in this version";
const ASKS_NO_ADDRESS: &str = "`tcp` asks no client for its address: have the firewall keep others from the port, or listen on an inner address, as in \
                               `tcp \"10.0.0.1:3306\"`";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";

impl<'s> NginxReader<'s> {
    pub(super) fn stream_server(&mut self, server: &'s Statement, stream: &'s [Statement]) {
        let inside = server.inside();
        let levels = [inside, stream];
        let mut origin = Origin { within: words::places([server]), ..Origin::default() };
        origin.within.extend(super::inherited(inside, stream));
        let mut doors: Vec<(Door, Vec<usize>)> = Vec::new();
        for listen in named(inside, "listen") {
            let has = |word: &str| listen.arguments().iter().any(|own| own == word);
            if has("udp") || has("quic") {
                self.outline.without.get_or_insert(UDP);
                continue;
            }
            if has("ssl") {
                self.outline.without.get_or_insert(TLS_OF_TCP);
                continue;
            }
            let Some(door) = Door::parse(listen.argument(), false) else { continue };
            match doors.iter_mut().find(|(known, _)| *known == door) {
                Some((_, places)) => places.push(listen.start()),
                None => doors.push((door, vec![listen.start()])),
            }
        }
        let Some(pass) = named(inside, "proxy_pass").next().filter(|_| !doors.is_empty()) else { return };
        origin.carry(pass.start());
        let rules = nearest(&levels, &["allow", "deny"]);
        // The first that has an address decides.
        if rules.first().is_some_and(|rule| rule.name() == "allow" && rule.argument() == "all") {
            origin.carry_all(rules.iter().map(|rule| rule.start()));
        } else {
            for rule in &rules {
                self.explain(rule.start(), ASKS_NO_ADDRESS);
            }
        }
        let Some((mut by_name, mut otherwise)) = self.targets(pass.argument(), &mut origin) else {
            self.outline.without.get_or_insert(BY_VARIABLE);
            return;
        };
        // What a server says is for all that it hands on to.
        let of = |name: &str| nearest(&levels, &[name]).first().copied().filter(|found| found.argument() == "on");
        for group in by_name.iter_mut().map(|(_, group)| group).chain(&mut otherwise) {
            if let Some(tls) = of("proxy_ssl") {
                *group = std::mem::take(group).over_tls();
                over_tls(pass, &levels, group);
                group.origin.carry(tls.start());
            }
            if let Some(line) = timeout(&levels, group) {
                group.add_line(line);
            }
            if let Some(header) = of("proxy_protocol") {
                group.add_line("send-proxy-protocol \"v1\"");
                group.origin.carry(header.start());
            }
        }
        // Each port hands on the same; what is said of one is not carried by the lines of another.
        for (door, places) in &doors {
            let mut origin = origin.clone();
            for at in doors.iter().flat_map(|(_, places)| places) {
                origin.within.remove(at);
            }
            origin.carry_all(places.iter().copied());
            let address = tcp_address(door.ip, door.port);
            let tcp = OutlinedTcp { address, by_name: by_name.clone(), otherwise: otherwise.clone(), origin, is_guessed: false };
            self.outline.services.push(Service::Tcp(tcp));
        }
    }

    /// Where connections go, by the names that clients ask for, and all others.
    #[expect(clippy::type_complexity, reason = "names with their servers, and the servers of all else")]
    fn targets(&self, target: &str, origin: &mut Origin) -> Option<(Vec<(Vec<String>, ServerGroup)>, Option<ServerGroup>)> {
        let Some(map) = self.maps.iter().find(|map| map.variable == target) else {
            return self.stream_group(target).map(|group| (Vec::new(), Some(group)));
        };
        if map.key != "$ssl_preread_server_name" {
            return None;
        }
        origin.carry(map.start);
        let (mut by_name, mut otherwise) = (Vec::new(), None);
        for (name, group) in map.rows.iter().filter(|(name, _)| !matches!(name.as_str(), "hostnames" | "volatile")) {
            let group = self.stream_group(group);
            match (name.as_str(), group) {
                ("default", group) => otherwise = group,
                (name, Some(group)) if !name.starts_with('~') && !name.is_empty() => {
                    let domain = name.trim_start_matches('.');
                    let names = if name.starts_with('.') {
                        vec![domain.to_owned(), format!("**.{domain}")]
                    } else {
                        vec![any_depth(domain)]
                    };
                    by_name.push((names, group));
                }
                _ => {
                    let how = "names that are expressions, or whose servers are unknown, are left out: what else takes them does";
                    origin.differs.insert(map.start, how.to_owned());
                }
            }
        }
        (!by_name.is_empty() || otherwise.is_some()).then_some((by_name, otherwise))
    }

    fn stream_group(&self, written: &str) -> Option<ServerGroup> {
        let known = self.groups.iter().find(|group| group.name == written).cloned();
        known
            .or_else(|| upstream(written).filter(|_| !written.contains('$')).map(ServerGroup::of))
            .filter(|group| !group.is_empty())
    }
}

/// How long is waited for a server, and for bytes.
fn timeout(levels: &[&[Statement]], group: &mut ServerGroup) -> Option<String> {
    let mut line = "timeout".to_owned();
    for (word, name) in [("proxy_connect_timeout", "connect"), ("proxy_timeout", "idle")] {
        let Some(said) = nearest(levels, &[word]).first().copied() else { continue };
        let Some(lasts) = time(said.argument()) else { continue };
        line.push_str(&format!(" {name}=\"{lasts}\""));
        group.origin.carry(said.start());
    }
    (line != "timeout").then_some(line)
}
