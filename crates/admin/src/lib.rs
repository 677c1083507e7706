//! The admin endpoint on the control thread: `/metrics`, `/healthz`, `/readyz`, and the JSON API below `/v1`; and the
//! client of it. It never sees a request of a client of the proxy. Start at `routes`, the table of addresses; `access`
//! decides who may use them.

mod access;
mod ask;
mod certificates;
pub mod client;
mod configuration;
mod extract;
mod handlers;
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
use serving::{Bounds, serve_at};
use std::future::pending;
use tidegate_control::{AdminListener, ControlHandle};
use tidegate_telemetry::ReadinessState;
use tokio::sync::mpsc;

/// Serves until the process ends; moves when the configuration names another place. Requests that are being answered
/// there are finished.
pub async fn serve(first: AdminListener, mut places: mpsc::UnboundedReceiver<AdminListener>, handle: ControlHandle) {
    let mut listener = first;
    loop {
        let (leave, left) = tokio::sync::oneshot::channel::<()>();
        let door = Door::of(&listener);
        let router = router(handle.clone(), door);
        // Before the endpoint says that the process is ready: who waits for that asks with the token next.
        access::prepare(&handle, door).await;
        let serving = tokio::task::spawn_local(async move {
            let left = async move {
                let _ = left.await;
            };
            if let Err(error) = serve_at(listener, router, Bounds::default(), left).await {
                tracing::error!(%error, "the admin endpoint ended");
            }
        });
        let Some(next) = places.recv().await else {
            let _ = serving.await;
            return pending().await;
        };
        drop(leave);
        listener = next;
    }
}

fn router(handle: ControlHandle, door: Door) -> Router {
    let access = Access { handle: handle.clone(), door };
    Router::new()
        .route("/metrics", get(metrics::answer))
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
