//! What each address of the API does: a question to the control thread, and its answer as JSON. The table of addresses
//! is in `routes`.

use crate::ask::ask;
use crate::extract::{Expected, Json, Parameters, Query};
use crate::problem::{Problem, bad_request, not_found, of_change, of_upgrade};
use crate::proposal;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tidegate_api::{
    ApplyRequest, ClosedConnections, Confirmed, Connections, ExplainRequest, Listeners, NoOptions, PlanRequest, Pools,
    PurgeRequest, Purged, Server, UpgradeRequest, Upgraded,
};
use tidegate_control::cache::PurgeRequest as CachePurge;
use tidegate_control::report::{CONNECTIONS_LISTED_MAX, ConnectionFilter};
use tidegate_control::{ApplyOptions, ChangeFault, Control, ControlHandle, Tag};
use tidegate_explain::Question;
use tokio::sync::oneshot;

pub type Answer = Result<Response, Problem>;

/// URLs and tags of one request to purge.
const PURGED_AT_ONCE_MAX: usize = 10_000;
/// Connections that are listed when nobody says how many.
const CONNECTIONS_LISTED: usize = 100;

pub fn json(value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value)
        .map_err(|error| Problem::new(500, "internal", "The answer cannot be written", error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body).into_response())
}

/// With what the answer is of, for `If-Match`.
pub fn tagged(value: &impl Serialize, tag: Tag) -> Answer {
    let mut response = json(value)?;
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// A change, if that runs which it is meant for, and what runs then; all of it happens between two events, so nothing
/// comes between.
async fn change<T: Send + 'static>(
    handle: &ControlHandle,
    expected: Option<Tag>,
    change: impl FnOnce(&mut Control) -> Result<T, ChangeFault> + Send + 'static,
) -> Result<(T, Tag), Problem> {
    let checked = move |control: &mut Control| {
        control.check_expected(expected)?;
        Ok((change(control)?, control.tag()))
    };
    ask(handle, checked).await?.map_err(|fault: ChangeFault| of_change(&fault))
}

pub async fn status(State(handle): State<ControlHandle>) -> Answer {
    let (status, tag) = ask(&handle, |control| (control.status(), control.tag())).await?;
    tagged(&status, tag)
}

pub async fn listeners(State(handle): State<ControlHandle>) -> Answer {
    let listeners = ask(&handle, |control| control.listeners()).await?;
    json(&Listeners { listeners })
}

/// What of connections may be asked, beside how many.
const CONNECTION_FILTERS: [&str; 6] = ["listener", "kind", "site", "pool", "client", "older_than"];

pub async fn connections(State(handle): State<ControlHandle>, query: Query) -> Answer {
    let query = query.allowing(&["limit", "listener", "kind", "site", "pool", "client", "older_than"])?;
    let limit = match query.text("limit") {
        None => CONNECTIONS_LISTED,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| *limit <= CONNECTIONS_LISTED_MAX)
            .ok_or_else(|| bad_request(format!("`limit` is not a number up to {CONNECTIONS_LISTED_MAX}")))?,
    };
    let meant = filter_of(&query)?;
    let (all, total) = ask(&handle, |control| control.connections()).await?;
    let connections = all.into_iter().filter(|connection| meant.takes(connection)).take(limit).collect();
    json(&Connections { total, connections })
}

pub async fn close_connections(State(handle): State<ControlHandle>, query: Query) -> Answer {
    let query = query.allowing(&["listener", "kind", "site", "pool", "client", "older_than", "all"])?;
    // A slip must not end every connection.
    let is_narrowed = CONNECTION_FILTERS.iter().any(|name| query.text(name).is_some());
    if !is_narrowed && query.text("all") != Some("true") {
        return Err(bad_request("it is not said which connections are to be closed")
            .with_help("name them by `site`, `pool`, `client`, `listener`, `kind` or `older_than`, or write `all=true`"));
    }
    let meant = filter_of(&query)?;
    let closed = ask(&handle, move |control| control.close_connections(&meant)).await?;
    json(&ClosedConnections { closed })
}

pub async fn close_connection(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    let text = parameters.text("id");
    let id = text.parse().map_err(|_| bad_request(format!("`{}` in the path is not a connection's id", text.escape_debug())))?;
    let meant = ConnectionFilter { id: Some(id), ..ConnectionFilter::default() };
    match ask(&handle, move |control| control.close_connections(&meant)).await? {
        0 => Err(not_found(format!("no connection {id} is open")).with_help("/v1/connections lists those that are")),
        closed => json(&ClosedConnections { closed }),
    }
}

fn filter_of(query: &Query) -> Result<ConnectionFilter, Problem> {
    let text = |name: &str| query.text(name).map(str::to_owned);
    let wrong = |name: &str, what: &str| bad_request(format!("`{name}` is not {what}"));
    let opened_before = query.text("older_than").map(|text| {
        let age = tidegate_config::parse_duration(text).ok();
        let since = age.and_then(|age| Timestamp::now().checked_sub(age).ok());
        since.ok_or_else(|| wrong("older_than", "a time such as `10m`"))
    });
    let listener = query.text("listener").map(|text| text.parse().map_err(|_| wrong("listener", "an address with a port")));
    let client = query.text("client").map(|text| text.parse().map_err(|_| wrong("client", "an IP address")));
    Ok(ConnectionFilter {
        id: None,
        listener: listener.transpose()?,
        kind: text("kind"),
        site: text("site"),
        pool: text("pool"),
        client: client.transpose()?,
        opened_before: opened_before.transpose()?,
    })
}

pub async fn pools(State(handle): State<ControlHandle>) -> Answer {
    let (tag, pools) = ask(&handle, |control| (control.tag(), control.pools())).await?;
    tagged(&pools, tag)
}

pub async fn pool(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    let name = parameters.text("name");
    let (tag, Pools { pools, .. }) = ask(&handle, |control| (control.tag(), control.pools())).await?;
    let names: Vec<String> = pools.iter().map(|pool| pool.name.clone()).take(20).collect();
    match pools.into_iter().find(|pool| pool.name == name) {
        Some(pool) => tagged(&pool, tag),
        None => Err(not_found(format!("there is no pool `{}`", name.escape_debug()))
            .with_help(format!("the pools are {}", names.join(", ")))),
    }
}

pub async fn drain(handle: State<ControlHandle>, parameters: Parameters, expected: Expected, _: Json<NoOptions>) -> Answer {
    set_drained(&handle, &parameters, expected, true).await
}

pub async fn undrain(handle: State<ControlHandle>, parameters: Parameters, expected: Expected, _: Json<NoOptions>) -> Answer {
    set_drained(&handle, &parameters, expected, false).await
}

async fn set_drained(handle: &ControlHandle, parameters: &Parameters, Expected(expected): Expected, drained: bool) -> Answer {
    let (pool, server) = (parameters.text("name"), parameters.text("address"));
    let (report, tag) = change(handle, expected, move |control| {
        control.set_drained(&pool, &server, drained)?;
        let is_meant = |report: &Server| report.address == server || report.address.ends_with(&format!("://{server}"));
        let Pools { pools, .. } = control.pools();
        let servers = pools.into_iter().find(|report| report.name == pool).map(|report| report.servers).unwrap_or_default();
        servers.into_iter().find(is_meant).ok_or_else(|| ChangeFault::NotFound(format!("{server} is gone")))
    })
    .await?;
    tagged(&report, tag)
}

pub async fn cache(State(handle): State<ControlHandle>) -> Answer {
    json(&ask(&handle, |control| control.cache_report()).await?)
}

pub async fn purge(State(handle): State<ControlHandle>, Json(request): Json<PurgeRequest>) -> Answer {
    let PurgeRequest { urls, tags, all, soft } = request;
    let urls = urls.unwrap_or_default().into_iter().map(CachePurge::Url);
    let tags = tags.unwrap_or_default().into_iter().map(CachePurge::Tag);
    let mut wanted: Vec<CachePurge> = urls.chain(tags).take(PURGED_AT_ONCE_MAX + 1).collect();
    if all == Some(true) {
        wanted = vec![CachePurge::All];
    }
    if wanted.is_empty() {
        return Err(bad_request("nothing is named that is to be removed".to_owned()).with_help("give `urls`, `tags` or `all`"));
    }
    if wanted.len() > PURGED_AT_ONCE_MAX {
        return Err(bad_request(format!("more than {PURGED_AT_ONCE_MAX} URLs and tags are named")).with_help("ask several times"));
    }
    let (reply, replied) = oneshot::channel();
    let answer = move |count| {
        let _ = reply.send(count);
    };
    ask(&handle, move |control| control.purge_cache(&wanted, soft == Some(true), answer)).await?.map_err(bad_request)?;
    let purged = replied.await.map_err(|_| crate::problem::draining())?;
    json(&Purged { purged })
}

pub async fn generations(State(handle): State<ControlHandle>, query: Query) -> Answer {
    let query = query.allowing(&["since"])?;
    let since = query
        .text("since")
        .map(|text| text.parse().map_err(|_| bad_request("`since` is not a time as in `2026-11-20T10:00:00Z`")));
    let since = since.transpose()?;
    let (tag, generations) = ask(&handle, move |control| (control.tag(), control.generations(since))).await?;
    tagged(&generations, tag)
}

pub async fn generation(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    let number = parameters.number("n")?;
    let (tag, known) = ask(&handle, |control| (control.tag(), control.generations(None))).await?;
    match known.generations.iter().find(|generation| generation.number == number) {
        Some(generation) => tagged(generation, tag),
        None => Err(of_change(&ChangeFault::NoSuchGeneration(number))),
    }
}

pub async fn difference(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    let (from, to) = (parameters.number("from")?, parameters.number("to")?);
    json(&ask(&handle, move |control| control.difference(from, to)).await?.map_err(|fault| of_change(&fault))?)
}

pub async fn roll_back(
    State(handle): State<ControlHandle>,
    parameters: Parameters,
    Expected(expected): Expected,
    _: Json<NoOptions>,
) -> Answer {
    let number = parameters.number("n")?;
    let (applied, tag) = change(&handle, expected, move |control| control.roll_back(Some(number), "asked for")).await?;
    tagged(&applied, tag)
}

pub async fn plan(State(handle): State<ControlHandle>, Json(request): Json<PlanRequest>) -> Answer {
    let PlanRequest { file, text, name, directory } = request;
    let (proposal, _) = proposal::read(file, text, name, directory)?;
    let planned = move |control: &mut Control| Ok((control.plan(&proposal)?, control.tag()));
    let (planned, tag) = ask(&handle, planned).await?.map_err(|fault: ChangeFault| of_change(&fault))?;
    tagged(&planned, tag)
}

pub async fn apply(State(handle): State<ControlHandle>, Expected(tag): Expected, Json(request): Json<ApplyRequest>) -> Answer {
    let ApplyRequest { file, text, name, directory, confirm_within_seconds, max_error_rise, expected_generation } = request;
    let (proposal, origin) = proposal::read(file, text, name, directory)?;
    let expected = match (tag, expected_generation) {
        (Some(tag), Some(expected)) if tag.generation != expected => {
            return Err(bad_request("`If-Match` and `expected_generation` name two generations"));
        }
        (tag, expected) => tag.or(expected.map(Tag::of_number)),
    };
    let options = ApplyOptions {
        confirm_within: confirm_within_seconds.map(proposal::confirmation_time).transpose()?,
        rise_max: max_error_rise.map(proposal::error_rise).transpose()?,
        expected,
    };
    let applied = move |control: &mut Control| Ok((control.apply(&proposal, origin, options)?, control.tag()));
    let (applied, tag) = ask(&handle, applied).await?.map_err(|fault: ChangeFault| of_change(&fault))?;
    tagged(&applied, tag)
}

pub async fn confirm(State(handle): State<ControlHandle>, Expected(expected): Expected, _: Json<NoOptions>) -> Answer {
    let (generation, tag) = change(&handle, expected, Control::confirm).await?;
    tagged(&Confirmed { generation }, tag)
}

pub async fn explain(State(handle): State<ControlHandle>, Json(request): Json<ExplainRequest>) -> Answer {
    let ExplainRequest { method, url, headers, from } = request;
    let question = Question::parse(&method, &url, &headers.unwrap_or_default(), from.as_deref()).map_err(|text| {
        let (detail, help) = text.split_once("\n  help: ").unwrap_or((&text, "/v1/openapi.json describes the body"));
        bad_request(detail).with_help(help)
    })?;
    json(&ask(&handle, move |control| control.explain(&question)).await?.map_err(bad_request)?)
}

pub async fn past_request(State(handle): State<ControlHandle>, parameters: Parameters) -> Answer {
    let id = parameters.text("id");
    let past = ask(&handle, move |control| control.past_request(&id)).await?.map_err(|fault| of_change(&fault))?;
    json(&past)
}

pub async fn upgrade(
    State(handle): State<ControlHandle>,
    Expected(expected): Expected,
    Json(request): Json<UpgradeRequest>,
) -> Answer {
    let binary = request.binary.map(PathBuf::from);
    if let Some(relative) = binary.as_deref().filter(|binary| !Path::new(binary).is_absolute()) {
        return Err(bad_request(format!("`binary` is not an absolute path: {}", relative.display())));
    }
    let (reply, replied) = oneshot::channel();
    let (left_behind, _) = change(&handle, expected, move |control| {
        let left_behind = control.drift();
        control.upgrade(binary, reply);
        Ok(left_behind)
    })
    .await?;
    // Bounded where the successor is watched.
    let outcome = replied.await.map_err(|_| crate::problem::draining())?;
    let process_id = outcome.map_err(|fault| of_upgrade(&fault))?;
    json(&Upgraded { process_id, left_behind })
}
