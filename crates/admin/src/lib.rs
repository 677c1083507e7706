//! The admin endpoint on the control thread: `/metrics`, `/healthz`, `/readyz`, and the JSON API below `/v1`; and the
//! client of it. It never sees a request of a client of the proxy. Start at `routes`, the table of addresses; `access`
//! decides who may use them.

mod access;
mod ask;
mod certificates;
pub mod client;
mod configuration;
mod draining;
mod effective;
mod endpoint;
mod extract;
mod handlers;
mod maps;
mod metrics;
mod openapi;
pub mod problem;
mod proposal;
mod routes;
mod serving;
pub mod token;

use access::{Access, Door};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serving::{Bounds, Routers, serve_at};
use std::future::pending;
use tidegate_control::{AdminListener, ControlHandle};
use tidegate_model::AdminPlace;
use tidegate_telemetry::ReadinessState;
use tokio::sync::{mpsc, oneshot};

/// What answers at one place, until it is dropped. Requests that are being answered there are finished.
struct Serving {
    place: AdminPlace,
    _leave: oneshot::Sender<()>,
}

/// Serves until the process ends, at each place that comes, as long as the configuration names it.
pub async fn serve(mut places: mpsc::UnboundedReceiver<Vec<AdminListener>>, handle: ControlHandle) {
    let mut serving: Vec<Serving> = Vec::new();
    while let Some(opened) = places.recv().await {
        // Of one that comes again the older is another socket, which nobody wants any more.
        serving.retain(|serving| {
            handle.admin_at(&serving.place).is_some() && opened.iter().all(|opened| opened.place != serving.place)
        });
        for listener in opened {
            serving.extend(serve_place(listener, &handle).await);
        }
    }
    pending::<()>().await;
}

async fn serve_place(listener: AdminListener, handle: &ControlHandle) -> Option<Serving> {
    let place = listener.place.clone();
    // The place may have been left again already.
    let endpoint = handle.admin_at(&place)?;
    // Before the endpoint says that the process is ready: who waits for that asks with the token next.
    access::prepare(handle, &endpoint).await;
    let of_door = |door| router(Access { handle: handle.clone(), door, endpoint: endpoint.clone().into() });
    let routers = match &place {
        AdminPlace::Unix(_) => Routers::one(of_door(Door::Unix)),
        AdminPlace::Tcp(_) => Routers { of_loopback: of_door(Door::Loopback), of_network: of_door(Door::Network) },
    };
    let (leave, left) = oneshot::channel::<()>();
    tokio::task::spawn_local(async move {
        let left = async move {
            let _ = left.await;
        };
        if let Err(error) = serve_at(listener, routers, Bounds::default(), left).await {
            tracing::error!(%error, "the admin endpoint ended");
        }
    });
    Some(Serving { place, _leave: leave })
}

fn router(access: Access) -> Router {
    let handle = access.handle.clone();
    Router::new()
        .route("/metrics", get(metrics::answer))
        .route("/metrics/draining", get(draining::metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .merge(routes::router(access.clone()))
        .layer(axum::middleware::from_fn_with_state(access, access::check_site))
        .with_state(handle)
}

async fn readiness(State(handle): State<ControlHandle>) -> Response {
    let seen = handle.readiness.state();
    let status = match seen {
        ReadinessState::Ready => StatusCode::OK,
        ReadinessState::Starting | ReadinessState::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{}\n", seen.as_str())).into_response()
}
