//! The connection to Redis: opened when it is needed, kept, and opened anew after a failure. All waits have a bound,
//! and what the server says is told apart by what can be done about it.

use super::answer_bound::BoundedAnswers;
use crate::fault::{Problem, StorageFault};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisConnectionInfo, RedisError, ServerErrorKind, Value};
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;
use tidegate_model::{RedisAddress, RedisStorage, Secret};
use tidegate_outbound::{OutboundFault, StreamClient, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

/// Of an attempt: look-up, connection, handshake and password, or one command with its answer.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

pub(super) struct Connections {
    route: Route,
    /// For messages.
    place: String,
    login: RedisConnectionInfo,
    /// Not to be repeated, whoever says it.
    password: Option<Secret>,
    open: Mutex<Option<Open>>,
}

enum Route {
    Network(StreamClient),
    Unix(PathBuf),
}

/// Ends with its last user.
#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    driver: std::sync::Arc<Driver>,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl Connections {
    pub(super) fn new(settings: &RedisStorage) -> Result<Connections, StorageFault> {
        let place = place(settings);
        let network = |host: &str, port: u16, trust: Option<Trust>| StreamClient::new(host, port, trust).map(Route::Network);
        let route = match &settings.address {
            RedisAddress::Tcp { host, port } => network(host, *port, None),
            RedisAddress::Tls { host, port, root } => network(host, *port, Some(root.clone().map_or(Trust::System, Trust::File))),
            RedisAddress::Unix(path) => Ok(Route::Unix(path.clone())),
        };
        let route = route
            .map_err(|fault| StorageFault::new("certificates and keys cannot be kept", &place, Problem::of_outbound(&fault)))?;
        let mut login = RedisConnectionInfo::default().set_db(i64::from(settings.database)).set_skip_set_lib_name();
        if let Some(username) = &settings.username {
            login = login.set_username(username);
        }
        if let Some(password) = &settings.password {
            login = login.set_password(password.reveal());
        }
        Ok(Connections { route, place, login, password: settings.password.clone(), open: Mutex::new(None) })
    }

    pub(super) fn describe(&self) -> String {
        self.place.clone()
    }

    /// All that is asked may be asked twice, so what a kept connection did not answer because it had ended is asked
    /// again over a new one.
    /// Boxed and with one type of answer: the future would otherwise be compiled anew into each of its callers.
    pub(super) fn ask<'a>(&'a self, command: &'a Cmd) -> Pin<Box<dyn Future<Output = Result<Value, Problem>> + Send + 'a>> {
        Box::pin(self.ask_twice(command))
    }

    async fn ask_twice(&self, command: &Cmd) -> Result<Value, Problem> {
        let (kept, is_new) = self.connection().await?;
        match self.ask_over(kept, command).await {
            Err(Failure { is_of_connection: true, .. }) if !is_new => {
                let (fresh, _) = self.connection().await?;
                self.ask_over(fresh, command).await.map_err(|failure| failure.problem)
            }
            answer => answer.map_err(|failure| failure.problem),
        }
    }

    /// And whether it was opened now.
    async fn connection(&self) -> Result<(Open, bool), Problem> {
        // Who comes while it is being opened waits for the same one.
        let mut open = self.open.lock().await;
        if let Some(open) = &*open {
            return Ok((open.clone(), false));
        }
        let silent = Problem::ServerSilent { seconds: CONNECT_TIME_MAX.as_secs() };
        let opened = tokio::time::timeout(CONNECT_TIME_MAX, self.connect()).await.unwrap_or(Err(silent))?;
        *open = Some(opened.clone());
        Ok((opened, true))
    }

    async fn connect(&self) -> Result<Open, Problem> {
        match &self.route {
            Route::Network(client) => {
                let stream = client.connect().await.map_err(|fault| Problem::of_outbound(&fault))?;
                self.log_in(stream).await
            }
            Route::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| Problem::Unreachable { text: error.to_string() })?;
                self.log_in(stream).await
            }
        }
    }

    async fn log_in<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S) -> Result<Open, Problem> {
        // Our own bound is around each question.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let logged_in = MultiplexedConnection::new_with_config(&self.login, BoundedAnswers::new(stream), config).await;
        let (connection, driver) = logged_in.map_err(|error| self.problem_of(&error))?;
        let driver = Driver(tokio::spawn(driver).abort_handle());
        Ok(Open { connection, driver: std::sync::Arc::new(driver) })
    }

    async fn ask_over(&self, mut open: Open, command: &Cmd) -> Result<Value, Failure> {
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, command.query_async(&mut open.connection)).await;
        let failure = match answer {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => Failure { is_of_connection: is_of_connection(&error), problem: self.problem_of(&error) },
            Err(_) => Failure { is_of_connection: true, problem: Problem::ServerSilent { seconds: ANSWER_TIME_MAX.as_secs() } },
        };
        // A replica and a server that moved are left as well: another connection may lead to another server.
        if failure.is_of_connection || failure.problem.is_transient() {
            self.forget(&open).await;
        }
        Err(failure)
    }

    pub(super) fn problem_of(&self, error: &RedisError) -> Problem {
        problem_of(error, without_arguments(&error.to_string(), self.password.as_ref()))
    }

    /// Unless somebody has opened another one meanwhile.
    async fn forget(&self, failed: &Open) {
        let mut open = self.open.lock().await;
        if open.as_ref().is_some_and(|open| std::sync::Arc::ptr_eq(&open.driver, &failed.driver)) {
            *open = None;
        }
    }
}

fn place(settings: &RedisStorage) -> String {
    let database = if settings.database == 0 { String::new() } else { format!(", database {}", settings.database) };
    match &settings.address {
        RedisAddress::Tcp { host, port } => format!("Redis at {host}:{port}{database}"),
        RedisAddress::Tls { host, port, root: _ } => format!("Redis at {host}:{port} over TLS{database}"),
        RedisAddress::Unix(path) => format!("Redis at {}{database}", path.display()),
    }
}

struct Failure {
    is_of_connection: bool,
    problem: Problem,
}

fn is_of_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}

/// Servers that do not know a command repeat what stood behind it, cut at any place, and the first command has the
/// password behind it.
fn without_arguments(said: &str, password: Option<&Secret>) -> String {
    let said = said.split(", with args").next().unwrap_or_default();
    let password = password.map(Secret::reveal).filter(|password| !password.is_empty());
    password.map_or_else(|| said.to_owned(), |password| said.replace(password, "***"))
}

fn problem_of(error: &RedisError, text: String) -> Problem {
    match error.kind() {
        ErrorKind::AuthenticationFailed => Problem::Refused { text },
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::NoPerm => Problem::Refused { text },
            ServerErrorKind::ReadOnly => Problem::Replica,
            ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot | ServerErrorKind::ClusterDown => {
                Problem::Cluster
            }
            ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain | ServerErrorKind::MasterDown => Problem::Busy { text },
            _ => Problem::Server { text },
        },
        ErrorKind::Extension => match error.code() {
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Problem::Refused { text },
            Some("OOM" | "MISCONF") => Problem::ServerFull { text },
            Some("BUSY" | "UNKILLABLE") => Problem::Busy { text },
            _ => Problem::Server { text },
        },
        _ if is_of_connection(error) => Problem::Unreachable { text },
        _ => Problem::Server { text },
    }
}

impl Problem {
    pub(crate) fn of_outbound(fault: &OutboundFault) -> Problem {
        if fault.is_transient() {
            Problem::Unreachable { text: fault.to_string() }
        } else {
            Problem::Untrusted { text: fault.to_string() }
        }
    }
}
