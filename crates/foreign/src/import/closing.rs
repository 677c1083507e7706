//! Sites that stand without effect are closed where another site would answer for their hosts: what their own lines
//! keep clients out of is opened by none.

use super::Importer;
use crate::written::WrittenNode;
use std::collections::BTreeSet;

const CLOSED: &str = "closed, since another site would answer for what stands without effect above";

impl Importer<'_> {
    pub(super) fn close_what_is_off(&mut self) {
        let live: BTreeSet<String> =
            self.nodes.iter().filter(|node| !node.is_off).flat_map(|node| addresses(&node.text)).collect();
        let is_open = live.iter().any(|address| address.contains("://:") || address.contains("*."));
        if !is_open || self.nodes.iter().all(|node| !node.is_off) {
            return;
        }
        let mut kept = String::new();
        self.pools.nodes.iter().for_each(|node| node.write(0, &mut kept));
        self.nodes.iter().for_each(|node| node.write(0, &mut kept));
        let mut index = 0;
        while index < self.nodes.len() {
            index += 1;
            let node = &self.nodes[index - 1];
            let own: Vec<String> = addresses(&node.text).into_iter().filter(|address| !live.contains(address)).collect();
            // Nobody asks for a name that stands in the place of another.
            if !node.is_off || own.is_empty() || node.is_name_open {
                continue;
            }
            let Some(closed) = self.closed(node, &own, &kept) else { continue };
            closed.write(0, &mut kept);
            self.nodes.insert(index, closed);
            index += 1;
        }
    }

    /// The site with a refusal alone, and the lines about its certificate where `check` takes them.
    fn closed(&self, node: &WrittenNode, own: &[String], kept: &str) -> Option<WrittenNode> {
        let names: Vec<String> = own.iter().map(|address| tidegate_kdl::quoted(address)).collect();
        let of_tls = node.inside.iter().flatten().filter(|line| line.text == "tls" || line.text.starts_with("tls "));
        let lines = [of_tls.cloned().collect(), vec![WrittenNode::line("tls \"internal\"")], Vec::new()];
        lines.into_iter().find_map(|lines: Vec<WrittenNode>| {
            let answer = WrittenNode::line("respond 503");
            let mut closed = WrittenNode::block(format!("site {}", names.join(" ")), lines.into_iter().chain([answer]).collect());
            closed.comments.push(CLOSED.to_owned());
            let mut text = kept.to_owned();
            closed.write(0, &mut text);
            (self.sayings.refused)(&text).is_none().then_some(closed)
        })
    }
}

/// The addresses of a site; none of what is no site.
fn addresses(text: &str) -> Vec<String> {
    if !text.starts_with("site ") {
        return Vec::new();
    }
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
