//! All steps of a route, compiled, and the two loops that apply them: to the request before it is sent on or answered,
//! to the response before the client gets it. A new step is a variant here, a folder beside this file, and what the
//! compiler then asks for.

use crate::allow::Access;
use crate::api_key::CompiledApiKey;
use crate::auth_any::CompiledAuthAny;
use crate::basic_auth::CompiledBasicAuth;
use crate::body_limit::BodyLimit;
use crate::client_auth::{self, requires_certificate};
use crate::compile_error::CompileError;
use crate::concurrency_limit::CompiledConcurrencyLimit;
use crate::context::{Context, Scratch};
use crate::cors::CompiledCors;
use crate::csrf::CompiledCsrf;
use crate::forward_auth::CompiledForwardAuth;
use crate::header::CompiledHeaderChanges;
use crate::jwt::CompiledJwt;
use crate::limited::Limited;
use crate::oidc::CompiledOidc;
use crate::rate_limit::CompiledRateLimit;
use crate::refusal::Refusal;
use crate::rewrite::{AddPrefix, Rewrite, RewriteError, StripPrefix};
use std::borrow::Cow;
use tidegate_limiting::Tables;
use tidegate_model::{PathPolicy, Phase, Step, is_overruled, phases};
use tidegate_wire::head::{HeaderId, RequestHead, ResponseHead};

#[derive(Debug)]
pub enum CompiledStep {
    RequestHeader(CompiledHeaderChanges),
    ResponseHeader(CompiledHeaderChanges),
    Rewrite(Rewrite),
    StripPrefix(StripPrefix),
    AddPrefix(AddPrefix),
    BodyLimit(BodyLimit),
    /// Answers what browsers ask before other requests, where a `cors` is. First of all, since they ask without
    /// credentials.
    Preflight,
    /// At most one of a route.
    Access(Access),
    /// What is written into answers.
    Cors(Box<CompiledCors>),
    /// At most one of a route.
    Csrf(Box<CompiledCsrf>),
    /// At most one of a route. Whether the password fits is for the caller to find out.
    BasicAuth(Box<CompiledBasicAuth>),
    /// At most one of a route. Whose key has signed a token is for the caller to find out.
    Jwt(Box<CompiledJwt>),
    /// At most one of a route. What the client's cookies hold is for the caller to find out.
    Oidc(Box<CompiledOidc>),
    /// At most one of a route. Asking is for the caller.
    ForwardAuth(Box<CompiledForwardAuth>),
    /// At most one of a route. Whose key it is is for the caller to find out.
    ApiKey(Box<CompiledApiKey>),
    /// At most one of a route.
    AuthAny(Box<CompiledAuthAny>),
    /// At most one of a route.
    ClientAuth,
    RateLimit(Box<CompiledRateLimit>),
    ConcurrencyLimit(Box<CompiledConcurrencyLimit>),
}

/// Where steps stand, for those that find what they have counted before: a limit of a site is one for all its routes.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub tables: &'a Tables,
    /// The site's name: the same for the same site after a change.
    pub site: &'a str,
    pub route: &'a str,
    /// The route's own, or its site's.
    pub path_policy: PathPolicy,
}

/// The steps of a route in the order in which they run: in their [`Phase`]s, and within each its site's in
/// front of its own.
pub fn compile_steps(scope: Scope<'_>, site_steps: &[Step], route_steps: &[Step]) -> Result<Box<[CompiledStep]>, CompileError> {
    let of_site = site_steps.iter().map(|step| (step, Scope { route: "", ..scope }));
    let all = of_site.chain(route_steps.iter().map(|step| (step, scope)));
    let requires_certificate = requires_certificate(site_steps.iter().chain(route_steps));
    let is_demand = |(_, (step, _)): &(usize, (&Step, Scope<'_>))| matches!(step, Step::ClientAuth(_));
    let first_demand = all.clone().enumerate().find(is_demand).map(|(position, _)| position);
    let mut access = Access::of(site_steps.iter().chain(route_steps))?.map(CompiledStep::Access);
    let all: Vec<(&Step, Scope<'_>)> = all.collect();
    let steps: Vec<&Step> = all.iter().map(|(step, _)| *step).collect();
    let mut compiled = Vec::with_capacity(all.len() + 1);
    if steps.iter().any(|step| matches!(step, Step::Cors(_))) {
        compiled.push(CompiledStep::Preflight);
    }
    // What `cors` writes into answers stays where it is written, among the other steps that do so.
    let turn = |(position, phase): (usize, Phase)| match steps[position] {
        Step::Cors(_) => (Phase::AsWritten, position),
        _ => (phase, position),
    };
    let mut turns: Vec<(Phase, usize)> = phases(&steps).into_iter().enumerate().map(turn).collect();
    turns.sort_unstable();
    for (_, position) in turns {
        let (step, scope) = all[position];
        let is_overruled = match step {
            Step::Allow(_) | Step::Deny(_) => {
                compiled.extend(access.take());
                continue;
            }
            // Asked as early as anybody says it, and once.
            Step::ClientAuth(_) => Some(position) != first_demand || !requires_certificate,
            // A route asks for names and passwords in its own way, or not at all.
            _ => is_overruled(&steps, position),
        };
        if !is_overruled {
            compiled.extend(CompiledStep::compile(step, scope)?);
        }
    }
    Ok(compiled.into())
}

/// What a request's steps leave behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct After {
    /// How much body it may have.
    pub body_limit: Option<BodyLimit>,
    /// Whether the request only asks what another might do, and is answered with 204.
    pub is_preflight: bool,
    /// Whether it had an `Authorization` that is not for the upstream.
    pub had_authorization: bool,
}

/// How far a request has got with its steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walk {
    /// The step to begin with.
    next: usize,
    after: After,
    /// What the client said to log in with is not for the upstream.
    hides_credentials: bool,
}

impl Walk {
    /// Begins behind so many steps that were applied before.
    pub fn behind(steps: usize) -> Walk {
        Walk { next: steps, ..Walk::default() }
    }

    /// Goes on with what the way at that position has let in, one of several.
    pub fn let_in(&mut self, any: &CompiledAuthAny, by: usize, head: &mut RequestHead) {
        self.after.had_authorization |= head.fields.has(HeaderId::Authorization);
        any.remove_unverified(by, head);
        self.hides_credentials |= any.hides_credentials(by);
    }
}

/// Why a walk through the steps stands still.
#[derive(Debug, PartialEq, Eq)]
pub enum Halt<'s> {
    /// There are no more.
    Done(After),
    /// The client has to log in before it goes on. Who finds that it may calls again with the same walk, its name in
    /// the context.
    Authenticate(&'s CompiledBasicAuth),
    /// As with [`Authenticate`](Halt::Authenticate), by a token.
    Verify(&'s CompiledJwt),
    /// As with [`Authenticate`](Halt::Authenticate), by a session of a log-in elsewhere.
    LogIn(&'s CompiledOidc),
    /// As with [`Authenticate`](Halt::Authenticate), by what another server says.
    Ask(&'s CompiledForwardAuth),
    /// As with [`Authenticate`](Halt::Authenticate), by a key.
    CheckKey(&'s CompiledApiKey),
    /// As with [`Authenticate`](Halt::Authenticate), by any of several ways. Who finds one says so with
    /// [`Walk::let_in`].
    AnyOf(&'s CompiledAuthAny),
}

/// Applies the steps that change the request, in order, from where the walk has got, up to one that answers it or has
/// to be waited for. What limits leave behind is in `limited`.
pub fn apply_request<'s>(
    steps: &'s [CompiledStep],
    walk: &mut Walk,
    head: &mut RequestHead,
    context: &Context<'_>,
    scratch: &mut Scratch,
    limited: &mut Limited,
) -> Result<Halt<'s>, Refusal> {
    while let Some(step) = steps.get(walk.next) {
        walk.next += 1;
        match step {
            CompiledStep::RequestHeader(changes) => {
                changes.apply_to_request(head, context, scratch).map_err(|_| Refusal::HostOfStep)?;
            }
            CompiledStep::ResponseHeader(_) => {}
            CompiledStep::Rewrite(rewrite) => rewrite.apply(head, context, scratch).map_err(Refusal::Rewrite)?,
            CompiledStep::StripPrefix(strip_prefix) => strip_prefix.apply(head),
            CompiledStep::AddPrefix(add_prefix) => add_prefix.apply(head).map_err(Refusal::Rewrite)?,
            CompiledStep::BodyLimit(limit) => walk.after.body_limit = Some(*limit),
            CompiledStep::Access(access) if !access.lets_through(head, context) => return Err(Refusal::Denied),
            CompiledStep::Access(_) => {}
            CompiledStep::Preflight if CompiledCors::is_preflight(head) => {
                walk.after.is_preflight = true;
                break;
            }
            CompiledStep::Preflight | CompiledStep::Cors(_) => {}
            CompiledStep::Csrf(csrf) if !csrf.lets_through(head) => return Err(Refusal::CrossOrigin),
            CompiledStep::Csrf(_) => {}
            CompiledStep::ClientAuth if !client_auth::lets_through(context) => return Err(Refusal::NoClientCertificate),
            CompiledStep::ClientAuth => {}
            CompiledStep::RateLimit(limit) => {
                if !limit.lets_through(head, context, scratch, limited) {
                    return Err(Refusal::RateLimited { status: limit.status });
                }
            }
            CompiledStep::ConcurrencyLimit(limit) => {
                if !limit.lets_through(head, context, scratch, limited) {
                    return Err(Refusal::ConcurrencyLimited { status: limit.status });
                }
            }
            CompiledStep::BasicAuth(auth) => {
                walk.hides_credentials |= !auth.forwards;
                return Ok(Halt::Authenticate(auth));
            }
            CompiledStep::Jwt(jwt) => {
                jwt.remove_look_alikes(head);
                walk.hides_credentials |= !jwt.settings.forwards;
                return Ok(Halt::Verify(jwt));
            }
            CompiledStep::Oidc(oidc) => return Ok(Halt::LogIn(oidc)),
            CompiledStep::ForwardAuth(auth) => return Ok(Halt::Ask(auth)),
            CompiledStep::ApiKey(auth) => {
                auth.remove_look_alikes(head);
                return Ok(Halt::CheckKey(auth));
            }
            CompiledStep::AuthAny(any) => {
                any.remove_look_alikes(head);
                match any.open_way(head, context) {
                    Some(by) => walk.let_in(any, by, head),
                    None => return Ok(Halt::AnyOf(any)),
                }
            }
        }
    }
    if walk.hides_credentials {
        walk.after.had_authorization |= head.fields.remove_id(HeaderId::Authorization);
    }
    Ok(Halt::Done(walk.after))
}

/// The path and query that the steps would leave the request with; nothing else of it is changed, counted or refused.
pub fn apply_paths(
    steps: &[CompiledStep],
    head: &mut RequestHead,
    context: &Context<'_>,
    scratch: &mut Scratch,
) -> Result<(), RewriteError> {
    for step in steps {
        match step {
            CompiledStep::Rewrite(rewrite) => rewrite.apply(head, context, scratch)?,
            CompiledStep::StripPrefix(strip_prefix) => strip_prefix.apply(head),
            CompiledStep::AddPrefix(add_prefix) => add_prefix.apply(head)?,
            CompiledStep::RequestHeader(_)
            | CompiledStep::ResponseHeader(_)
            | CompiledStep::BodyLimit(_)
            | CompiledStep::Preflight
            | CompiledStep::Access(_)
            | CompiledStep::Cors(_)
            | CompiledStep::Csrf(_)
            | CompiledStep::BasicAuth(_)
            | CompiledStep::Jwt(_)
            | CompiledStep::Oidc(_)
            | CompiledStep::ForwardAuth(_)
            | CompiledStep::ApiKey(_)
            | CompiledStep::AuthAny(_)
            | CompiledStep::ClientAuth
            | CompiledStep::RateLimit(_)
            | CompiledStep::ConcurrencyLimit(_) => {}
        }
    }
    Ok(())
}

/// Whether a request of these steps has something to be given back, or to be told.
pub fn has_limits(steps: &[CompiledStep]) -> bool {
    steps.iter().any(|step| matches!(step, CompiledStep::RateLimit(_) | CompiledStep::ConcurrencyLimit(_)))
}

/// Whether [`apply_response`] has anything to do.
pub fn changes_response(steps: &[CompiledStep]) -> bool {
    steps.iter().any(|step| match step {
        CompiledStep::ResponseHeader(_) | CompiledStep::Cors(_) => true,
        CompiledStep::RateLimit(limit) => limit.changes_response(),
        CompiledStep::ForwardAuth(auth) => auth.sets_cookies(),
        CompiledStep::AuthAny(any) => any.forward_auth().is_some_and(CompiledForwardAuth::sets_cookies),
        CompiledStep::RequestHeader(_)
        | CompiledStep::Rewrite(_)
        | CompiledStep::StripPrefix(_)
        | CompiledStep::AddPrefix(_)
        | CompiledStep::BodyLimit(_)
        | CompiledStep::Preflight
        | CompiledStep::Access(_)
        | CompiledStep::Csrf(_)
        | CompiledStep::ClientAuth
        | CompiledStep::ConcurrencyLimit(_)
        | CompiledStep::BasicAuth(_)
        | CompiledStep::ApiKey(_)
        | CompiledStep::Oidc(_)
        | CompiledStep::Jwt(_) => false,
    })
}

/// Applies the steps that change the response, in order. `request` and `limited` are as the request's steps left them.
pub fn apply_response(
    steps: &[CompiledStep],
    response: &mut ResponseHead,
    request: &RequestHead,
    context: &Context<'_>,
    scratch: &mut Scratch,
    (limited, is_own_error): (Option<&Limited>, bool),
) {
    let mut told = limited.map(Limited::told).unwrap_or_default().iter();
    for step in steps {
        match step {
            CompiledStep::RateLimit(limit) => limit.write_fields(&mut told, response, scratch),
            CompiledStep::ResponseHeader(changes) => changes.apply_to_response(response, request, context, scratch, is_own_error),
            CompiledStep::Cors(cors) => cors.apply(request, response),
            // Cookies of an auth server are held by the caller, which has the answer.
            CompiledStep::ForwardAuth(_)
            | CompiledStep::RequestHeader(_)
            | CompiledStep::Rewrite(_)
            | CompiledStep::StripPrefix(_)
            | CompiledStep::AddPrefix(_)
            | CompiledStep::BodyLimit(_)
            | CompiledStep::Preflight
            | CompiledStep::Access(_)
            | CompiledStep::Csrf(_)
            | CompiledStep::BasicAuth(_)
            | CompiledStep::Jwt(_)
            | CompiledStep::Oidc(_)
            | CompiledStep::ApiKey(_)
            | CompiledStep::AuthAny(_)
            | CompiledStep::ClientAuth
            | CompiledStep::ConcurrencyLimit(_) => {}
        }
    }
}

impl CompiledStep {
    /// `None` for what is nothing to do by itself.
    pub fn compile(step: &Step, scope: Scope<'_>) -> Result<Option<CompiledStep>, CompileError> {
        Ok(Some(match step {
            Step::RequestHeader(changes) => {
                CompiledStep::RequestHeader(CompiledHeaderChanges::for_request(changes, scope.path_policy)?)
            }
            Step::ResponseHeader(changes) => {
                CompiledStep::ResponseHeader(CompiledHeaderChanges::for_response(changes, scope.path_policy)?)
            }
            Step::Rewrite { pattern, to } => {
                CompiledStep::Rewrite(Rewrite::new(pattern.as_deref(), to)?.under(scope.path_policy))
            }
            Step::StripPrefix(prefix) => CompiledStep::StripPrefix(StripPrefix::new(prefix)?),
            Step::AddPrefix(prefix) => CompiledStep::AddPrefix(AddPrefix::new(prefix)?),
            Step::BodyLimit { bytes_max } => CompiledStep::BodyLimit(BodyLimit { bytes_max: *bytes_max }),
            Step::Cors(cors) => CompiledStep::Cors(Box::new(CompiledCors::new(cors))),
            Step::Csrf(Some(csrf)) => CompiledStep::Csrf(Box::new(CompiledCsrf::new(csrf))),
            Step::RateLimit(limit) => {
                let scope_name = scope.of_limit(limit.name.is_some());
                CompiledStep::RateLimit(Box::new(CompiledRateLimit::new(limit, &scope_name, scope.tables)))
            }
            Step::ConcurrencyLimit(limit) => {
                let scope_name = scope.of_limit(limit.name.is_some());
                CompiledStep::ConcurrencyLimit(Box::new(CompiledConcurrencyLimit::new(limit, &scope_name, scope.tables)))
            }
            Step::BasicAuth(Some(auth)) => CompiledStep::BasicAuth(Box::new(CompiledBasicAuth::new(auth))),
            Step::Jwt(Some(jwt)) => CompiledStep::Jwt(Box::new(CompiledJwt::new(jwt))),
            Step::Oidc(Some(oidc)) => CompiledStep::Oidc(Box::new(CompiledOidc::new(oidc))),
            Step::ForwardAuth(Some(auth)) => CompiledStep::ForwardAuth(Box::new(CompiledForwardAuth::new(auth))),
            Step::ApiKey(Some(auth)) => CompiledStep::ApiKey(Box::new(CompiledApiKey::new(auth))),
            Step::AuthAny(Some(any)) => CompiledStep::AuthAny(Box::new(CompiledAuthAny::new(any)?)),
            Step::ClientAuth(_) => CompiledStep::ClientAuth,
            // One step is made of all that allow and deny together; nothing is left of an `off`.
            Step::Allow(_)
            | Step::Deny(_)
            | Step::BasicAuth(None)
            | Step::Csrf(None)
            | Step::Jwt(None)
            | Step::Oidc(None)
            | Step::ForwardAuth(None)
            | Step::ApiKey(None)
            | Step::AuthAny(None) => return Ok(None),
        }))
    }
}

impl Scope<'_> {
    /// Limits of one name count together in the whole site.
    fn of_limit(&self, is_named: bool) -> String {
        if is_named { self.site.to_owned() } else { format!("{} {}", self.site, self.route) }
    }
}

/// The `jwt` among compiled steps, if there is one.
pub fn compiled_jwt_of(steps: &[CompiledStep]) -> Option<&CompiledJwt> {
    steps.iter().find_map(|step| match step {
        CompiledStep::Jwt(jwt) => Some(&**jwt),
        CompiledStep::AuthAny(any) => any.jwt(),
        _ => None,
    })
}

/// The `oidc` among compiled steps, if there is one.
pub fn compiled_oidc_of(steps: &[CompiledStep]) -> Option<&CompiledOidc> {
    steps.iter().find_map(|step| match step {
        CompiledStep::Oidc(oidc) => Some(&**oidc),
        CompiledStep::AuthAny(any) => any.oidc(),
        _ => None,
    })
}

/// The `forward-auth` among compiled steps, if there is one.
pub fn compiled_forward_auth_of(steps: &[CompiledStep]) -> Option<&CompiledForwardAuth> {
    steps.iter().find_map(|step| match step {
        CompiledStep::ForwardAuth(auth) => Some(&**auth),
        CompiledStep::AuthAny(any) => any.forward_auth(),
        _ => None,
    })
}

/// The values of `WWW-Authenticate` beside a refusal: those of the step that it is of.
pub fn log_in_challenges(steps: &[CompiledStep], refusal: Refusal) -> Vec<Cow<'_, str>> {
    let mut all = steps.iter().map(|step| match step {
        CompiledStep::BasicAuth(auth) => auth.challenge_of(refusal).into_iter().collect(),
        CompiledStep::Jwt(jwt) => jwt.challenge_of(refusal).into_iter().collect(),
        CompiledStep::ApiKey(auth) => auth.challenge_of(refusal).into_iter().collect(),
        CompiledStep::Oidc(oidc) => oidc.challenge_of(refusal).into_iter().collect(),
        CompiledStep::AuthAny(any) => any.challenges(refusal),
        _ => Vec::new(),
    });
    all.find(|challenges| !challenges.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{After, CompiledStep, Halt, Refusal, Scope, Walk, log_in_challenges};
    use crate::basic_auth::basic_auth_of;
    use crate::body_limit::BodyLimit;
    use crate::compile_error::CompileError;
    use crate::context::{Context, Scratch};
    use crate::fixtures::{context, lines, request, target, template};
    use crate::limited::Limited;
    use crate::rewrite::RewriteError;
    use tidegate_access::{Identity, LogIn};
    use tidegate_limiting::Tables;
    use tidegate_model::{
        AccessRule, AuthAny, AuthUsers, BasicAuth, CountBy, HeaderChange, HeaderOperation, PathPolicy, Rate, RateLimit, Step,
    };
    use tidegate_wire::head::{RequestHead, ResponseHead};

    fn compile_steps(site: &[Step], route: &[Step]) -> Result<Box<[CompiledStep]>, CompileError> {
        super::compile_steps(
            Scope { tables: &Tables::default(), site: "site", route: "route", path_policy: PathPolicy::DEFAULT },
            site,
            route,
        )
    }

    fn walk_on<'s>(
        steps: &'s [CompiledStep],
        walk: &mut Walk,
        head: &mut RequestHead,
        context: &Context<'_>,
        scratch: &mut Scratch,
    ) -> Result<Halt<'s>, Refusal> {
        super::apply_request(steps, walk, head, context, scratch, &mut Limited::default())
    }

    /// Of steps that nobody has to log in for.
    fn apply_request(
        steps: &[CompiledStep],
        head: &mut RequestHead,
        context: &Context<'_>,
        scratch: &mut Scratch,
    ) -> Result<After, Refusal> {
        match walk_on(steps, &mut Walk::default(), head, context, scratch)? {
            Halt::Done(after) => Ok(after),
            Halt::Authenticate(_) | Halt::Verify(_) | Halt::LogIn(_) | Halt::CheckKey(_) | Halt::AnyOf(_) | Halt::Ask(_) => {
                panic!("nobody has to log in here")
            }
        }
    }

    fn set(name: &str, value: &str) -> Vec<HeaderChange> {
        vec![HeaderChange { operation: HeaderOperation::Set, name: name.into(), value: template(value) }]
    }

    #[test]
    fn steps_run_in_order_the_sites_first() {
        let site = [Step::RequestHeader(set("A", "{path}").into()), Step::BodyLimit { bytes_max: 10 }];
        let route = [
            Step::StripPrefix("/api".into()),
            Step::RequestHeader(set("B", "{path}").into()),
            Step::ResponseHeader(set("C", "{path} {response.header.d}").into()),
            Step::AddPrefix("/v1".into()),
            Step::Rewrite { pattern: Some("^/v1/(.*)".into()), to: template("/v2/$1") },
            Step::BodyLimit { bytes_max: 20 },
        ];
        let steps = compile_steps(&site, &route).expect("steps of the test");
        let (mut head, mut scratch) = (request("/api/x?q", "example.com", &[]), Scratch::default());
        let after = apply_request(&steps, &mut head, &context(), &mut scratch);
        assert_eq!(after, Ok(After { body_limit: Some(BodyLimit { bytes_max: 20 }), ..After::default() }));
        assert_eq!(target(&head), "/v2/x?q");
        assert_eq!(lines(&head.fields), ["A: /api/x", "B: /x"]);

        let mut response = ResponseHead::default();
        response.fields.push(b"D", b"d");
        super::apply_response(&steps, &mut response, &head, &context(), &mut scratch, (None, false));
        assert_eq!(lines(&response.fields), ["D: d", "C: /v2/x d"]);
        assert_eq!(lines(&head.fields), ["A: /api/x", "B: /x"]);
    }

    #[test]
    fn a_preflight_ends_the_steps_before_anybody_is_refused() {
        let cors = tidegate_model::Cors {
            origins: tidegate_model::Origins::Any,
            methods: Vec::new(),
            headers: None,
            exposed: Vec::new(),
            credentials: false,
            max_age: std::time::Duration::ZERO,
            private_network: false,
        };
        let check = |before: Step, expected: Result<bool, Refusal>| {
            let behind = Step::Rewrite { pattern: None, to: template("/.{request.header.none}") };
            let steps = compile_steps(&[before], &[Step::Cors(cors.clone()), behind]).expect("steps of the test");
            let mut head = request("/", "example.com", &["Origin: a", "Access-Control-Request-Method: GET"]);
            head.method_name = head.fields.append(&[b"OPTIONS"]);
            let halt = walk_on(&steps, &mut Walk::default(), &mut head, &context(), &mut Scratch::default());
            assert_eq!(halt.map(|halt| matches!(halt, Halt::Done(After { is_preflight: true, .. }))), expected);
        };
        let network = |text: &str| AccessRule::from(vec![text.parse().expect("a network")]);
        check(Step::BodyLimit { bytes_max: 1 }, Ok(true));
        check(Step::Deny(network("0.0.0.0/0")), Ok(true));
        check(Step::BasicAuth(Some(auth("Staff"))), Ok(true));
        check(one_an_hour(None), Ok(true));
    }

    fn auth(realm: &str) -> BasicAuth {
        BasicAuth { realm: realm.into(), users: AuthUsers::Listed(Vec::new()), forwards: realm != "Secret", failures: None }
    }

    #[test]
    fn who_has_to_log_in_goes_on_from_there() {
        let steps = [
            Step::StripPrefix("/a".into()),
            Step::BasicAuth(Some(auth("Secret"))),
            Step::RequestHeader(set("User", "{auth.user} {path}").into()),
            Step::BodyLimit { bytes_max: 1 },
        ];
        let steps = compile_steps(&[], &steps).expect("steps of the test");
        let (mut walk, mut head) = (Walk::default(), request("/a/a/x", "example.com", &["Authorization: Basic YTpi"]));
        let mut go_on = |user: Option<&str>| {
            let identity = user.map(|user| Identity::of_name(user, LogIn::Password));
            let context = Context { identity: identity.as_ref(), ..context() };
            let halt = walk_on(&steps, &mut walk, &mut head, &context, &mut Scratch::default()).expect("no refusal");
            (matches!(halt, Halt::Authenticate(_)), lines(&head.fields), target(&head))
        };
        assert_eq!(go_on(None), (true, vec!["Authorization: Basic YTpi".to_owned()], "/a/a/x".to_owned()));
        assert_eq!(go_on(Some("bob")), (false, vec!["User: bob /a/x".to_owned()], "/a/x".to_owned()));
    }

    #[test]
    fn the_last_one_says_how_to_log_in() {
        let check = |site: &[Step], route: &[Step], expected: Option<&str>| {
            let steps = compile_steps(site, route).expect("steps of the test");
            let mut head = request("/", "example.com", &[]);
            let halt = walk_on(&steps, &mut Walk::default(), &mut head, &context(), &mut Scratch::default());
            let realm = match halt.expect("no refusal") {
                Halt::Done(_) | Halt::Verify(_) | Halt::LogIn(_) | Halt::CheckKey(_) | Halt::AnyOf(_) | Halt::Ask(_) => None,
                Halt::Authenticate(auth) => auth.challenge.split('"').nth(1).map(str::to_owned),
            };
            assert_eq!(realm.as_deref(), expected);
            assert_eq!(basic_auth_of(site, route).map(|auth| auth.realm.as_str()), expected);
            assert_eq!(log_in_challenges(&steps, Refusal::NotAuthenticated).len(), usize::from(expected.is_some()));
        };
        let (staff, guests, off) =
            (Step::BasicAuth(Some(auth("Staff"))), Step::BasicAuth(Some(auth("Guests"))), Step::BasicAuth(None));
        check(std::slice::from_ref(&staff), &[], Some("Staff"));
        check(std::slice::from_ref(&staff), std::slice::from_ref(&guests), Some("Guests"));
        check(std::slice::from_ref(&staff), std::slice::from_ref(&off), None);
        check(std::slice::from_ref(&off), std::slice::from_ref(&guests), Some("Guests"));
        // One of several ways takes the place of the site's, and nothing is left to switch off.
        let of = |ways: &[Step]| Step::AuthAny(Some(AuthAny { ways: ways.to_vec() }));
        check(&[of(std::slice::from_ref(&staff)), Step::AuthAny(None)], std::slice::from_ref(&guests), Some("Guests"));
        let count = |site: &[Step], route: &[Step]| compile_steps(site, route).expect("steps of the test").len();
        assert_eq!(count(std::slice::from_ref(&staff), &[of(std::slice::from_ref(&guests))]), 1);
        assert_eq!(count(&[of(std::slice::from_ref(&staff))], &[Step::AuthAny(None)]), 0);
        assert_eq!(count(&[of(std::slice::from_ref(&staff))], &[of(std::slice::from_ref(&guests))]), 1);
    }

    #[test]
    fn who_may_not_ask_is_not_asked() {
        let check = |rule: Step, expected: Result<bool, Refusal>| {
            let steps = compile_steps(&[Step::BasicAuth(Some(auth("Staff")))], &[rule]).expect("steps of the test");
            let mut head = request("/", "example.com", &[]);
            let halt = walk_on(&steps, &mut Walk::default(), &mut head, &context(), &mut Scratch::default());
            assert_eq!(halt.map(|halt| matches!(halt, Halt::Authenticate(_))), expected);
        };
        let network = |text: &str| AccessRule::from(vec![text.parse().expect("a network")]);
        check(Step::Deny(network("192.0.2.0/24")), Err(Refusal::Denied));
        check(Step::Allow(network("10.0.0.0/8")), Err(Refusal::Denied));
        check(Step::Allow(network("192.0.2.0/24")), Ok(true));
    }

    fn one_an_hour(name: Option<&str>) -> Step {
        let rate = Rate { count: 1, period: std::time::Duration::from_secs(3_600) };
        let (by, name) = (CountBy::Client, name.map(str::to_owned));
        Step::RateLimit(Box::new(RateLimit {
            name,
            rate,
            burst: 1,
            by,
            ipv6_prefix: 64,
            cost: 1,
            keys_max: 10,
            status: 429,
            headers: true,
            dry_run: false,
        }))
    }

    #[test]
    fn who_is_denied_is_not_counted_wherever_that_is_said() {
        let check = |rules: &[Step], client: [u8; 4], expected: [Result<(), Refusal>; 2]| {
            let tables = Tables::default();
            let scope = Scope { tables: &tables, site: "site", route: "route", path_policy: PathPolicy::DEFAULT };
            let steps = super::compile_steps(scope, &[one_an_hour(None)], rules).expect("steps of the test");
            // The first rule denies this one; what it may do is untouched when it may.
            let allowed = super::compile_steps(scope, &[one_an_hour(None)], &[]).expect("steps of the test");
            let ask = |steps: &[CompiledStep]| {
                let context = Context { client_ip: client.into(), ..context() };
                apply_request(steps, &mut request("/", "example.com", &[]), &context, &mut Scratch::default()).map(|_| ())
            };
            assert_eq!([ask(&steps), ask(&allowed)], expected, "{rules:?}");
        };
        let network = |text: &str| AccessRule::from(vec![text.parse().expect("a network")]);
        let limited = Err(Refusal::RateLimited { status: 429 });
        check(&[Step::Deny(network("192.0.2.0/24"))], [192, 0, 2, 1], [Err(Refusal::Denied), Ok(())]);
        check(&[Step::Allow(network("10.0.0.0/8"))], [192, 0, 2, 1], [Err(Refusal::Denied), Ok(())]);
        check(&[Step::Allow(network("10.0.0.0/8"))], [10, 0, 0, 1], [Ok(()), limited]);
    }

    #[test]
    fn a_limit_of_a_site_is_one_for_its_routes_and_one_of_a_route_its_own() {
        let check = |site: &[Step], route: &[Step], expected: [bool; 3]| {
            let tables = Tables::default();
            let ask = |route_name: &str, site_name: &str| {
                let scope = Scope { tables: &tables, site: site_name, route: route_name, path_policy: PathPolicy::DEFAULT };
                let steps = super::compile_steps(scope, site, route).expect("steps of the test");
                let is_let =
                    apply_request(&steps, &mut request("/", "example.com", &[]), &context(), &mut Scratch::default()).is_ok();
                (is_let, steps)
            };
            let (first, _held) = ask("a", "site");
            assert_eq!([first, ask("b", "site").0, ask("a", "other").0], expected);
        };
        check(&[one_an_hour(None)], &[], [true, false, true]);
        check(&[], &[one_an_hour(None)], [true, true, true]);
        check(&[], &[one_an_hour(Some("api"))], [true, false, true]);
    }

    #[test]
    fn answers_say_what_each_limit_that_was_asked_has_left() {
        let named = |name| one_an_hour(Some(name));
        let steps = [named("a"), Step::ResponseHeader(set("X", "{response.header.ratelimit}").into()), named("b"), named("c")];
        let steps = compile_steps(&steps, &[]).expect("steps of the test");
        assert!(super::has_limits(&steps) && super::changes_response(&steps));
        let check = |expected: Result<(), Refusal>, expected_fields: &[&str]| {
            let (mut head, mut limited, mut scratch) = (request("/", "example.com", &[]), Limited::default(), Scratch::default());
            let seen = super::apply_request(&steps, &mut Walk::default(), &mut head, &context(), &mut scratch, &mut limited);
            assert_eq!(seen.map(|_| ()), expected);
            let mut response = ResponseHead::default();
            super::apply_response(&steps, &mut response, &head, &context(), &mut scratch, (Some(&limited), false));
            let fields = lines(&response.fields);
            let of_rates: Vec<&str> = fields.iter().map(String::as_str).filter(|line| line.starts_with("ratelimit: ")).collect();
            assert_eq!(of_rates, expected_fields);
        };
        let line = |name: &str| format!("ratelimit: \"{name}\";r=0;t=3600");
        let all = [line("a"), line("b"), line("c")];
        check(Ok(()), &all.each_ref().map(String::as_str));
        check(Err(Refusal::RateLimited { status: 429 }), &[&all[0]]);
    }

    #[test]
    fn a_refused_step_ends_the_request() {
        let steps = [Step::Rewrite { pattern: None, to: template("/{request.header.x}") }, Step::BodyLimit { bytes_max: 1 }];
        let steps = compile_steps(&[], &steps).expect("steps of the test");
        let mut head = request("/", "example.com", &["X: .."]);
        let refused = apply_request(&steps, &mut head, &context(), &mut Scratch::default());
        assert_eq!(refused, Err(Refusal::Rewrite(RewriteError::EscapesRoot)));
    }

    #[test]
    fn faults_of_any_step_are_reported() {
        let check = |step: Step| compile_steps(&[step], &[]).err();
        assert_eq!(check(Step::StripPrefix("x".into())), Some(CompileError::NotAPath("x".into())));
        assert_eq!(check(Step::AddPrefix("x".into())), Some(CompileError::NotAPath("x".into())));
        let reserved = Some(CompileError::ReservedHeader("Connection".into()));
        assert_eq!(check(Step::RequestHeader(set("Connection", "x").into())), reserved);
        assert_eq!(check(Step::ResponseHeader(set("Connection", "x").into())), reserved);
        assert_eq!(check(Step::ResponseHeader(set("Host", "x").into())), None);
    }
}
