//! Who would be asked who it is, by what, and what is required of the answer; and what that means for answers that are
//! kept. What only the client knows, its password or token, is not looked at.

use tidegate_config::writing::shortened;
use tidegate_model::{
    ApiKeyAuth, ApiKeyPlace, ClaimTest, Filled, Jwt, KeySource, MatchLine, Oidc, Route, Site, Step, TokenPlace, log_ins,
};

/// A sentence for each step that asks, in the order in which they ask, and one on the cache.
pub fn notes(site: &Site, route: Option<&Route>, filled: &Filled) -> Vec<String> {
    let route_steps = route.map_or(&[][..], |route| &route.steps);
    let mut notes: Vec<String> = log_ins(&site.steps, route_steps).filter_map(|step| asked(step, filled)).collect();
    let keeps = route.is_some_and(|route| site.options.and(&route.options).cache.on().is_some());
    if keeps && !notes.is_empty() {
        notes.push("answers are kept for each who has logged in apart, and only those that say `public` or the like".to_owned());
    }
    notes
}

/// Which route is taken may hang on a token, which is not looked at.
pub fn note_of_claims(site: &Site) -> Option<String> {
    let asks = site.routes.iter().any(|route| MatchLine::ask_for_claims(&route.matches));
    asks.then(|| "conditions on claims are taken as those of a request without a token".to_owned())
}

fn asked(step: &Step, filled: &Filled) -> Option<String> {
    match step {
        Step::ClientAuth(_) => Some("`client-auth` wants a certificate of the client: without one it is 403".to_owned()),
        Step::BasicAuth(Some(_)) => {
            Some("`basic-auth` asks for a name and a password: this is for who logs in, without that it is 401".to_owned())
        }
        Step::Jwt(Some(jwt)) => Some(asked_for_token(jwt, filled)),
        Step::Oidc(Some(oidc)) => Some(asked_at_provider(oidc, filled)),
        Step::ApiKey(Some(auth)) => Some(asked_for_key(auth, filled)),
        Step::AuthAny(Some(any)) => Some(any_way(&any.tried(), filled)),
        Step::ForwardAuth(Some(auth)) => {
            let pool = shortened(&filled.shown(&auth.pool.0));
            Some(format!("`forward-auth` asks {pool} whether the request may go on: what it refuses is answered as it says"))
        }
        Step::BasicAuth(None)
        | Step::Oidc(None)
        | Step::ApiKey(None)
        | Step::AuthAny(None)
        | Step::ForwardAuth(None)
        | Step::Jwt(None)
        | Step::RequestHeader(_)
        | Step::ResponseHeader(_)
        | Step::Rewrite { .. }
        | Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::BodyLimit { .. }
        | Step::Allow(_)
        | Step::Deny(_)
        | Step::Cors(_)
        | Step::Csrf(_)
        | Step::RateLimit(_)
        | Step::ConcurrencyLimit(_) => None,
    }
}

fn asked_for_key(auth: &ApiKeyAuth, filled: &Filled) -> String {
    let places = auth.places.iter().map(|place| match place {
        ApiKeyPlace::Field(name) => format!("the field {}", shortened(&filled.shown(name))),
        ApiKeyPlace::Authorization(scheme) => format!("`Authorization: {}`", shortened(&filled.shown(scheme))),
        ApiKeyPlace::Query(name) => format!("the parameter {} of the query", shortened(&filled.shown(name))),
    });
    format!("`api-key` wants a key, in {}: without one it is 401", places.collect::<Vec<_>>().join(" or "))
}

fn any_way(ways: &[&Step], filled: &Filled) -> String {
    let said = ways.iter().filter_map(|way| match way {
        Step::Allow(_) => Some("an address of `allow`".to_owned()),
        way => asked(way, filled),
    });
    format!("`auth any` lets in by one of these: {}", said.collect::<Vec<_>>().join("; or "))
}

fn asked_for_token(jwt: &Jwt, filled: &Filled) -> String {
    let short = |text: &str| shortened(&filled.shown(text));
    let places: Vec<String> = jwt.places.iter().map(|place| place_text(place, &short)).collect();
    let issuers = jwt.issuers.iter().map(|issuer| {
        let who =
            issuer.issuer.as_deref().map_or_else(|| format!("whoever has a key of {}", keys_text(&issuer.keys)), str::to_owned);
        let audiences: Vec<String> = issuer.audiences.iter().map(|audience| short(audience)).collect();
        let audiences = if audiences.is_empty() { String::new() } else { format!(" for {}", audiences.join(" or ")) };
        format!("{}{audiences}", short(&who))
    });
    let issuers = issuers.collect::<Vec<_>>().join(", or ");
    let without =
        if jwt.is_optional { "without one the request goes on, with a bad one it is 401" } else { "without one it is 401" };
    let mut text = format!("`jwt` wants a token, in {}, of {issuers}: {without}", places.join(" or "));
    let required: Vec<String> = jwt.requirements.iter().map(|one| requirement_text(&one.claim, &one.test, &short)).collect();
    if !required.is_empty() {
        text.push_str(&format!("; it is 403 unless {}", required.join(", and ")));
    }
    text
}

fn asked_at_provider(oidc: &Oidc, filled: &Filled) -> String {
    let short = |text: &str| shortened(&filled.shown(text));
    let without = if oidc.is_optional {
        "who has not logged in goes on"
    } else {
        "pages are sent there, and all else without a session is 401"
    };
    let issuers: Vec<String> = oidc.providers().map(|one| short(&one.issuer)).collect();
    let mut text = format!("`oidc` wants a log-in at {}: {without}", issuers.join(" or "));
    let required: Vec<String> = oidc.requirements.iter().map(|one| requirement_text(&one.claim, &one.test, &short)).collect();
    if !required.is_empty() {
        text.push_str(&format!("; it is 403 unless {}", required.join(", and ")));
    }
    text
}

fn place_text(place: &TokenPlace, short: &impl Fn(&str) -> String) -> String {
    match place {
        TokenPlace::Authorization => "`Authorization: Bearer`".to_owned(),
        TokenPlace::Header(name) => format!("the field {}", short(name)),
        TokenPlace::Cookie(name) => format!("the cookie {}", short(name)),
        TokenPlace::Query(name) => format!("the parameter {} of the query", short(name)),
    }
}

fn keys_text(keys: &KeySource) -> String {
    match keys {
        KeySource::Url { url, .. } => url.clone(),
        KeySource::File(path) => path.display().to_string(),
    }
}

fn requirement_text(claim: &str, test: &ClaimTest, short: &impl Fn(&str) -> String) -> String {
    let claim = short(claim);
    match test {
        ClaimTest::Present => format!("it says {claim}"),
        ClaimTest::Equals(value) => format!("its {claim} is {}", short(value)),
        ClaimTest::Contains(value) => format!("its {claim} has {}", short(value)),
        ClaimTest::OneOf(values) => {
            format!("its {claim} is {}", values.iter().map(|value| short(value)).collect::<Vec<_>>().join(" or "))
        }
    }
}
