//! The socket of the admin endpoint: bound before a configuration that names it is taken on, served by `admin`, which
//! is told of each new one.

use crate::socket_file;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tidegate_model::Admin;

/// A bound endpoint.
#[derive(Debug)]
pub enum AdminListener {
    Off,
    Tcp(std::net::TcpListener),
    Unix { listener: std::os::unix::net::UnixListener, path: PathBuf },
}

impl AdminListener {
    /// Binds without a runtime. The socket file of an earlier process is replaced; anything else at that path is not.
    pub fn bind(admin: &Admin) -> io::Result<AdminListener> {
        let listener = match admin {
            Admin::Off => AdminListener::Off,
            Admin::Tcp(address) => AdminListener::Tcp(std::net::TcpListener::bind(address)?),
            Admin::Unix(path) => {
                socket_file::remove_stale(path)?;
                let listener = std::os::unix::net::UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
                AdminListener::Unix { listener, path: path.clone() }
            }
        };
        listener.set_nonblocking()?;
        Ok(listener)
    }

    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            AdminListener::Off => Ok(()),
            AdminListener::Tcp(listener) => listener.set_nonblocking(true),
            AdminListener::Unix { listener, .. } => listener.set_nonblocking(true),
        }
    }

    pub fn try_clone(&self) -> io::Result<AdminListener> {
        Ok(match self {
            AdminListener::Off => AdminListener::Off,
            AdminListener::Tcp(listener) => AdminListener::Tcp(listener.try_clone()?),
            AdminListener::Unix { listener, path } => AdminListener::Unix { listener: listener.try_clone()?, path: path.clone() },
        })
    }

    /// Whether it is where the configuration wants it.
    pub fn is_at(&self, admin: &Admin) -> bool {
        match (self, admin) {
            (AdminListener::Off, Admin::Off) => true,
            (AdminListener::Tcp(listener), Admin::Tcp(address)) => listener.local_addr().is_ok_and(|local| local == *address),
            (AdminListener::Unix { path, .. }, Admin::Unix(wanted)) => path == wanted,
            (AdminListener::Off | AdminListener::Tcp(_) | AdminListener::Unix { .. }, _) => false,
        }
    }

    /// Nobody answers at its path any more.
    pub fn remove_file(&self) {
        if let AdminListener::Unix { path, .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}
