//! What a host asks of its clients: certificates. One handshake is for all paths, so that what the oldest Ingress asks
//! for holds for all of them, as with ingress-nginx; who asks otherwise is shut, and nobody is open whom it has kept
//! shut.

use super::variants::with_conditions;
use super::{Member, Merging};
use crate::clients::{ClientDemand, MannerClients};
use crate::finding::{FindingCode, Severity};
use crate::secret::KnownPair;
use crate::trust::ClientAuthority;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_cluster::Key;
use tidegate_model::{
    ClientAuth, ClientAuthMode, ClientCertificateForm, ClientCertificatePart, Condition, ConditionKind, Route, Scheme, Template,
    Terminal, TextPattern,
};

/// Of which clients a host answers.
pub struct Guard<'m> {
    pub clients: &'m MannerClients,
    /// What handshakes ask for.
    pub auth: ClientAuth,
}

/// What holds for the Ingresses of a host.
#[derive(Default)]
pub struct Guards<'m> {
    pub guard: Option<Guard<'m>>,
    /// Nothing of these is answered.
    pub shut: BTreeSet<Key>,
}

impl<'m> Merging<'m> {
    pub(super) fn guards(&mut self, members: &[Member<'m>]) -> Guards<'m> {
        let wanted = |member: &Member<'m>| member.fragment.manner.clients.as_ref().map(|clients| (member.age, clients));
        let asked = || members.iter().filter_map(wanted);
        let pairs = self.around.known.pairs;
        let found = asked().find_map(|(age, clients)| Some((age, Guard { clients, auth: auth(clients, pairs)? })));
        let lacking: BTreeMap<&str, &Key> = asked()
            .filter(|(_, clients)| auth(clients, pairs).is_none())
            .map(|(age, _)| (&*age.key.namespace, &age.key))
            .collect();
        let mut shut = BTreeSet::new();
        for Member { age, fragment } in members.iter().copied() {
            let problem = match (&found, &fragment.manner.clients) {
                _ if fragment.manner.is_shut => continue,
                // What it lacks itself shuts it.
                (Some((owner, guard)), Some(own)) if auth(own, pairs).is_some() && !own.is_like(guard.clients) => format!(
                    "the Ingress `{}` asks for other certificates of clients on `{}`, and a handshake asks but once: say the same in both",
                    owner.key, self.host
                ),
                (Some(_), _) | (None, Some(_)) => continue,
                (None, None) => match lacking.get(&*age.key.namespace) {
                    Some(other) => format!(
                        "the Ingress `{other}` asks for certificates of clients on `{}`, and nothing is there to verify them: mend that one",
                        self.host
                    ),
                    None => continue,
                },
            };
            shut.insert(age.key.clone());
            let message = format!("{problem}; until then everything of this Ingress is answered with 503 there");
            let field = "metadata.annotations[nginx.ingress.kubernetes.io/auth-tls-secret]";
            self.find(&age.key, FindingCode::ProtectionUnavailable, Severity::Error, field, message);
        }
        Guards { guard: found.map(|(_, guard)| guard), shut }
    }
}

/// `None`: there is no authority by which anybody could be verified.
fn auth(clients: &MannerClients, pairs: &BTreeMap<Key, KnownPair>) -> Option<ClientAuth> {
    let ClientAuthority { ca, crl } = ClientAuthority::of(pairs.get(&clients.secret)?, &clients.secret)?.ok()?;
    let mode = match clients.demand {
        ClientDemand::Required | ClientDemand::Optional => ClientAuthMode::Request,
        ClientDemand::Unverified => ClientAuthMode::Unverified,
    };
    // Servers are told in any case, so that nobody else tells them in its place.
    Some(ClientAuth { ca: vec![ca], crls: crl.into_iter().collect(), mode, forward: Some(ClientCertificateForm::Nginx) })
}

/// The routes of a path for those alone who may come there, and behind them what others are told.
pub fn guarded(routes: Vec<Route>, clients: &MannerClients, scheme: Scheme) -> Vec<Route> {
    let Some(first) = routes.first() else { return routes };
    let MannerClients { demand, subject, error_page, secret: _ } = clients;
    let end = |terminal: Terminal| Route { origin: first.origin.clone(), paths: first.paths.clone(), ..Route::of_all(terminal) };
    let shown =
        (*demand == ClientDemand::Required).then(|| certificate(ClientCertificatePart::Fingerprint, TextPattern::Present, false));
    let fits = subject
        .as_ref()
        .map(|subject| certificate(ClientCertificatePart::Subject, TextPattern::Regex(subject.to_string()), false));
    if shown.is_none() && fits.is_none() {
        return routes;
    }
    if scheme == Scheme::Http {
        // Nobody can show anything.
        return vec![end(respond(if shown.is_some() { 400 } else { 403 }))];
    }
    let refusal = || match error_page {
        Some(to) => end(Terminal::Redirect { to: to.clone(), status: 302, prefix: None }),
        None => end(respond(400)),
    };
    let others = match (&shown, &fits) {
        (Some(_), Some(_)) => {
            let nothing = certificate(ClientCertificatePart::Fingerprint, TextPattern::Present, true);
            vec![with_conditions(refusal(), &[nothing]), end(respond(403))]
        }
        (Some(_), None) => vec![refusal()],
        (None, _) => vec![end(respond(403))],
    };
    let conditions: Vec<Condition> = shown.into_iter().chain(fits).collect();
    let mut guarded: Vec<Route> = routes.into_iter().map(|route| with_conditions(route, &conditions)).collect();
    guarded.extend(others);
    guarded
}

fn certificate(part: ClientCertificatePart, value: TextPattern, negated: bool) -> Condition {
    Condition { negated, kind: ConditionKind::ClientCertificate { part, value } }
}

fn respond(status: u16) -> Terminal {
    Terminal::Respond { status, body: Template::default(), content_type: None }
}
