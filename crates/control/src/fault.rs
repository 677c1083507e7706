//! Why a configuration cannot run here, as data: what, where it comes from, and what to do.

use crate::bind::BindFault;
use crate::driver::DRIVER_HELP;
use crate::geo_files::GeoFault;
use crate::map_files::MapFault;
use std::fmt;
use tidegate_certs::CertError;
use tidegate_model::{AdminPlace, LogTarget, Syslog, SyslogPlace};
use tidegate_proxy::auth::{KeyFileFault, ListFault};
use tidegate_transport::ring::Unavailable;

#[derive(Debug)]
pub enum StartFault {
    /// Certificates of the site of that name.
    Certificates {
        site: String,
        errors: Vec<CertError>,
    },
    /// Files of ticket keys.
    TicketKeys {
        errors: Vec<CertError>,
    },
    /// Users of the site of that name.
    Users {
        site: String,
        fault: ListFault,
    },
    /// Keys of programs of the site of that name.
    ApiKeys {
        site: String,
        fault: ListFault,
    },
    /// Keys of tokens of the site of that name.
    TokenKeys {
        site: String,
        fault: KeyFileFault,
    },
    /// Rows of a map.
    Map(MapFault),
    /// A file of `geoip`.
    Geo(GeoFault),
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
    /// Of more than one site.
    Several(Vec<StartFault>),
    Admin {
        place: AdminPlace,
        error: std::io::Error,
    },
    /// The driver that was asked for cannot be had.
    Driver {
        reason: Unavailable,
    },
    Internal(String),
}

impl fmt::Display for StartFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartFault::Certificates { site, errors } => write_errors(f, &format!("site {site}: "), errors),
            StartFault::TicketKeys { errors } => write_errors(f, "", errors),
            StartFault::Users { site, fault } | StartFault::ApiKeys { site, fault } => {
                write!(f, "site {site}: {fault}\n  help: {}", fault.help())
            }
            StartFault::TokenKeys { site, fault } => write!(f, "site {site}: {fault}\n  help: {}", fault.help()),
            StartFault::Map(fault) => write!(f, "{fault}\n  help: {}", fault.help()),
            StartFault::Geo(fault) => write!(f, "{fault}\n  help: {}", fault.help()),
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
            StartFault::AccessLog { target: LogTarget::Syslog(Syslog { place: SyslogPlace::Unix(path), .. }), error } => {
                write!(
                    f,
                    "the access log cannot reach syslog at {}: {error}\n  help: name the socket of a daemon that runs, such as `\"syslog:/dev/log\"`",
                    path.display()
                )
            }
            StartFault::Several(faults) => {
                for (position, fault) in faults.iter().enumerate() {
                    let newline = if position > 0 { "\n" } else { "" };
                    write!(f, "{newline}{fault}")?;
                }
                Ok(())
            }
            StartFault::Admin { place, error } => f.write_str(&admin_fault(place, error)),
            StartFault::AccessLog { error, .. } => write!(f, "the access log cannot be opened: {error}"),
            StartFault::Driver { reason } => write!(f, "`driver \"io-uring\"` cannot be had: {reason}\n  help: {DRIVER_HELP}"),
            StartFault::Internal(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for StartFault {}

impl From<Vec<MapFault>> for StartFault {
    fn from(faults: Vec<MapFault>) -> Self {
        StartFault::Several(faults.into_iter().map(StartFault::Map).collect())
    }
}

impl From<Vec<GeoFault>> for StartFault {
    fn from(faults: Vec<GeoFault>) -> Self {
        StartFault::Several(faults.into_iter().map(StartFault::Geo).collect())
    }
}

impl From<Unavailable> for StartFault {
    fn from(reason: Unavailable) -> Self {
        StartFault::Driver { reason }
    }
}

fn write_errors(f: &mut fmt::Formatter<'_>, whose: &str, errors: &[CertError]) -> fmt::Result {
    for (position, error) in errors.iter().enumerate() {
        let newline = if position > 0 { "\n" } else { "" };
        write!(f, "{newline}{whose}{}", error.message())?;
        if let Some(help) = error.help() {
            write!(f, "\n  help: {help}")?;
        }
    }
    Ok(())
}

fn admin_fault(place: &AdminPlace, error: &std::io::Error) -> String {
    let help = match place {
        AdminPlace::Tcp(_) => "choose another with `admin \"127.0.0.1:PORT\"`, or `admin \"off\"`",
        AdminPlace::Unix(_) => "name a socket in a folder that exists and that this user may write to",
    };
    format!("the admin endpoint cannot listen on {place}: {error}\n  help: {help}")
}
