//! The admin endpoint on the control thread: `/metrics`, `/healthz`, `/readyz`. Read-only; it never sees a request of a client.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tidegate_control::AdminState;
use tidegate_model::Admin;
use tidegate_telemetry::ReadinessState;

/// A bound endpoint; bound before the workers start, so that a taken port is known in time.
pub enum AdminListener {
    Off,
    Tcp(std::net::TcpListener),
    Unix { listener: std::os::unix::net::UnixListener, path: PathBuf },
}

/// Binds without a runtime. The socket file of an earlier process is replaced; anything else at that path is not.
pub fn bind(admin: &Admin) -> io::Result<AdminListener> {
    match admin {
        Admin::Off => Ok(AdminListener::Off),
        Admin::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(AdminListener::Tcp(listener))
        }
        Admin::Unix(path) => {
            remove_stale_socket(path)?;
            let listener = std::os::unix::net::UnixListener::bind(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
            listener.set_nonblocking(true)?;
            Ok(AdminListener::Unix { listener, path: path.clone() })
        }
    }
}

fn remove_stale_socket(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Serves until the process ends.
pub async fn serve(listener: AdminListener, state: AdminState) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .with_state(state);
    let outcome = match listener {
        AdminListener::Off => Ok(()),
        AdminListener::Tcp(listener) => match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => axum::serve(listener, router).await,
            Err(error) => Err(error),
        },
        AdminListener::Unix { listener, path } => {
            let outcome = match tokio::net::UnixListener::from_std(listener) {
                Ok(listener) => axum::serve(listener, router).await,
                Err(error) => Err(error),
            };
            let _ = std::fs::remove_file(path);
            outcome
        }
    };
    if let Err(error) = outcome {
        tracing::error!(%error, "the admin endpoint ended");
    }
}

async fn metrics(State(state): State<AdminState>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.registry.render_prometheus()).into_response()
}

async fn readiness(State(state): State<AdminState>) -> Response {
    let seen = state.readiness.state();
    let status = match seen {
        ReadinessState::Ready => StatusCode::OK,
        ReadinessState::Starting | ReadinessState::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{}\n", seen.as_str())).into_response()
}
