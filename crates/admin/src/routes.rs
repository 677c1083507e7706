//! The addresses of the API, in one table: the router and the OpenAPI document are both made from it. What they do is
//! in `handlers`.

use crate::access::{self, Access};
use crate::certificates;
use crate::configuration;
use crate::endpoint::{Endpoint, Parameter, Verb};
use crate::handlers;
use crate::maps;
use crate::openapi;
use crate::problem::{Problem, not_found};
use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::{MethodRouter, get, post};
use tidegate_api::schema::Described;
use tidegate_api::{
    Applied, ApplyRequest, Cache, CertificateChanged, Certificates, ClosedConnections, Confirmed, Connections, Difference,
    ExplainRequest, Explanation, Generation, Generations, Listeners, Map, MapRow, MapRowChange, MapRows, Maps, NoOptions,
    PastRequest, PlanRequest, Planned, Pool, Pools, PurgeRequest, Purged, RevokeRequest, Server, Status, UpgradeRequest,
    Upgraded,
};
use tidegate_control::ControlHandle;

pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = questions();
    endpoints.extend(changes());
    endpoints.extend(configuration::endpoints());
    endpoints.extend(of_maps());
    endpoints
}

const CONNECTIONS: &[Parameter] = &[
    Parameter { name: "limit", about: "At most so many: 0 to 10000, 100 when it is left out.", schema: u32::schema },
    LISTENER,
    KIND,
    SITE,
    POOL,
    CLIENT,
    OLDER_THAN,
];

const CLOSED: &[Parameter] = &[
    LISTENER,
    KIND,
    SITE,
    POOL,
    CLIENT,
    OLDER_THAN,
    Parameter { name: "all", about: "`true`: every connection, where nothing else is said.", schema: String::schema },
];

const LISTENER: Parameter =
    Parameter { name: "listener", about: "Those of a listening address, as `/v1/listeners` has it.", schema: String::schema };
const KIND: Parameter = Parameter { name: "kind", about: "`handshake`, `http/1`, `http/2` or `tunnel`.", schema: String::schema };
const SITE: Parameter = Parameter {
    name: "site",
    about: "Those whose last request was for this site, by its first address.",
    schema: String::schema,
};
const POOL: Parameter = Parameter { name: "pool", about: "Those whose last request went to this pool.", schema: String::schema };
const CLIENT: Parameter = Parameter { name: "client", about: "Those of an IP address.", schema: String::schema };
const OLDER_THAN: Parameter =
    Parameter { name: "older_than", about: "Those that have been open for longer: `10m`, `1h30m`.", schema: String::schema };

const SINCE: &[Parameter] = &[Parameter {
    name: "since",
    about: "Only those that ran at this time or later: `2026-11-20T10:00:00Z`.",
    schema: String::schema,
}];

fn questions() -> Vec<Endpoint> {
    let read = Endpoint::reading;
    vec![
        read("/v1/status", "status", Status::schema, || get(handlers::status)).about("The state of the process.").tagged(),
        read("/v1/listeners", "listeners", Listeners::schema, || get(handlers::listeners))
            .about("Listening addresses, and how many connections each has."),
        read("/v1/connections", "connections", Connections::schema, || get(handlers::connections))
            .about("Open connections of clients, the oldest first. Filters see the 10000 oldest.")
            .asking(CONNECTIONS),
        read("/v1/certificates", "certificates", Certificates::schema, || get(certificates::list))
            .about("The certificates that sites answer with, and names whose certificates are obtained."),
        read("/v1/pools", "pools", Pools::schema, || get(handlers::pools)).about("Pools and their servers.").tagged(),
        read("/v1/pools/{name}", "pool", Pool::schema, || get(handlers::pool)).about("One pool.").tagged().refusing(&[404]),
        read("/v1/cache", "cache", Cache::schema, || get(handlers::cache)).about("What the cache holds and has done."),
        read("/v1/generations", "generations", Generations::schema, || get(handlers::generations))
            .about("The configurations that ran, the newest last: the last 20, and those of the last 30 days.")
            .asking(SINCE)
            .tagged(),
        read("/v1/generations/{n}", "generation", Generation::schema, || get(handlers::generation))
            .about("One configuration that ran. Its text may hold secrets and is not in the answer.")
            .tagged()
            .refusing(&[404]),
        read("/v1/generations/{from}/difference/{to}", "difference", Difference::schema, || get(handlers::difference))
            .about("What is different between two configurations that ran.")
            .refusing(&[404, 422]),
        read("/v1/requests/{id}", "pastRequest", PastRequest::schema, || get(handlers::past_request))
            .about(
                "A request that has ended, by its id: each worker keeps the last 512 that failed and the last 512 that did not.",
            )
            .refusing(&[404]),
        read("/v1/openapi.json", "description", |_| serde_json::json!({ "type": "object" }), || get(openapi::description))
            .about("This document."),
    ]
}

fn changes() -> Vec<Endpoint> {
    let change = Endpoint::changing;
    vec![
        change("/v1/plan", "plan", PlanRequest::schema, Planned::schema, || post(handlers::plan))
            .about("What a configuration would change. Nothing happens.")
            .refusing(&[422]),
        change("/v1/apply", "apply", ApplyRequest::schema, Applied::schema, || post(handlers::apply))
            .about("Takes on a configuration, as a whole or not at all.")
            .refusing(&[409, 412, 422]),
        change("/v1/confirm", "confirm", NoOptions::schema, Confirmed::schema, || post(handlers::confirm))
            .about("Keeps the change that waits for it.")
            .refusing(&[409, 412]),
        change("/v1/generations/{n}/rollback", "rollback", NoOptions::schema, Applied::schema, || post(handlers::roll_back))
            .about("Goes back to a configuration that ran, as a new generation.")
            .refusing(&[404, 409, 412, 422]),
        change("/v1/pools/{name}/servers/{address}/drain", "drain", NoOptions::schema, Server::schema, || post(handlers::drain))
            .about("Takes a server out of use; requests that it has go on."),
        change("/v1/pools/{name}/servers/{address}/undrain", "undrain", NoOptions::schema, Server::schema, || {
            post(handlers::undrain)
        })
        .about("Takes a server back into use."),
        closing("/v1/connections", "closeConnections", || axum::routing::delete(handlers::close_connections))
            .about("Ends connections of clients at once, with whatever is on its way on them.")
            .asking(CLOSED)
            .refusing(&[]),
        closing("/v1/connections/{id}", "closeConnection", || axum::routing::delete(handlers::close_connection))
            .about("Ends one connection of a client.")
            .refusing(&[404]),
        change("/v1/cache/purge", "purge", PurgeRequest::schema, Purged::schema, || post(handlers::purge))
            .about("Removes what the cache keeps, or marks it as stale; answers when that is done.")
            .untagged()
            .refusing(&[]),
        change("/v1/certificates/{name}/renew", "renew", NoOptions::schema, CertificateChanged::schema, || {
            post(certificates::renew)
        })
        .about("Obtains a new certificate for a name, whatever the times say; answers when it is served, or after 75 seconds.")
        .untagged()
        .refusing(&[404]),
        change("/v1/certificates/{name}/revoke", "revoke", RevokeRequest::schema, CertificateChanged::schema, || {
            post(certificates::revoke)
        })
        .about("Has the CA revoke the certificate of a name; another one is obtained.")
        .untagged()
        .refusing(&[404]),
        change("/v1/explain", "explain", ExplainRequest::schema, Explanation::schema, || post(handlers::explain))
            .about("Where a request would go, and why not elsewhere. Nothing is sent.")
            .untagged()
            .refusing(&[]),
        change("/v1/upgrade", "upgrade", UpgradeRequest::schema, Upgraded::schema, || post(handlers::upgrade))
            .about("Starts a new process that takes over; answers when it has, or has failed to.")
            .untagged()
            .refusing(&[409, 412, 422]),
    ]
}

const MAP_ROWS: &[Parameter] = &[
    Parameter { name: "changed", about: "`true`: those that were changed, and no others.", schema: String::schema },
    Parameter { name: "from", about: "So many are left out first; 0 when it is left out.", schema: u64::schema },
    Parameter { name: "limit", about: "At most so many: 0 to 10000, 100 when it is left out.", schema: u32::schema },
];

fn of_maps() -> Vec<Endpoint> {
    let read = Endpoint::reading;
    let row = "/v1/maps/{name}/rows/{key}";
    vec![
        read("/v1/maps", "maps", Maps::schema, || get(maps::list))
            .about("Maps: how many rows each has, and what was changed of them."),
        read("/v1/maps/{name}", "map", Map::schema, || get(maps::one)).about("One map.").refusing(&[404]),
        read("/v1/maps/{name}/rows", "mapRows", MapRows::schema, || get(maps::rows))
            .about("Rows of a map: those that were changed, by key, then the others in the order written.")
            .asking(MAP_ROWS)
            .refusing(&[404]),
        read(row, "mapRow", MapRow::schema, || get(maps::read_row))
            .about("One row of a map, by its key as it is written.")
            .refusing(&[404]),
        Endpoint {
            verb: Verb::Put,
            body: Some(MapRowChange::schema),
            needs_body: true,
            ..read(row, "setMapRow", MapRow::schema, || axum::routing::put(maps::set_row))
        }
        .about("Changes a row, or adds one, above those of the file; answers when it is kept in the storage and counts.")
        .refusing(&[404, 503]),
        Endpoint { verb: Verb::Delete, ..read(row, "dropMapRow", MapRow::schema, || axum::routing::delete(maps::drop_row)) }
            .about("Drops what was changed of a row: what the file has counts again.")
            .refusing(&[404, 503]),
    ]
}

fn closing(path: &'static str, id: &'static str, handler: fn() -> MethodRouter<ControlHandle>) -> Endpoint {
    Endpoint { verb: Verb::Delete, ..Endpoint::reading(path, id, ClosedConnections::schema, handler) }
}

/// The API behind its access check. Anything else below `/v1` is a problem, too.
pub fn router(access: Access) -> Router<ControlHandle> {
    let mut router = Router::new();
    for endpoint in endpoints() {
        router = router.route(endpoint.path, (endpoint.handler)());
    }
    router
        .route("/v1", axum::routing::any(unknown))
        .route("/v1/{*rest}", axum::routing::any(unknown))
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::middleware::from_fn_with_state(access, access::check))
}

async fn unknown(uri: Uri) -> Problem {
    not_found(format!("the API has nothing at {}", uri.path().escape_debug())).with_help("/v1/openapi.json lists what there is")
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} cannot be asked with {}", uri.path().escape_debug(), method.as_str().escape_debug());
    Problem::new(405, "wrong-method", "The address has no such method", detail).with_help("`Allow` has those that there are")
}
