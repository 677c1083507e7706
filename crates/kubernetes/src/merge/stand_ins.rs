//! Names that no rule is for: another name of a host, which is answered as that is, and one that leads to it.

use super::extras::to_host;
use super::{Content, HostTls, Member, MergedHost, Merging, Surroundings, Taken, merge_as};
use crate::annotations;
use crate::finding::{FindingCode, Severity};
use crate::fragment::{StandIn, StandInKind, TlsClaim};
use crate::reference::Age;
use crate::secret::KnownPair;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::HostPattern;

/// What becomes of a name, of those who have it stand for hosts of theirs. `members_of` are those who have rules for a
/// host, by age.
pub fn stand_in<'m>(
    name: &'m HostPattern,
    claims: &[Member<'m>],
    members_of: &dyn Fn(&HostPattern) -> Vec<Member<'m>>,
    taken: &dyn Fn(&HostPattern) -> Taken,
    around: Surroundings<'m>,
) -> MergedHost {
    let mut merging = Merging { host: name, around, findings: Vec::new() };
    let claims = merging.owned(claims);
    let mut of_host: BTreeMap<&HostPattern, Vec<Member<'m>>> = BTreeMap::new();
    let mut found: Vec<(&StandIn, Member<'m>)> = Vec::new();
    for claim in claims {
        for wanted in &claim.fragment.stands_for {
            let members = of_host.entry(&wanted.host).or_insert_with(|| members_of(&wanted.host));
            match who_says(wanted.kind, members).filter(|age| age.key != claim.age.key) {
                Some(other) => merging.note_unsaid(claim, wanted, other),
                None => found.push((wanted, claim)),
            }
        }
    }
    // Stable: those of one kind stay by age.
    found.sort_by_key(|(wanted, _)| matches!(wanted.kind, StandInKind::Alias { .. }));
    let mut found = found.into_iter();
    let Some((chosen, owner)) = found.next() else {
        return MergedHost { findings: merging.findings, ..MergedHost::default() };
    };
    for (other, claim) in found {
        merging.note_other(claim, other, chosen, owner.age);
    }
    let findings = merging.findings;
    let own: Vec<(Member<'m>, &TlsClaim)> = owner.fragment.tls.iter().map(|claim| (owner, claim)).collect();
    let members = of_host.remove(&chosen.host).unwrap_or_default();
    let mut merged = match (chosen.kind, name) {
        (StandInKind::Alias { takes_all_below: true }, HostPattern::Wildcard(below)) => {
            let name = HostPattern::DeepWildcard(below.clone());
            merge_as(&name, &members, taken(&name), around, &own)
        }
        (StandInKind::Alias { .. }, name) => merge_as(name, &members, taken(name), around, &own),
        (StandInKind::Redirect, name) => leading(name, &chosen.host, (&members, &own), taken(name), around),
    };
    if let Some(obtained) = &mut merged.obtained {
        // The Secret of the host is to have the certificate of the host.
        obtained.secret = obtained.secret.take().filter(|secret| own.iter().any(|(_, claim)| claim.secret() == Some(secret)));
    }
    // What is wrong with the host is told of it already.
    merged.findings.retain(|(_, finding)| finding.code == FindingCode::CertificateForOthers);
    merged.findings.extend(findings);
    merged
}

/// The Ingress whose word counts where several say something: of aliases the oldest one's. `None`: everybody's does.
fn who_says<'m>(kind: StandInKind, members: &[Member<'m>]) -> Option<&'m Age> {
    let has_aliases = |member: &&Member<'m>| {
        let manner = &member.fragment.manner;
        manner.canary.is_none() && !manner.aliases.is_empty()
    };
    match kind {
        StandInKind::Redirect => None,
        StandInKind::Alias { .. } => members.iter().find(has_aliases).map(|member| member.age),
    }
}

/// All of a name leads to the host.
fn leading(
    name: &HostPattern,
    host: &HostPattern,
    (members, own): (&[Member<'_>], &[(Member<'_>, &TlsClaim)]),
    taken: Taken,
    around: Surroundings<'_>,
) -> MergedHost {
    let mut merging = Merging { host: name, around, findings: Vec::new() };
    // The certificate of the host does where it has both names.
    let covers = |claim: &TlsClaim| {
        let pair = claim.secret().and_then(|key| around.known.pairs.get(key)).and_then(KnownPair::pair);
        pair.is_some_and(|pair| pair.covers(name))
    };
    let of_host = members.iter().flat_map(|member| member.fragment.tls.iter().map(|claim| (*member, claim)));
    let own = own.iter().copied().filter(|(member, claim)| covers(claim) || merging.is_to_obtain(member, claim));
    let claims: Vec<(Member<'_>, &TlsClaim)> = own.chain(of_host.filter(|(_, claim)| covers(claim))).collect();
    // Plain HTTP leads to the host itself.
    let tls = match merging.tls(&[], &claims) {
        HostTls::Served { certificate } => HostTls::Plain { certificate: Some(certificate) },
        tls @ (HostTls::Plain { .. } | HostTls::Obtained(_)) => tls,
        HostTls::PassedOn | HostTls::Shut => HostTls::Plain { certificate: None },
    };
    if !tls.is_served()
        && let Some(member) = members.iter().find(|member| member.fragment.wants_tls())
    {
        let message = format!("no certificate is for `{name}`, so that HTTPS does not lead to `{host}`: add the name to one");
        let field = annotations::field(StandInKind::Redirect.annotation());
        merging.find(&member.age.key, FindingCode::CertificateForOthers, Severity::Warning, field, message);
    }
    let content = Content {
        app_root: None,
        paths: Vec::new(),
        rest: None,
        oldest: None,
        guard: None,
        server: merging.host_snippet(&[]),
        defaults: merging.site_defaults(members),
        ciphers: &[],
        tls,
        origin: members.first().map(|member| Arc::new(member.age.origin())),
    };
    let places = merging.places(members, taken);
    let site = merging.site(&content, places, || to_host(host, around.trusts_scheme));
    MergedHost {
        sites: site.into_iter().map(Arc::new).collect(),
        findings: merging.findings,
        obtained: content.tls.obtained().filter(|_| places.https.is_some()).cloned(),
        ..MergedHost::default()
    }
}

impl Merging<'_> {
    /// Somebody has a rule for the name, which goes first.
    pub(super) fn note_ruled(&mut self, claims: &[Member<'_>], owner: &Age) {
        for claim in claims {
            for wanted in &claim.fragment.stands_for {
                let message = format!("`{}` is a host of the Ingress `{}`, and its rules go first", self.host, owner.key);
                self.note_stand_in(claim.age, wanted.kind, message);
            }
        }
    }

    fn note_unsaid(&mut self, claim: Member<'_>, wanted: &StandIn, other: &Age) {
        let message = format!(
            "aliases of `{}` are those that the Ingress `{}` names, which {}",
            wanted.host,
            other.key,
            super::goes_first(other, claim.age)
        );
        self.note_stand_in(claim.age, wanted.kind, message);
    }

    fn note_other(&mut self, claim: Member<'_>, wanted: &StandIn, chosen: &StandIn, owner: &Age) {
        let message = match chosen.kind {
            StandInKind::Redirect => format!("`{}` leads to `{}` already", self.host, chosen.host),
            StandInKind::Alias { .. } => format!("`{}` is an alias of `{}` already", self.host, chosen.host),
        };
        let by = if owner.key == claim.age.key { String::new() } else { format!(", by the Ingress `{}`", owner.key) };
        self.note_stand_in(claim.age, wanted.kind, format!("{message}{by}"));
    }

    fn note_stand_in(&mut self, age: &Age, kind: StandInKind, message: String) {
        let field = annotations::field(kind.annotation());
        self.find(&age.key, FindingCode::HostTaken, Severity::Warning, field, message);
    }
}
