//! Logs of single sites, as lines for the whole process that name them.

use super::Importer;
use crate::accounts::Origin;
use crate::outline::OutlinedSite;
use crate::site_logs::STDOUT;
use crate::written::WrittenNode;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;
use tidegate_model::AccessLog;

const TOO_MANY: &str = "there are more logs than the eight that are written: `site=` of one names several sites";
const OF_SEVERAL: &str =
    "what are several servers there is one site here, since they have one address: `site=` of a log would be for all of them";
const SAME_FILE: &str = "all sites are logged there";

/// A line for single sites.
#[derive(Debug)]
pub struct SiteLog {
    line: String,
    sites: Vec<String>,
    origin: Origin,
}

impl Importer<'_> {
    /// Notes what is logged of a site that is written.
    pub(super) fn note_logs(&mut self, site: &OutlinedSite) {
        self.has_unlogged |= site.logs.is_empty();
        let Some(address) = site.addresses.first() else { return };
        for log in &site.logs {
            match self.logs.iter_mut().find(|known| known.line == log.line) {
                Some(known) => {
                    known.sites.push(address.clone());
                    known.origin.add(&log.origin);
                }
                None => {
                    self.logs.push(SiteLog { line: log.line.clone(), sites: vec![address.clone()], origin: log.origin.clone() });
                }
            }
        }
    }

    /// Says why what is logged of one of several servers at one address is not.
    pub(super) fn leave_logs(&mut self, site: &OutlinedSite) {
        self.has_unlogged = true;
        for at in site.logs.iter().flat_map(|log| &log.origin.within) {
            self.reasons.entry(*at).or_insert_with(|| OF_SEVERAL.to_owned());
        }
    }

    pub(super) fn write_logs(&mut self) {
        let target = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
        let all: BTreeSet<String> = self
            .nodes
            .iter()
            .filter(|node| !node.is_off && node.text.starts_with("access-log "))
            .map(|node| target(&node.text))
            .collect();
        let mut count = all.len();
        if all.is_empty() && self.has_unlogged && !self.outline.is_logged_where_said && !self.logs.is_empty() {
            // Else sites without a log of their own would have none.
            self.nodes.push(WrittenNode::line(STDOUT));
            count += 1;
        }
        let mut written: BTreeSet<String> = BTreeSet::new();
        for log in std::mem::take(&mut self.logs) {
            let target = target(&log.line);
            if all.contains(&target) {
                log.origin.within.iter().for_each(|at| self.told.differ(*at, SAME_FILE));
            } else if count >= AccessLog::LOGS_MAX || !written.insert(target) {
                for at in &log.origin.within {
                    self.reasons.entry(*at).or_insert_with(|| TOO_MANY.to_owned());
                }
            } else {
                let line = format!("{} site={}", log.line, quoted(&log.sites.join(",")));
                self.nodes.push(WrittenNode::line(line).made_of(&log.origin.within));
                self.told.add(&log.origin);
                count += 1;
            }
        }
    }
}
