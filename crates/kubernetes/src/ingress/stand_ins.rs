//! Names that no rule of the Ingress is for, and that stand for hosts of its rules all the same.

use super::Reading;
use crate::annotations;
use crate::finding::{FindingCode, Severity};
use crate::fragment::{StandIn, StandInKind};
use crate::manner::{Manner, WrittenAlias};
use tidegate_model::HostPattern;

const WWW: &str = "www.";

pub(super) fn read(reading: &mut Reading<'_>, manner: &Manner) {
    if manner.aliases.is_empty() && !manner.leads_www {
        return;
    }
    let hosts: Vec<HostPattern> = reading.hosts.keys().cloned().collect();
    for host in &hosts {
        match other_name(host).filter(|_| manner.leads_www) {
            Some(name) => add(reading, &name, StandIn { kind: StandInKind::Redirect, host: host.clone() }),
            None if manner.leads_www => {
                let problem = format!("`{host}` is no name that could have `www.` in front of it: nothing leads there");
                let field = annotations::field(StandInKind::Redirect.annotation());
                reading.find(FindingCode::AnnotationInvalid, Severity::Warning, field, problem);
            }
            None => {}
        }
        for WrittenAlias { host: name, takes_all_below } in &manner.aliases {
            let kind = StandInKind::Alias { takes_all_below: *takes_all_below };
            add(reading, name, StandIn { kind, host: host.clone() });
        }
    }
}

/// With `www.` in front of it, or without.
fn other_name(host: &HostPattern) -> Option<HostPattern> {
    match host {
        HostPattern::Exact(name) => {
            let other = name.strip_prefix(WWW).map_or_else(|| format!("{WWW}{name}"), str::to_owned);
            Some(HostPattern::Exact(other))
        }
        HostPattern::Any
        | HostPattern::Wildcard(_)
        | HostPattern::DeepWildcard(_)
        | HostPattern::Ip(_)
        | HostPattern::Socket(_) => None,
    }
}

/// A rule of the Ingress for that name goes first.
fn add(reading: &mut Reading<'_>, name: &HostPattern, stand_in: StandIn) {
    if reading.hosts.get(name).is_some_and(|known| known.stands_for.is_empty()) {
        return;
    }
    if let Some(host) = reading.hosts.get_mut(&stand_in.host) {
        host.stand_ins.push(name.clone());
        reading.hosts.entry(name.clone()).or_default().stands_for.push(stand_in);
    }
}
