//! The sockets of the admin endpoint: bound before a configuration that names them is taken on, served by `admin`,
//! which is told of each new one.

use crate::control::Control;
use crate::fault::StartFault;
use crate::socket_file;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_model::{AdminEndpoint, AdminPlace, AdminServes, Configuration};
use tokio::sync::{mpsc, watch};

/// A process that drains behind a successor serves its metrics on a socket of the state folder with this prefix, its
/// process id and `.sock`.
pub const DRAINING_PREFIX: &str = "draining-";
pub const DRAINING_SUFFIX: &str = ".sock";

/// A bound place of the endpoint.
#[derive(Debug)]
pub struct AdminListener {
    pub place: AdminPlace,
    pub socket: AdminSocket,
}

#[derive(Debug)]
pub enum AdminSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AdminListener {
    /// Binds without a runtime. The socket file of an earlier process is replaced; anything else at that path is not.
    pub fn bind(place: &AdminPlace) -> io::Result<AdminListener> {
        let socket = match place {
            AdminPlace::Tcp(address) => AdminSocket::Tcp(TcpListener::bind(address)?),
            AdminPlace::Unix(path) => {
                socket_file::remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
                AdminSocket::Unix(listener)
            }
        };
        let listener = AdminListener { place: place.clone(), socket };
        listener.set_nonblocking()?;
        Ok(listener)
    }

    /// A socket that somebody else opened.
    pub fn tcp(listener: TcpListener) -> io::Result<AdminListener> {
        listener.set_nonblocking(true)?;
        Ok(AdminListener { place: AdminPlace::Tcp(listener.local_addr()?), socket: AdminSocket::Tcp(listener) })
    }

    pub fn set_nonblocking(&self) -> io::Result<()> {
        match &self.socket {
            AdminSocket::Tcp(listener) => listener.set_nonblocking(true),
            AdminSocket::Unix(listener) => listener.set_nonblocking(true),
        }
    }

    pub fn try_clone(&self) -> io::Result<AdminListener> {
        let socket = match &self.socket {
            AdminSocket::Tcp(listener) => AdminSocket::Tcp(listener.try_clone()?),
            AdminSocket::Unix(listener) => AdminSocket::Unix(listener.try_clone()?),
        };
        Ok(AdminListener { place: self.place.clone(), socket })
    }

    /// Nobody answers at its path any more.
    pub fn remove_file(&self) {
        if let AdminPlace::Unix(path) = &self.place {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Places with their sockets: those that are wanted and had.
#[derive(Debug, Default)]
pub struct AdminPlaces {
    pub endpoints: Vec<AdminEndpoint>,
    /// Which were not open before.
    pub opened: Vec<AdminListener>,
    /// Of those that were bound here.
    fresh: FreshFiles,
}

/// Paths of sockets that nobody has been told of: where nothing comes of the change, their files go.
#[derive(Debug, Default)]
struct FreshFiles(Vec<PathBuf>);

impl FreshFiles {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for FreshFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AdminPlaces {
    /// Opens what is wanted and not there. `given` are sockets that somebody else opened.
    pub fn open(
        configuration: &Configuration,
        state_dir: &Path,
        is_open: impl Fn(&AdminPlace) -> bool,
        mut given: Vec<AdminListener>,
    ) -> Result<AdminPlaces, StartFault> {
        let mut places = AdminPlaces::default();
        for endpoint in configuration.admin.endpoints(state_dir) {
            if is_open(&endpoint.place) {
                places.endpoints.push(endpoint);
                continue;
            }
            let position = given.iter().position(|given| given.place == endpoint.place);
            let opened = match position {
                Some(position) => Ok(given.swap_remove(position)),
                None => make_folder(&endpoint, state_dir).and_then(|()| AdminListener::bind(&endpoint.place)),
            };
            match opened {
                Ok(listener) => {
                    if let (None, AdminPlace::Unix(path)) = (position, &endpoint.place) {
                        places.fresh.0.push(path.clone());
                    }
                    places.opened.push(listener);
                    places.endpoints.push(endpoint);
                }
                Err(error) if endpoint.is_implied => {
                    tracing::warn!(socket = %endpoint.place, %error, "{NO_SOCKET}");
                }
                Err(error) => return Err(StartFault::Admin { place: endpoint.place, error }),
            }
        }
        Ok(places)
    }
}

const NO_SOCKET: &str =
    "the admin API is not served: its socket cannot be had; give this process one of its own with `admin \"unix:PATH\"`";

/// The state folder may not be there yet.
fn make_folder(endpoint: &AdminEndpoint, state_dir: &Path) -> io::Result<()> {
    if !endpoint.is_implied {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir)
}

/// Where the endpoint is; `admin` is told of each new socket, and reads who may do what there.
pub(crate) struct AdminSockets {
    /// Ours, so that they can be handed on.
    pub listeners: Vec<AdminListener>,
    pub serve: mpsc::UnboundedSender<Vec<AdminListener>>,
    pub endpoints: watch::Sender<Arc<[AdminEndpoint]>>,
}

impl AdminSockets {
    /// Serves at these places from the start.
    pub fn at(
        places: AdminPlaces,
        serve: mpsc::UnboundedSender<Vec<AdminListener>>,
        endpoints: watch::Sender<Arc<[AdminEndpoint]>>,
    ) -> AdminSockets {
        let mut sockets = AdminSockets { listeners: Vec::new(), serve, endpoints };
        sockets.move_to(places);
        sockets
    }

    /// Takes on these places, and leaves all others.
    pub fn move_to(&mut self, places: AdminPlaces) {
        let AdminPlaces { endpoints, opened, fresh } = places;
        fresh.keep();
        let is_wanted = |listener: &AdminListener| endpoints.iter().any(|endpoint| endpoint.place == listener.place);
        let (stay, leave): (Vec<_>, Vec<_>) = std::mem::take(&mut self.listeners).into_iter().partition(is_wanted);
        self.listeners = stay;
        for listener in &opened {
            match listener.try_clone() {
                Ok(own) => self.listeners.push(own),
                Err(error) => {
                    tracing::error!(place = %listener.place, %error, "this place of the admin endpoint cannot be handed on");
                }
            }
        }
        self.endpoints.send_replace(endpoints.into());
        let _ = self.serve.send(opened);
        leave.iter().for_each(AdminListener::remove_file);
    }

    /// The places are another process's from here on: their files stay.
    pub fn give_up(&mut self) {
        self.listeners.clear();
        self.move_to(AdminPlaces::default());
    }

    /// Without files of sockets where nobody answers.
    pub fn close(&mut self) {
        self.listeners.iter().for_each(AdminListener::remove_file);
    }
}

impl Control {
    /// Serves metrics beside a successor, which has the endpoint by now and knows where to ask.
    pub(crate) fn serve_metrics_while_draining(&mut self) {
        let name = format!("{DRAINING_PREFIX}{}{DRAINING_SUFFIX}", std::process::id());
        let place = AdminPlace::Unix(self.state_dir().join(name));
        match AdminListener::bind(&place) {
            Ok(listener) => {
                let endpoints = vec![AdminEndpoint::new(place, AdminServes::Metrics)];
                self.admin.move_to(AdminPlaces { endpoints, opened: vec![listener], ..AdminPlaces::default() });
            }
            Err(error) => tracing::warn!(socket = %place, %error, "nobody can ask this process for its metrics while it drains"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AdminListener, AdminPlaces};
    use std::path::Path;
    use tidegate_model::{Admin, AdminEndpoint, AdminPlace, AdminServes, Configuration};

    fn open(admin: Admin, state_dir: &Path) -> Result<AdminPlaces, String> {
        let configuration = Configuration { admin, ..Configuration::default() };
        AdminPlaces::open(&configuration, state_dir, |_| false, Vec::new()).map_err(|fault| fault.to_string())
    }

    fn at(places: &[(AdminPlace, AdminServes)]) -> Admin {
        Admin::At(places.iter().map(|(place, serves)| AdminEndpoint::new(place.clone(), *serves)).collect())
    }

    #[test]
    fn the_api_is_on_the_socket_of_the_state_folder_unless_it_is_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let socket = AdminPlace::Unix(state.join("admin.sock"));
        let other = AdminPlace::Unix(folder.path().join("other.sock"));
        let port = AdminPlace::Tcp("127.0.0.1:0".parse().expect("an address"));
        let check = |admin: Admin, expected: &[&AdminPlace]| {
            let places = open(admin, &state).expect("they can be opened");
            let seen: Vec<&AdminPlace> = places.endpoints.iter().map(|endpoint| &endpoint.place).collect();
            assert_eq!(seen, expected);
            assert_eq!(places.opened.len(), expected.len());
            places.opened.iter().for_each(AdminListener::remove_file);
        };
        check(Admin::Off, &[]);
        check(at(&[(port.clone(), AdminServes::Metrics)]), &[&socket, &port]);
        check(at(&[(port.clone(), AdminServes::Everything)]), &[&port]);
        check(at(&[(other.clone(), AdminServes::Everything), (port.clone(), AdminServes::Metrics)]), &[&other, &port]);
    }

    #[test]
    fn a_socket_that_nobody_wrote_may_be_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let port = AdminPlace::Tcp("127.0.0.1:0".parse().expect("an address"));
        let first = open(at(&[(port.clone(), AdminServes::Metrics)]), folder.path()).expect("it can be opened");
        let second = open(at(&[(port.clone(), AdminServes::Metrics)]), folder.path()).expect("the first has the socket");
        assert_eq!((first.opened.len(), second.opened.len(), second.endpoints.len()), (2, 1, 1));
        let written = at(&[(AdminPlace::Unix(folder.path().join("admin.sock")), AdminServes::Everything)]);
        let refused = open(written, folder.path()).map(|_| ()).expect_err("one that is written is a fault");
        assert!(refused.contains("admin.sock"), "{refused}");
    }
}
