//! Snippets of a host: that of its server, which is about every path of it, and what they make of routes.

use super::routes::{Leading, Place, Routes, respond};
use super::variants::with_conditions;
use super::{Content, Member, Merging};
use crate::finding::{FindingCode, Severity};
use crate::manner::Manner;
use crate::reference::origin;
use crate::snippets::{BranchAnswer, BranchEnd, Fault, Ground, Planned, Snippet, SnippetSteps, planned};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_cluster::Key;
use tidegate_model::{ForwardAuth, HostPattern, Origin, Route, Scheme, Step};

static NOTHING: Snippet = Snippet { statements: Vec::new() };

/// What is said for all of a host.
pub struct HostSnippet<'m> {
    pub snippet: Arc<Snippet>,
    /// The Ingress whose snippet it is; that of the ConfigMap stands behind it.
    pub owner: Option<&'m Key>,
    pub origin: Option<Arc<Origin>>,
    /// Something of it is not known, so that nothing is answered there.
    pub is_shut: bool,
}

impl<'m> Merging<'m> {
    /// Of several Ingresses the oldest says it, as with ingress-nginx.
    pub(super) fn host_snippet(&mut self, members: &[Member<'m>]) -> HostSnippet<'m> {
        let mut found = HostSnippet { snippet: Arc::default(), owner: None, origin: None, is_shut: false };
        for Member { age, fragment } in members.iter().copied() {
            let snippets = &fragment.manner.snippets;
            match found.owner {
                _ if !snippets.is_of_hosts() => {}
                None => {
                    found = HostSnippet {
                        snippet: snippets.server.clone().unwrap_or_default(),
                        owner: Some(&age.key),
                        origin: Some(Arc::new(age.origin())),
                        is_shut: snippets.shuts_hosts,
                    }
                }
                Some(owner) => {
                    let message = format!(
                        "on `{}` the one of the Ingress `{owner}` counts, which is older: everything is served without this one there",
                        self.host
                    );
                    self.find(&age.key, FindingCode::AnnotationNotTaken, Severity::Warning, field("server-snippet"), message);
                }
            }
        }
        if let Some(of_all) = &self.site_defaults(members).snippet {
            found.snippet = Arc::new(Snippet::clone(&found.snippet).followed_by(of_all));
        }
        found.is_shut |= planned(&found.snippet, &NOTHING, self.plain_ground()).is_err();
        found
    }

    /// Nothing of whom is answered, since something for all of the host is not known.
    pub(super) fn note_shut_host(&mut self, members: &[Member<'m>], server: &HostSnippet<'m>) -> BTreeSet<Key> {
        if !server.is_shut {
            return BTreeSet::new();
        }
        let whose = server.owner.map_or("of the ConfigMap".to_owned(), |owner| format!("of the Ingress `{owner}`"));
        for Member { age, fragment } in members.iter().copied() {
            if Some(&age.key) != server.owner && !fragment.manner.is_shut {
                let message = format!(
                    "the `server-snippet` {whose} is about all of `{}`, and is not understood: mend that one; until then everything of this Ingress is answered with 503 there",
                    self.host
                );
                self.find(&age.key, FindingCode::ProtectionUnavailable, Severity::Error, field("server-snippet"), message);
            }
        }
        members.iter().map(|member| member.age.key.clone()).collect()
    }

    /// What cannot be had of snippets on this host.
    pub(super) fn note_faults(&mut self, members: &[Member<'m>], content: &Content<'m>) {
        let server = &content.server;
        if server.is_shut
            && let Some(owner) = server.owner
            && let Err(fault) = planned(&server.snippet, &NOTHING, self.plain_ground())
        {
            self.note_fault(owner, &fault);
            return;
        }
        for Member { age, fragment } in members.iter().copied() {
            let manner = &*fragment.manner;
            if manner.is_shut || server.is_shut || server.snippet.is_empty() && manner.snippets.location.is_none() {
                continue;
            }
            let location = manner.snippets.location.as_deref().unwrap_or(&NOTHING);
            if let Err(fault) = planned(&server.snippet, location, ground(manner, self.host, self.around.trusts_scheme)) {
                self.note_fault(&age.key, &fault);
            }
        }
    }

    fn note_fault(&mut self, key: &Key, Fault { is_of_server, line, word, says }: &Fault) {
        let name = if *is_of_server { "server-snippet" } else { "configuration-snippet" };
        let message = format!(
            "line {line}: `{word}`: {says}: write it otherwise, or remove it; until then everything of this Ingress is answered with 503 on `{}`",
            self.host
        );
        self.find(key, FindingCode::ProtectionUnavailable, Severity::Error, field(name), message);
    }

    fn plain_ground(&self) -> Ground<'m> {
        plain_ground(self.host, self.around.trusts_scheme)
    }
}

/// Of what no Ingress says anything.
fn plain_ground(host: &HostPattern, believes: bool) -> Ground<'_> {
    Ground { host, believes, is_asked: false, has_login: false, rewrites: false, has_networks: false }
}

fn ground<'g>(manner: &Manner, host: &'g HostPattern, believes: bool) -> Ground<'g> {
    Ground {
        host,
        believes,
        is_asked: manner.forward_auth.is_some(),
        has_login: manner.auth.is_some(),
        rewrites: manner.rewrite.to.is_some(),
        has_networks: manner.has_networks(),
    }
}

fn field(name: &str) -> String {
    format!("metadata.annotations[nginx.ingress.kubernetes.io/{name}]")
}

impl Routes<'_> {
    /// What the server's snippet answers itself, whichever path is asked for.
    pub(super) fn of_server(&self) -> Vec<Route> {
        let server = &self.content.server;
        if server.is_shut {
            return Vec::new();
        }
        let found = planned(&server.snippet, &NOTHING, plain_ground(self.host, self.trusts_scheme)).unwrap_or_default();
        let answered_by = found.into_iter().filter_map(|(branch, steps)| {
            let BranchEnd::Answered(answer) = branch.end else { return None };
            let of_map = || self.settings.ingress_nginx_config.as_ref().map(|key| Arc::new(origin("ConfigMap", key, None)));
            let origin = server.origin.clone().or_else(of_map);
            let route = Route { origin, ..Route::of_all(answer.terminal.clone()) };
            Some(with_conditions(answered(route, &[], &answer, &steps), &branch.conditions))
        });
        let answered: Vec<Route> = answered_by.collect();
        let count = answered.len();
        match (&self.content.guard, self.scheme) {
            // Nobody can show a certificate.
            (Some(_), Scheme::Http) => Vec::new(),
            // What others are told stands behind each path.
            (Some(_), Scheme::Https) => self.guarded(answered).into_iter().take(count).collect(),
            (None, _) => answered,
        }
    }

    /// `None`: something of it cannot be had, so that nothing is answered.
    fn planned<'p>(&'p self, manner: &'p Manner) -> Option<Vec<Planned<'p>>> {
        let location = manner.snippets.location.as_deref().unwrap_or(&NOTHING);
        planned(&self.content.server.snippet, location, ground(manner, self.host, self.trusts_scheme)).ok()
    }

    /// Routes of a place by what snippets say there; `go_on` makes those of requests that they leave alone, of which
    /// the path may be another one.
    pub(super) fn branched(
        &self,
        manner: &Manner,
        place: &Place,
        go_on: impl Fn(&BranchEnd, &SnippetSteps) -> Vec<Route>,
    ) -> Vec<Route> {
        let of_place = |terminal| place.clone().route(terminal);
        let planned = self.planned(manner).filter(|_| !self.content.server.is_shut);
        let Some(planned) = planned else { return vec![of_place(respond(503))] };
        let is_of_place = |branch: &&Planned<'_>| match &branch.0.end {
            BranchEnd::Answered(answer) => !answer.is_of_server,
            BranchEnd::GoesOn | BranchEnd::Unchanged | BranchEnd::Rewritten(_) => true,
        };
        let own: Vec<&Planned<'_>> = planned.iter().filter(is_of_place).collect();
        let of_branch = |(branch, steps): &&Planned<'_>| match &branch.end {
            BranchEnd::Answered(answer) => vec![answered(of_place(answer.terminal.clone()), &manner.steps, answer, steps)],
            end @ (BranchEnd::GoesOn | BranchEnd::Unchanged | BranchEnd::Rewritten(_)) => go_on(end, steps),
        };
        let mut routes: Vec<Vec<Route>> = own.iter().map(of_branch).collect();
        // The last is for those of no other one, and stands for all in front of it that are alike.
        let Some(last) = routes.pop() else { return Vec::new() };
        while routes.last().is_some_and(|before| *before == last) {
            routes.pop();
        }
        let conditioned = own.iter().zip(routes).flat_map(|((branch, _), routes)| {
            routes.into_iter().map(|route| with_conditions(route, &branch.conditions)).collect::<Vec<_>>()
        });
        conditioned.chain(last).collect()
    }

    /// To HTTPS, but for what snippets answer before that.
    pub(super) fn led_to_https(&self, manner: Option<&Manner>, place: Place, leading: Leading) -> Vec<Route> {
        match manner.filter(|manner| self.content.guard.is_none() && answers_first(manner)) {
            Some(manner) => self.branched(manner, &place, |_, _| vec![self.to_https(place.clone(), leading)]),
            None => vec![self.to_https(place, leading)],
        }
    }
}

/// The route with what a branch adds to it.
pub(super) fn stepped(mut route: Route, steps: &SnippetSteps) -> Route {
    let SnippetSteps { before, access, behind, .. } = steps;
    // Behind networks of the Ingress nobody is let in.
    let is_closed = route.steps.iter().flat_map(Step::parts).any(|step| matches!(step, Step::Allow(_)));
    let access = if is_closed { &[][..] } else { access };
    let (own_access, others): (Vec<Step>, Vec<Step>) =
        std::mem::take(&mut route.steps).into_iter().partition(|step| matches!(step, Step::Allow(_) | Step::Deny(_)));
    route.steps.extend(before.iter().cloned().chain(own_access).chain(access.iter().cloned()));
    let (paths, others): (Vec<Step>, Vec<Step>) = others.into_iter().partition(|step| matches!(step, Step::Rewrite { .. }));
    route.steps.extend(others);
    route.steps.extend(behind.iter().cloned().chain(paths));
    for step in &mut route.steps {
        let parts = match step {
            Step::AuthAny(Some(any)) => &mut any.ways[..],
            step => std::slice::from_mut(step),
        };
        for part in parts {
            if let Step::ForwardAuth(Some(auth)) = part {
                tell(auth, steps);
            }
        }
    }
    route
}

fn tell(auth: &mut ForwardAuth, SnippetSteps { copied, asked, .. }: &SnippetSteps) {
    for pattern in copied {
        if !auth.copied.iter().any(|known| known.text.eq_ignore_ascii_case(&pattern.text)) {
            auth.copied.push(pattern.clone());
        }
    }
    for (name, value) in asked {
        auth.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        auth.headers.push((name.clone(), value.clone()));
    }
}

/// A route that answers before anybody is asked who that is; preflights are answered before that.
pub(super) fn answered(mut route: Route, own: &[Step], answer: &BranchAnswer, steps: &SnippetSteps) -> Route {
    let is_of_answers = |step: &&Step| matches!(step, Step::ResponseHeader(_));
    let preflight = own.iter().filter(|step| matches!(step, Step::Cors(_)));
    let behind = steps.behind.iter().filter(is_of_answers);
    route.origin = route.origin.map(|origin| {
        let rule = [origin.rule.as_deref(), Some(&answer.said_at)].into_iter().flatten().collect::<Vec<_>>().join(".");
        Arc::new(Origin { rule: Some(rule), ..(*origin).clone() })
    });
    route.steps = steps.before.iter().chain(preflight).chain(behind).chain(&answer.rewrite).cloned().collect();
    route.terminal = answer.terminal.clone();
    route
}

/// Whether plain HTTP answers some of it itself, where the rest is led to HTTPS.
pub(super) fn answers_first(manner: &Manner) -> bool {
    manner.snippets.location.as_ref().is_some_and(|snippet| snippet.answers())
}
