//! Names by which a host is known beside those of its rules: aliases, and the one with or without `www.`.

use super::{Annotations, listed, shortened};
use crate::manner::{Manner, WrittenAlias};
use tidegate_model::HostPattern;
use tidegate_model::address::parse_host_pattern;

/// Aliases of an Ingress, each a site of its own with all routes of its host.
const ALIASES_MAX: usize = 32;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    manner.leads_www = annotations.switch("from-to-www-redirect") == Some(true);
    manner.aliases = aliases(annotations);
}

fn aliases(annotations: &mut Annotations<'_>) -> Vec<WrittenAlias> {
    const NAME: &str = "server-alias";
    let mut aliases: Vec<WrittenAlias> = Vec::new();
    for written in listed(annotations.text(NAME).unwrap_or_default()) {
        let problem = match alias(written) {
            Some(alias) if aliases.contains(&alias) => continue,
            Some(alias) if aliases.len() < ALIASES_MAX => {
                aliases.push(alias);
                continue;
            }
            Some(_) => format!("`{}` is not taken: there may be {ALIASES_MAX} aliases", shortened(written)),
            None => {
                format!(
                    "`{}` is not taken: an alias is a name, as in `example.org` or `*.example.org`, and no expression",
                    shortened(written)
                )
            }
        };
        annotations.leave_out(NAME, &problem);
    }
    aliases.sort();
    aliases
}

fn alias(written: &str) -> Option<WrittenAlias> {
    match parse_host_pattern(written).ok()? {
        host @ HostPattern::Exact(_) => Some(WrittenAlias { host, takes_all_below: false }),
        // Of nginx a star stands for any number of labels.
        host @ HostPattern::Wildcard(_) => Some(WrittenAlias { host, takes_all_below: true }),
        HostPattern::Any | HostPattern::DeepWildcard(_) | HostPattern::Ip(_) | HostPattern::Socket(_) => None,
    }
}
