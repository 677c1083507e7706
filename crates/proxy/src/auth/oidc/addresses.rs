//! The log-in's own addresses: where the provider sends people back to, where somebody logs in or out, where the
//! provider says that a session has ended. They are answered in front of all routes.

use super::begin::{begin_log_in, read_flows, redirect_uri, with_query, write_flows};
use super::check::{OidcNews, OidcTicket, READY_MAX, await_session, open};
use super::reply::{OwedAnswer, reply};
use super::shared::{Errand, LogInOutcome, LogOutOutcome, ProviderState, SessionState};
use super::{now_unix, origin, random};
use crate::answering::{answer_refusal, answer_refusal_with};
use crate::failure::Failure;
use crate::surroundings::Surroundings;
use std::borrow::Cow;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tidegate_access::Jws;
use tidegate_access::oidc::{Flows, LogInState, Purpose, Realm, Revocation, Session, form, is_local};
use tidegate_exchange::{ClientFault, Exchange, body_fault, unless_gone};
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::{
    CompiledOidc, OidcAddress, OidcCookies, OidcOfSite, OidcRedirect, OidcRefusal, PAGE_FIELDS, Refusal, cookie_host,
    is_navigation,
};
use tidegate_transport::{Sock, rt};
use tidegate_wire::head::{Method, RequestHead};

/// As long as the provider has for its answers, and what keys of its take, and a little.
const LOG_IN_MAX: Duration = Duration::from_secs(25);
/// Of the body in which a provider says that a session has ended.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// A longer address is refused by servers on the way; a provider does without this part of it.
const HINT_BYTES_MAX: usize = 6000;
/// Parameters of a query that are looked at.
const PARAMETERS_MAX: usize = 50;

/// A site's log-ins, with the providers of each.
pub(crate) type LogIns<'l> = (&'l OidcOfSite, &'l [Arc<ProviderState>]);

/// Answers a request for one of these addresses.
pub(crate) async fn answer_address<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    log_ins: LogIns<'_>,
    address: OidcAddress,
) -> Result<(), Failure> {
    let shared = &around.connection.worker.process.oidc;
    if shared.state().is_none() {
        let waiting = rt::timeout(READY_MAX, shared.ready(None));
        unless_gone(&mut exchange.responder, &Cell::new(true), pin!(waiting)).await?;
    }
    let Some(state) = shared.state().clone() else {
        return answer_refusal(exchange, around, OidcRefusal::KeysMissing.into()).await;
    };
    let answered = match address {
        OidcAddress::Callback => end_log_in(exchange, around, log_ins, &state).await?,
        OidcAddress::LogIn => match log_in(exchange, around, log_ins, &state).await? {
            LogInAnswer::Redirected(redirected) => redirected,
            LogInAnswer::Page(page) => return send_page(exchange, around, &page).await,
        },
        OidcAddress::LogOut => log_out(exchange, around, log_ins, &state),
        OidcAddress::BackChannel => return take_log_out(exchange, around, log_ins).await,
    };
    match answered {
        Ok(redirect) => send_redirect(exchange, around, &redirect).await,
        Err(Refusal::Oidc(OidcRefusal::LogInNeeded)) => {
            let challenge = &log_ins.0.all()[0].challenge;
            let fields = [("www-authenticate", Cow::Borrowed(&**challenge))];
            answer_refusal_with(exchange, around, OidcRefusal::LogInNeeded.into(), &fields).await
        }
        Err(refusal) => answer_refusal(exchange, around, refusal).await,
    }
}

/// A redirect that nobody keeps.
pub(crate) async fn send_redirect<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    redirect: &OidcRedirect,
) -> Result<(), Failure> {
    begin_answer(redirect.status, &mut exchange.response);
    exchange.response.fields.push(b"location", redirect.location.as_bytes());
    exchange.response.fields.push(b"cache-control", b"no-store");
    exchange.record.status = redirect.status;
    around.run_response_steps(exchange);
    around.send_whole(exchange, b"").await
}

/// The page that asks with which provider somebody wants to log in.
async fn send_page<S: Sock>(exchange: &mut Exchange<'_, S>, around: Surroundings<'_, S>, page: &str) -> Result<(), Failure> {
    begin_answer(200, &mut exchange.response);
    for (name, value) in PAGE_FIELDS {
        exchange.response.fields.push(name.as_bytes(), value.as_bytes());
    }
    exchange.record.status = 200;
    around.run_response_steps(exchange);
    around.send_whole(exchange, page.as_bytes()).await
}

type Redirected = Result<OidcRedirect, Refusal>;

/// What becomes of somebody who wants to log in.
enum LogInAnswer {
    Redirected(Redirected),
    Page(String),
}

/// Parameters of a query or a form, decoded. Of a name that comes twice nobody knows which one counts: none does.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn read(text: &[u8]) -> Parameters {
        let pairs = text.split(|byte| *byte == b'&').take(PARAMETERS_MAX).filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            Some((decoded(&pair[..equals])?, decoded(&pair[equals + 1..])?))
        });
        Parameters(pairs.collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }
}

fn decoded(text: &[u8]) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, behind @ ..] = rest {
        let digit = |at: usize| rest.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = &rest[3..];
                continue;
            }
            (b'+', ..) => bytes.push(b' '),
            (byte, ..) => bytes.push(*byte),
        }
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

/// Somebody comes back from the provider.
async fn end_log_in<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    log_ins: LogIns<'_>,
    state: &SessionState,
) -> Result<Redirected, ClientFault> {
    let begun = match recognise(exchange, around, log_ins, state) {
        Ok(Recognised::BegunHere(begun)) => begun,
        Ok(Recognised::Elsewhere(redirect)) => return Ok(Ok(redirect)),
        Err(refusal) => return Ok(Err(refusal.into())),
    };
    let BegunLogIn { oidc, provider, code, verifier, nonce, redirect, back } = begun;
    let (owed, awaited) = reply();
    let errand = Errand::LogIn { provider: provider.clone(), code, verifier, nonce, redirect, reply: owed };
    if around.connection.worker.process.oidc.send(errand).is_err() {
        return Ok(Err(OidcRefusal::Busy.into()));
    }
    Ok(match wait(exchange, awaited).await? {
        Some(LogInOutcome::Session(session)) => keep(exchange, oidc, &session, state).map(|()| back).map_err(Into::into),
        Some(LogInOutcome::BadAnswer) => Err(OidcRefusal::BadAnswer.into()),
        Some(LogInOutcome::Busy) => Err(OidcRefusal::Busy.into()),
        Some(LogInOutcome::Away) | None => Err(OidcRefusal::ProviderAway.into()),
    })
}

/// Waits for the thread. The error is the client's leaving.
async fn wait<T, S: Sock>(exchange: &mut Exchange<'_, S>, awaited: OwedAnswer<T>) -> Result<Option<T>, ClientFault> {
    let waiting = rt::timeout(LOG_IN_MAX, awaited);
    Ok(unless_gone(&mut exchange.responder, &Cell::new(true), pin!(waiting)).await?.flatten())
}

/// Puts a session into the browser's cookies.
fn keep<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    oidc: &CompiledOidc,
    session: &Session,
    state: &SessionState,
) -> Result<(), OidcRefusal> {
    let now = now_unix();
    let host = cookie_host(&exchange.head).into_owned();
    let sealed = state.keys.seal(Purpose::Session, oidc.realm(&host), session.write(), now, random()?);
    let of_request = exchange.oidc.get_or_insert_default();
    let before = of_request.cookies.chunks(&oidc.names);
    let Some(lines) = oidc.names.set_session(&sealed, before, session.ends.saturating_sub(now)) else {
        tracing::error!(
            issuer = oidc.settings.provider.issuer,
            bytes = sealed.len(),
            remedy = "have the provider put less into its tokens (groups, roles), or leave out `forward-access=`",
            "a session is longer than cookies may be"
        );
        return Err(OidcRefusal::TooLarge);
    };
    of_request.set_cookies.extend(lines);
    Ok(())
}

/// A log-in that was begun by this browser and can be brought to its end.
struct BegunLogIn<'l> {
    oidc: &'l CompiledOidc,
    provider: &'l Arc<ProviderState>,
    code: String,
    verifier: String,
    nonce: String,
    redirect: String,
    /// Where it began.
    back: OidcRedirect,
}

enum Recognised<'l> {
    BegunHere(BegunLogIn<'l>),
    /// Nothing is to be done but to go where the log-in was to lead.
    Elsewhere(OidcRedirect),
}

fn recognise<'l, S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    (site, providers): LogIns<'l>,
    state: &SessionState,
) -> Result<Recognised<'l>, OidcRefusal> {
    if !matches!(exchange.head.method, Method::Get) {
        return Err(OidcRefusal::BadRequest);
    }
    let parameters = Parameters::read(exchange.head.query().unwrap_or_default());
    let given = parameters.get("state").ok_or(OidcRefusal::BadRequest)?;
    let (path, host) = (exchange.head.path(), cookie_host(&exchange.head).into_owned());
    let of_path = site.all().iter().zip(providers).filter(|(oidc, _)| oidc.settings.callback_path().as_bytes() == path);
    let found = of_path.into_iter().find_map(|(oidc, provider)| {
        let opened = state.keys.open(Purpose::State, oidc.realm(&host), given.as_bytes())?;
        Some((oidc, provider, LogInState::read(&opened)?))
    });
    let (oidc, provider, log_in) = found.ok_or(OidcRefusal::UnknownState)?;
    let (now, here) = (now_unix(), origin(exchange, around)?);
    if !log_in.is_fresh(now) || !is_of_site(&log_in.origin, &here, oidc) {
        return Err(OidcRefusal::UnknownState);
    }
    let target = if *log_in.origin == *here { log_in.target.to_string() } else { format!("{}{}", log_in.origin, log_in.target) };
    let back = OidcRedirect { status: 302, location: target };
    let realm = oidc.realm(&host);
    let read = |cookies: &OidcCookies| read_flows(cookies, (oidc, realm), state, now);
    let read = exchange.oidc.as_ref().and_then(|of_request| read(&of_request.cookies));
    let has_flows = read.is_some();
    let mut flows = read.unwrap_or_default();
    let Some(flow) = flows.take(&log_in.id) else {
        // Its cookie has gone to another tab's log-in, or it was used already: by who is logged in since. What comes of
        // its code is nobody's; where it was to lead, the browser may go.
        let is_in = || open(exchange, around, oidc, state, now).is_some();
        return if has_flows || is_in() { Ok(Recognised::Elsewhere(back)) } else { Err(OidcRefusal::UnknownState) };
    };
    forget_flow(exchange, &flows, (oidc, realm), state, now)?;
    check_answer(&parameters, oidc, provider)?;
    let code = parameters.get("code").filter(|code| !code.is_empty()).ok_or(OidcRefusal::BadRequest)?.to_owned();
    let redirect = redirect_uri(oidc, &here);
    Ok(Recognised::BegunHere(BegunLogIn { oidc, provider, code, verifier: flow.verifier(), nonce: flow.nonce(), redirect, back }))
}

/// Whether a log-in that began there may end here, and lead back.
fn is_of_site(began: &str, here: &str, oidc: &CompiledOidc) -> bool {
    let host = |origin: &str| {
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        authority.split(':').next().unwrap_or_default().to_ascii_lowercase()
    };
    let is_in = |domain: &String| {
        let host = host(began);
        host == *domain || host.strip_suffix(domain.as_str()).is_some_and(|before| before.ends_with('.'))
    };
    began == here || oidc.settings.domain.as_ref().is_some_and(is_in)
}

/// A log-in that comes to its end, good or bad, is begun no more.
fn forget_flow<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    flows: &Flows,
    of: (&CompiledOidc, Realm<'_>),
    state: &SessionState,
    now: u64,
) -> Result<(), OidcRefusal> {
    let line = write_flows(flows, of, state, now)?;
    exchange.oidc.get_or_insert_default().set_cookies.push(line);
    Ok(())
}

/// What the provider says beside its code (RFC 6749 section 4.1.2.1, RFC 9207).
fn check_answer(parameters: &Parameters, oidc: &CompiledOidc, provider: &ProviderState) -> Result<(), OidcRefusal> {
    let issuer = &oidc.settings.provider.issuer;
    let must_say = provider.found().as_ref().is_some_and(|found| found.metadata.says_issuer);
    match parameters.get("iss") {
        Some(said) if said != issuer => return Err(OidcRefusal::UnknownState),
        None if must_say => return Err(OidcRefusal::UnknownState),
        Some(_) | None => {}
    }
    match parameters.get("error") {
        None => Ok(()),
        Some("access_denied" | "consent_required" | "interaction_required" | "login_required") => Err(OidcRefusal::Denied),
        Some(error) => {
            let error: String = error.chars().filter(char::is_ascii_graphic).take(100).collect();
            tracing::warn!(issuer, error, "the provider refuses a log-in");
            Err(OidcRefusal::Denied)
        }
    }
}

/// Somebody wants to log in, sent by a script, by a page that asks with which provider, or from there.
async fn log_in<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    (site, providers): LogIns<'_>,
    state: &SessionState,
) -> Result<LogInAnswer, ClientFault> {
    let parameters = Parameters::read(exchange.head.query().unwrap_or_default());
    let (with, named) = (parameters.get("with"), parameters.get("provider"));
    let is_named = |oidc: &CompiledOidc| named.is_some_and(|name| oidc.settings.provider.name == name);
    let wanted = |oidc: &&CompiledOidc| match with {
        Some(with) => oidc.is_called(with.as_bytes()),
        None => named.is_none() || oidc.ways().any(is_named),
    };
    let refused = |refusal: OidcRefusal| Ok(LogInAnswer::Redirected(Err(refusal.into())));
    let Some(step) = site.all().iter().find(wanted) else { return refused(OidcRefusal::BadRequest) };
    let target = parameters.get("return").filter(|target| is_local(target.as_bytes())).unwrap_or("/");
    // A page that sends people here for ever would be its own address.
    let target = if site.address(target.split('?').next().unwrap_or_default().as_bytes()).is_some() { "/" } else { target };
    let way = step.ways().find(|way| is_named(way)).or((!step.has_several()).then_some(step));
    let Some(way) = way else {
        if !is_navigation(&exchange.head, exchange.hop.upgrade.is_some()) {
            return refused(OidcRefusal::LogInNeeded);
        }
        return Ok(LogInAnswer::Page(step.page(&String::from_utf8_lossy(exchange.head.host()), target)));
    };
    // Each way of a step is one of the site.
    let found = site.all().iter().zip(providers).find(|(oidc, _)| oidc.id == way.id && !oidc.has_several());
    let found = found.or_else(|| site.all().iter().zip(providers).find(|(oidc, _)| oidc.id == way.id));
    let Some((oidc, provider)) = found else { return refused(OidcRefusal::BadRequest) };
    let now = now_unix();
    let mut begun = begin_log_in(exchange, around, oidc, provider, (state, now), target, true);
    if let Ok(Some(ticket @ OidcTicket::Ready(_))) = begun {
        match await_session(exchange, ticket, None).await? {
            Ok(OidcNews::None | OidcNews::Ready | OidcNews::Refreshed(_)) => {}
            Err(refusal) => return Ok(LogInAnswer::Redirected(Err(refusal))),
        }
        begun = begin_log_in(exchange, around, oidc, provider, (state, now), target, false);
    }
    let redirect = exchange.oidc.as_mut().and_then(|of_request| of_request.redirect.take());
    Ok(LogInAnswer::Redirected(match (redirect, begun) {
        (Some(redirect), _) => Ok(redirect),
        (None, Err(refusal)) => Err(refusal),
        (None, Ok(_)) => Err(OidcRefusal::ProviderAway.into()),
    }))
}

/// Whether a log-out is what somebody wants, as far as the browser says: a link may come from anywhere, a form or a
/// script from this site alone, and what is embedded, or fetched ahead of time, logs nobody out.
fn may_log_out(head: &RequestHead) -> bool {
    let field = |name: &'static [u8]| head.fields.all_named(name).next();
    let is = |name, values: &[&[u8]]| field(name).is_none_or(|value| values.contains(&value));
    if field(b"sec-purpose").or_else(|| field(b"purpose")).is_some() {
        return false;
    }
    let is_own = is(b"sec-fetch-site", &[b"same-origin", b"none"]);
    let is_page = is(b"sec-fetch-mode", &[b"navigate"]) && is(b"sec-fetch-dest", &[b"document"]);
    let is_script = is_own && is(b"sec-fetch-dest", &[b"empty"]) && !is(b"sec-fetch-mode", &[b"no-cors"]);
    is_page && (is_own || matches!(head.method, Method::Get)) || is_script
}

/// Somebody logs out, here and at the provider (OpenID Connect RP-Initiated Logout 1.0).
fn log_out<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    (site, providers): LogIns<'_>,
    state: &SessionState,
) -> Redirected {
    if !matches!(exchange.head.method, Method::Get | Method::Post) {
        return Err(OidcRefusal::BadRequest.into());
    }
    if !may_log_out(&exchange.head) {
        return Err(OidcRefusal::OtherSite.into());
    }
    let status = if matches!(exchange.head.method, Method::Get) { 302 } else { 303 };
    let (now, here) = (now_unix(), origin(exchange, around)?);
    let path = exchange.head.path();
    let of_path = |oidc: &CompiledOidc| oidc.settings.logout.as_bytes() == path;
    let ends: Vec<_> = site.all().iter().zip(providers).filter(|(oidc, _)| of_path(oidc)).collect();
    let after = ends.first().map_or("/", |(oidc, _)| &oidc.settings.after_logout);
    let mut location = None;
    let mut over = Vec::new();
    let mut removed = Vec::new();
    for (oidc, provider) in &ends {
        let Some(of_request) = &exchange.oidc else { continue };
        removed.extend(oidc.names.remove_session(of_request.cookies.chunks(&oidc.names)));
        for name in [&oidc.names.flows, &oidc.names.retried] {
            removed.extend(of_request.cookies.all(name).next().map(|_| oidc.names.remove(name)));
        }
        let Some(opened) = open(exchange, around, oidc, state, now) else { continue };
        over.push(Revocation { mark: opened.session.id, began_until: u64::MAX, ends: opened.session.ends });
        let end = provider.found().as_ref().and_then(|found| found.metadata.end_session_endpoint.clone());
        if let (Some(end), None) = (end, &location) {
            location = Some(end_address(&end, oidc, &opened.session, &format!("{here}{after}")));
        }
    }
    exchange.oidc.get_or_insert_default().set_cookies.extend(removed);
    if !over.is_empty() && around.connection.worker.process.oidc.send(Errand::Revoke(over)).is_err() {
        return Err(OidcRefusal::Busy.into());
    }
    Ok(OidcRedirect { status, location: location.unwrap_or_else(|| after.to_owned()) })
}

/// Where the provider ends its own session.
fn end_address(end: &str, oidc: &CompiledOidc, session: &Session, after: &str) -> String {
    let hint = session.id_token.text();
    let client = &oidc.settings.provider.client;
    let rest = [("client_id", client.as_str()), ("post_logout_redirect_uri", after)];
    let hint = Some(("id_token_hint", hint.as_str())).filter(|(_, hint)| hint.len() <= HINT_BYTES_MAX);
    with_query(end, &form(hint.into_iter().chain(rest)))
}

/// The provider says that a session has ended.
async fn take_log_out<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    log_ins: LogIns<'_>,
) -> Result<(), Failure> {
    let no_store = [("cache-control", Cow::Borrowed("no-store"))];
    let outcome = match hear_log_out(exchange, around, log_ins).await? {
        Ok(outcome) => outcome,
        Err(refusal) => return answer_refusal_with(exchange, around, refusal.into(), &no_store).await,
    };
    let refusal = match outcome {
        LogOutOutcome::Done => {
            begin_answer(200, &mut exchange.response);
            exchange.response.fields.push(b"cache-control", b"no-store");
            exchange.record.status = 200;
            around.run_response_steps(exchange);
            return around.send_whole(exchange, b"").await;
        }
        LogOutOutcome::NotBelieved => OidcRefusal::BadRequest,
        LogOutOutcome::Away => OidcRefusal::ProviderAway,
    };
    answer_refusal_with(exchange, around, refusal.into(), &no_store).await
}

async fn hear_log_out<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    (site, providers): LogIns<'_>,
) -> Result<Result<LogOutOutcome, OidcRefusal>, ClientFault> {
    if !matches!(exchange.head.method, Method::Post) {
        return Ok(Err(OidcRefusal::BadRequest));
    }
    let mut body = Vec::new();
    while let Some(piece) = exchange.body.read().await.map_err(body_fault)? {
        exchange.record.request_bytes += piece.len() as u64;
        if body.len() + piece.len() > FORM_BYTES_MAX {
            return Ok(Err(OidcRefusal::BadRequest));
        }
        body.extend_from_slice(&piece);
    }
    let parameters = Parameters::read(&body);
    let Some(token) = parameters.get("logout_token") else { return Ok(Err(OidcRefusal::BadRequest)) };
    // Whoever makes up tokens does not keep the thread from those who log in.
    let Ok(jws) = Jws::parse(token.as_bytes(), FORM_BYTES_MAX) else { return Ok(Ok(LogOutOutcome::NotBelieved)) };
    let said = jws.issuer_said().unwrap_or_default().into_owned();
    let of_issuer = site.all().iter().zip(providers).filter(|(oidc, _)| oidc.settings.provider.issuer == said);
    let asked: Vec<Arc<ProviderState>> = of_issuer.map(|(_, provider)| provider.clone()).collect();
    if asked.is_empty() {
        return Ok(Ok(LogOutOutcome::NotBelieved));
    }
    let (owed, awaited) = reply();
    let errand = Errand::LogOut { providers: asked, token: token.as_bytes().to_vec(), reply: owed };
    if around.connection.worker.process.oidc.send(errand).is_err() {
        return Ok(Err(OidcRefusal::Busy));
    }
    Ok(Ok(wait(exchange, awaited).await?.unwrap_or(LogOutOutcome::Away)))
}

#[cfg(test)]
mod tests {
    use super::Parameters;

    #[test]
    fn parameters_are_decoded_and_of_two_none_counts() {
        let check = |text: &str, name: &str, expected: Option<&str>| {
            assert_eq!(Parameters::read(text.as_bytes()).get(name), expected, "{text}");
        };
        check("a=b&c=d%20e+f", "c", Some("d e f"));
        check("a=b&a=c", "a", None);
        check("%61=b", "a", Some("b"));
        check("a=%zz%4", "a", Some("%zz%4"));
        check("a=%ff", "a", None);
        check("a", "a", None);
        check("", "", None);
    }
}
