//! What is known of containers that say by their labels what they serve, and who asks the engine for them. How that is
//! taken on is in `container_changes`; what labels mean is in `config`, how the engine is asked in `discovery`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_api::{ContainerFault, ContainerSeen, ContainersStatus};
use tidegate_config::{LabelFault, LabelMemory, Labelled, Severity, read_labels};
use tidegate_discovery::{ContainerBoard, ContainersTold, follow_containers};
use tidegate_model::{Configuration, Container, ContainerGroups, ContainerSource, ContainerStage};
use tidegate_telemetry::ConfigurationMetrics;
use tokio::sync::Notify;

/// What a start waits for the engine. Without an answer by then, containers come as soon as they are told of.
const FIRST_LIST_LIMIT: Duration = Duration::from_secs(1);
/// Faults that `tidegate status` lists.
const FAULTS_SHOWN_MAX: usize = 200;

/// What is known of containers, and who asks for them.
#[derive(Default)]
pub struct Containers {
    board: ContainerBoard,
    memory: LabelMemory,
    faults: Vec<LabelFault>,
    /// Groups whose labels ask for a site.
    asking: BTreeSet<String>,
    /// Groups of which something is served.
    served: BTreeSet<String>,
    /// Whether a list has come since the engine is followed.
    is_listed: bool,
    engine_fault: Option<String>,
    /// Why what the labels say does not run; what ran before goes on.
    unfit: Option<String>,
    follower: Option<EngineFollower>,
    told: Arc<ContainerNews>,
    try_again_at: Option<Instant>,
}

struct EngineFollower {
    source: ContainerSource,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for EngineFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the follower has heard and nobody has taken.
#[derive(Default)]
pub struct ContainerNews {
    news: Mutex<Vec<ContainersTold>>,
    notify: Notify,
    /// Nothing is taken before.
    rests_until: Mutex<Option<Instant>>,
}

impl ContainerNews {
    fn news(&self) -> MutexGuard<'_, Vec<ContainersTold>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, told: ContainersTold) {
        let mut news = self.news();
        // The newest list is all that counts.
        if matches!(told, ContainersTold::Listed(_)) {
            news.retain(|known| !matches!(known, ContainersTold::Listed(_)));
        }
        news.push(told);
        self.notify.notify_one();
    }

    /// Until there is something to take, and it is time to.
    ///
    /// May be given up and asked again: what was heard is kept.
    pub async fn wait(&self) {
        while self.news().is_empty() {
            self.notify.notified().await;
        }
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until {
            tokio::time::sleep_until(until.into()).await;
        }
    }
}

impl Containers {
    /// With what an engine says first, for a bounded time: who starts anew serves at once what it served before.
    pub fn first(configuration: &Configuration) -> Containers {
        let mut containers = Containers::default();
        if let Some(settings) = &configuration.containers {
            for told in first_told(&settings.source) {
                containers.take_in(told);
            }
            if !containers.is_listed && containers.engine_fault.is_none() {
                tracing::error!("no container is listed within {FIRST_LIST_LIMIT:?}; they are served as soon as they are");
            }
        }
        containers
    }

    pub fn board(&self) -> &ContainerBoard {
        &self.board
    }

    /// What the labels add to a configuration of files.
    pub fn labelled(&self, file: &Configuration) -> Labelled {
        match &file.containers {
            Some(settings) => read_labels(&self.board.groups(), settings, file, &self.memory),
            None => Labelled::default(),
        }
    }

    /// The labels have been read so, and that runs.
    pub fn taken_on(&mut self, labelled: Labelled) {
        self.unfit = None;
        self.note_faults(&labelled);
        self.memory = labelled.into_memory();
    }

    fn note_faults(&mut self, labelled: &Labelled) {
        let before: BTreeSet<(&str, &str)> = self.faults.iter().map(|fault| (&*fault.place, &*fault.message)).collect();
        for fault in labelled.faults.iter().filter(|fault| !before.contains(&(&*fault.place, &*fault.message))) {
            let LabelFault { severity, message, place, help, .. } = fault;
            match severity {
                Severity::Error => tracing::error!(label = place, help, "{message}"),
                Severity::Warning | Severity::Note => tracing::warn!(label = place, help, "{message}"),
            }
        }
        self.faults.clone_from(&labelled.faults);
        self.asking.clone_from(&labelled.asking);
        self.served.clone_from(&labelled.served);
    }

    /// Whether routes may differ by it.
    pub fn take_in(&mut self, told: ContainersTold) -> bool {
        match told {
            ContainersTold::Listed(containers) => {
                self.is_listed = true;
                self.board.set(Arc::new(ContainerGroups::new(containers)));
                return true;
            }
            ContainersTold::Fault(fault) => {
                tracing::warn!(%fault, "containers cannot be listed: those that were found last stay in use");
                self.engine_fault = Some(fault.to_string());
            }
            ContainersTold::Recovered => {
                tracing::info!("containers can be listed again");
                self.engine_fault = None;
            }
        }
        false
    }

    /// Asks the engine that the configuration names, and no other. On the control thread's runtime only.
    pub fn follow(&mut self, configuration: &Configuration) {
        let source = configuration.containers.as_ref().map(|settings| &settings.source);
        if self.follower.as_ref().map(|follower| &follower.source) == source {
            return;
        }
        self.follower = None;
        let Some(source) = source.cloned() else {
            *self = Containers { board: self.board.clone(), ..Containers::default() };
            self.board.set(Arc::default());
            return;
        };
        let told = self.told.clone();
        let asked = source.clone();
        let task = async move { match follow_containers(asked, |news| told.tell(news)).await {} };
        self.follower = Some(EngineFollower { source, task: tokio::task::spawn_local(task) });
    }

    pub fn told(&self) -> Arc<ContainerNews> {
        self.told.clone()
    }

    /// What was heard and nobody has taken.
    pub fn take_told(&self) -> Vec<ContainersTold> {
        std::mem::take(&mut *self.told.news())
    }

    /// What the labels say is running, or why it is not and when it is tried again. Nothing is taken on before
    /// `rests_until`.
    pub fn note_outcome(&mut self, unfit: Option<String>, try_again_at: Option<Instant>, rests_until: Instant) {
        (self.unfit, self.try_again_at) = (unfit, try_again_at);
        *self.told.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(rests_until);
    }

    pub fn is_time_to_try_again(&mut self) -> bool {
        self.try_again_at.take_if(|at| Instant::now() >= *at).is_some()
    }

    /// For metrics.
    pub fn show(&self, metrics: &ConfigurationMetrics) {
        let mut counts = [0; ContainerStage::ALL.len()];
        for container in self.board.groups().containers() {
            counts[container.stage as usize] += 1;
        }
        metrics.set_containers(self.follower.as_ref().map(|_| (&counts, self.faults.len())));
    }

    /// As `tidegate status` shows it.
    pub fn status(&self) -> ContainersStatus {
        let groups = self.board.groups();
        let seen = |container: &Arc<Container>| ContainerSeen {
            name: container.name.clone(),
            group: container.group.clone(),
            stage: container.stage.as_str().to_owned(),
            address: container.address.as_ref().ok().map(ToString::to_string),
            asks: self.asking.contains(&container.group),
            is_served: self.served.contains(&container.group),
        };
        let mut containers: Vec<ContainerSeen> = groups.containers().map(seen).collect();
        containers.sort_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));
        let fault = |fault: &LabelFault| ContainerFault {
            place: fault.place.clone(),
            message: fault.message.clone(),
            help: fault.help.clone(),
            is_error: fault.severity == Severity::Error,
        };
        ContainersStatus {
            fault: self.engine_fault.clone().or_else(|| self.unfit.clone()),
            listed: self.is_listed,
            containers,
            faults: self.faults.iter().take(FAULTS_SHOWN_MAX).map(fault).collect(),
            faults_total: self.faults.len(),
        }
    }
}

/// What is told within the limit, up to the first list or fault.
fn first_told(source: &ContainerSource) -> Vec<ContainersTold> {
    let told = Arc::new(ContainerNews::default());
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    runtime.block_on(async {
        let follow = follow_containers(source.clone(), |news| told.tell(news));
        tokio::select! {
            never = follow => match never {},
            () = told.wait() => {}
            () = tokio::time::sleep(FIRST_LIST_LIMIT) => {}
        }
    });
    std::mem::take(&mut *told.news())
}
