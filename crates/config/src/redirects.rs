//! Redirects that lead clients to where they are: browsers give up on them, and nobody means one. Told where the target
//! is known for every request of the route, so not where conditions choose among them.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::directives::route::RouteDraft;
use crate::lowering::Lowering;
use crate::spans::WrittenAddress;
use tidegate_model::{HostPattern, PathPattern, Placeholder, SiteAddress, Step, Template, TemplatePart};

/// What stands for path and query as the client asked for them.
const AS_ASKED: &str = "\0";

/// Warns of each redirect of a site that is the address it is asked at.
pub fn check(lowering: &mut Lowering<'_>, routes: &[RouteDraft], addresses: &[WrittenAddress], has_steps: bool) {
    for route in routes.iter().filter(|route| !route.faulty && route.matches.is_empty()) {
        let Some((to, at)) = route.redirect() else { continue };
        let is_change = |step: &Step| matches!(step, Step::Rewrite { .. } | Step::StripPrefix(_) | Step::AddPrefix(_));
        // Where the path was changed on its way here, no placeholder has what was asked for.
        if route.steps.iter().any(|(step, _)| is_change(step)) {
            continue;
        }
        let has_steps = has_steps || !route.steps.is_empty();
        let leads_back = |written: &&WrittenAddress| leads_back(to, &written.address, route, has_steps);
        let Some(WrittenAddress { address, .. }) = addresses.iter().find(leads_back) else { continue };
        let at: Location = at.clone();
        let shown = lowering.shown(&address.to_string(), &at);
        let message = format!("this redirect leads clients of `{}` to where they are, again and again", shortened(&shown));
        let help = "give the addresses that lead elsewhere a `site` of their own, as in `site \"www.example.com\" { redirect \"https://example.com{uri}\" status=301 }`; \
                    to HTTPS a site without a scheme redirects by itself";
        lowering.report(Diagnostic::warning("redirect-to-itself", at, message).help(help));
    }
}

fn leads_back(to: &Template, address: &SiteAddress, route: &RouteDraft, has_steps: bool) -> bool {
    let Some(target) = expanded(to, address, has_steps) else { return false };
    let authority = match &address.host {
        HostPattern::Exact(name) => name.clone(),
        // The host of the request, in the place of which its name stands.
        HostPattern::Any | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) => "{host}".to_owned(),
        HostPattern::Ip(_) | HostPattern::Socket(_) => return false,
    };
    let scheme = address.scheme.as_str();
    let origins = if address.port == address.scheme.default_port() {
        vec![format!("{scheme}://{authority}"), format!("{scheme}://{authority}:{}", address.port)]
    } else {
        vec![format!("{scheme}://{authority}:{}", address.port)]
    };
    let rest = origins.iter().find_map(|origin| target.strip_prefix(origin.as_str())).unwrap_or(&target);
    let is_exact = |(path, _): &(PathPattern, Location)| matches!(path, PathPattern::Exact(path) if path == rest);
    rest == AS_ASKED || (!route.paths.is_empty() && route.paths.iter().all(is_exact))
}

/// The target for a request that comes to the address; `None` when it has parts of other kinds.
fn expanded(to: &Template, address: &SiteAddress, has_steps: bool) -> Option<String> {
    let mut target = String::new();
    for part in &to.parts {
        match part {
            TemplatePart::Literal(text) => target.push_str(text),
            TemplatePart::Placeholder(Placeholder::Uri | Placeholder::AskedUri) => target.push_str(AS_ASKED),
            TemplatePart::Placeholder(Placeholder::Path) if !has_steps => target.push_str(AS_ASKED),
            TemplatePart::Placeholder(Placeholder::Scheme) => target.push_str(address.scheme.as_str()),
            TemplatePart::Placeholder(Placeholder::Host) if address.port == address.scheme.default_port() => {
                match &address.host {
                    HostPattern::Exact(name) => target.push_str(name),
                    HostPattern::Any | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) => target.push_str("{host}"),
                    HostPattern::Ip(_) | HostPattern::Socket(_) => return None,
                }
            }
            TemplatePart::Placeholder(_) | TemplatePart::Capture(_) => return None,
        }
    }
    Some(target)
}
