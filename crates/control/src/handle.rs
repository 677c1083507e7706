//! How the admin endpoint reaches the control thread's state: by a function that runs there, between two events.

use crate::control::Control;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_model::{AdminEndpoint, AdminPlace};
use tidegate_telemetry::{Readiness, Registry};
use tokio::sync::{mpsc, oneshot, watch};

/// Events that may wait for the control thread.
pub(crate) const EVENTS_MAX: usize = 256;

/// What moves the control thread.
pub(crate) enum Event {
    Ask(Box<dyn FnOnce(&mut Control) + Send>),
    FilesChanged(Vec<PathBuf>),
}

#[derive(Clone)]
pub struct ControlHandle {
    pub(crate) events: mpsc::Sender<Event>,
    pub registry: Arc<Registry>,
    pub readiness: Arc<Readiness>,
    admin: AdminSettings,
}

/// What the configuration that runs says of `admin`, for requests that do not ask the control thread.
pub(crate) type AdminSettings = watch::Receiver<Arc<[AdminEndpoint]>>;

/// The control thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process is ending")
    }
}

impl std::error::Error for Stopped {}

impl ControlHandle {
    pub(crate) fn new(
        events: mpsc::Sender<Event>,
        registry: &Arc<Registry>,
        readiness: &Arc<Readiness>,
        admin: AdminSettings,
    ) -> ControlHandle {
        ControlHandle { events, registry: registry.clone(), readiness: readiness.clone(), admin }
    }

    /// Where the admin endpoint is now, and who may do what there.
    pub fn admin(&self) -> Arc<[AdminEndpoint]> {
        self.admin.borrow().clone()
    }

    /// What holds at one place; `None` when it is being left.
    pub fn admin_at(&self, place: &AdminPlace) -> Option<AdminEndpoint> {
        self.admin.borrow().iter().find(|endpoint| endpoint.place == *place).cloned()
    }

    /// Runs the question on the control thread and brings its answer. It must be quick: nothing else happens there
    /// meanwhile.
    pub async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&mut Control) -> T + Send + 'static) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        let run = move |control: &mut Control| {
            // Nobody waits any more when the client has left.
            let _ = answer.send(question(control));
        };
        self.events.send(Event::Ask(Box::new(run))).await.map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)
    }
}
