//! Why a configuration cannot run here, as data: what, where it comes from, and what to do.

use crate::bind::BindFault;
use std::fmt;
use tidegate_certs::CertError;
use tidegate_model::LogTarget;

#[derive(Debug)]
pub enum StartFault {
    /// Certificates of the site of that name.
    Certificates {
        site: String,
        errors: Vec<CertError>,
    },
    /// TLS to the servers of a pool.
    UpstreamTls {
        pool: String,
        message: String,
    },
    Bind(Vec<BindFault>),
    AccessLog {
        target: LogTarget,
        error: std::io::Error,
    },
    Internal(String),
}

impl fmt::Display for StartFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartFault::Certificates { site, errors } => {
                for (position, error) in errors.iter().enumerate() {
                    let newline = if position > 0 { "\n" } else { "" };
                    write!(f, "{newline}site {site}: {}", error.message())?;
                    if let Some(help) = error.help() {
                        write!(f, "\n  help: {help}")?;
                    }
                }
                Ok(())
            }
            StartFault::UpstreamTls { pool, message } => write!(f, "pool {pool}: {message}"),
            StartFault::Bind(faults) => {
                for (position, fault) in faults.iter().enumerate() {
                    let newline = if position > 0 { "\n" } else { "" };
                    write!(f, "{newline}{fault}")?;
                }
                Ok(())
            }
            StartFault::AccessLog { target: LogTarget::File { path, .. }, error } => {
                write!(
                    f,
                    "the access log {} cannot be opened: {error}\n  help: name a file in a folder that exists and that this user may write to",
                    path.display()
                )
            }
            StartFault::AccessLog { error, .. } => write!(f, "the access log cannot be opened: {error}"),
            StartFault::Internal(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for StartFault {}
