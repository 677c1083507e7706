//! One participant of an experiment that stands and answers: a proxy, the relay, or the backend itself.
//! It knows how it was started, so that it can be started again after it has ended half-way.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_transport::Driver;

use crate::certificates;
use crate::content;
use crate::net::Error;
use crate::peers::{self, Content, Places, Program, Rendered, Setup};
use crate::procfs::{self, ProcessId};
use crate::results::{Configuration, Flavour};
use crate::stage::cgroup::Cgroup;
use crate::stage::child::{self, Child};
use crate::stage::{START_POLL, START_TIME_MAX, Stage, free_address};

/// A freshly started process may still be busy with itself when its port opens.
const SETTLE_TIME: Duration = Duration::from_millis(150);
/// Between two requests to a peer that does not answer yet.
const ANSWER_POLL: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a run has a handful of them, and most are the large one")]
pub enum Participant {
    Peer {
        program: Program,
        setup: Setup,
    },
    /// A blind TCP relay: no TLS, no HTTP; the floor of those on this driver.
    Relay(Driver),
    /// The backend alone, without anything before it.
    Backend,
}

pub struct Running {
    name: String,
    participant: Participant,
    places: Places,
    rendered: Rendered,
    child: Option<Child>,
    processes: Vec<ProcessId>,
    resident_bytes_at_start: u64,
}

impl Participant {
    /// As tables name it.
    pub fn name(&self) -> String {
        match self {
            Participant::Peer { program, setup } => match &setup.variant {
                Some(variant) => format!("{} {variant}", program.name),
                None => program.name.clone(),
            },
            Participant::Relay(driver) => peers::name_with(*driver, "relay"),
            Participant::Backend => "backend".into(),
        }
    }

    pub fn flavour(&self) -> Flavour {
        match self {
            Participant::Peer { setup, .. } => setup.flavour,
            Participant::Relay(_) | Participant::Backend => Flavour::Floor,
        }
    }

    pub fn threads(&self) -> usize {
        match self {
            Participant::Peer { setup, .. } => setup.threads.unwrap_or(0),
            Participant::Relay(_) => 1,
            Participant::Backend => 0,
        }
    }
}

impl Running {
    /// Starts a participant in a folder of its own and waits until it listens.
    pub fn start(stage: &Stage, participant: Participant) -> Result<Running, Error> {
        Running::start_on(stage, participant, None)
    }

    /// On an address that others may listen on, too.
    pub fn start_on(stage: &Stage, participant: Participant, listen: Option<SocketAddr>) -> Result<Running, Error> {
        let mut running = Running::set_up(stage, participant, listen)?;
        running.launch(stage)?;
        Ok(running)
    }

    /// Starts a peer and returns it at its first right answer, with the time since its process began.
    pub fn start_until(
        stage: &Stage,
        participant: Participant,
        mut is_answered: impl FnMut(SocketAddr) -> bool,
        time_max: Duration,
    ) -> Result<(Running, Duration), Error> {
        let mut running = Running::set_up(stage, participant, None)?;
        running.rendered.write(&running.places.folder)?;
        let began = Instant::now();
        let mut child = running.spawn(stage)?.ok_or("the backend is not started by an experiment")?;
        while !is_answered(running.places.listen) {
            child.check_alive()?;
            if began.elapsed() > time_max {
                return Err(format!("{} gave no right answer within {time_max:?}", running.name).into());
            }
            std::thread::sleep(ANSWER_POLL);
        }
        let time = began.elapsed();
        running.adopt(child)?;
        Ok((running, time))
    }

    fn set_up(stage: &Stage, participant: Participant, listen: Option<SocketAddr>) -> Result<Running, Error> {
        let name = participant.name();
        let listen = match (&participant, listen) {
            (Participant::Backend, _) => stage.backend_address(),
            (_, Some(listen)) => listen,
            (_, None) => free_address()?,
        };
        let folder = tempfile::Builder::new().prefix(&name.replace(' ', "-")).tempdir_in(stage.path())?.keep();
        for file in certificates::FILES {
            std::fs::copy(stage.path().join(file), folder.join(file))?;
        }
        if let Participant::Peer { setup, .. } = &participant
            && setup.content.is_some_and(Content::needs_files)
        {
            content::write_files(&folder.join(Content::FOLDER))?;
        }
        let places = Places { folder, listen, admin: free_address()?, backend: stage.backend_address() };
        let rendered = match &participant {
            Participant::Peer { program, setup } => peers::render(program, &places, setup, stage.templates())?,
            Participant::Relay(_) | Participant::Backend => Rendered::default(),
        };
        Ok(Running { name, participant, places, rendered, child: None, processes: Vec::new(), resident_bytes_at_start: 0 })
    }

    fn launch(&mut self, stage: &Stage) -> Result<(), Error> {
        self.rendered.write(&self.places.folder)?;
        let Some(mut child) = self.spawn(stage)? else { return Ok(()) };
        wait_until_it_listens(&mut child, self.places.listen)?;
        std::thread::sleep(SETTLE_TIME);
        child.check_alive()?;
        self.adopt(child)
    }

    /// The backend stands already.
    fn spawn(&self, stage: &Stage) -> Result<Option<Child>, Error> {
        let cgroup = stage.cgroup().map(Cgroup::path);
        let command = match &self.participant {
            Participant::Backend => return Ok(None),
            Participant::Relay(driver) => {
                let mut command = child::pinned(&stage.cores().proxy, &std::env::current_exe()?)?;
                command.args(["relay", "--listen", &self.places.listen.to_string(), "--to", &self.places.backend.to_string()]);
                command.args(["--driver", driver.name()]);
                command
            }
            Participant::Peer { program, .. } => {
                let mut command = child::pinned_within(&stage.cores().proxy, cgroup, &program.path)?;
                command.args(&self.rendered.arguments).envs(self.rendered.environment.iter().cloned());
                command.current_dir(&self.places.folder);
                command
            }
        };
        Child::spawn(&self.name, command, &self.log()).map(Some)
    }

    fn adopt(&mut self, child: Child) -> Result<(), Error> {
        self.processes = child.processes()?;
        self.resident_bytes_at_start = procfs::resident_bytes(&self.processes)?;
        self.child = Some(child);
        Ok(())
    }

    pub fn process_id(&self) -> Option<ProcessId> {
        self.child.as_ref().map(Child::process_id)
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    fn log(&self) -> PathBuf {
        self.places.folder.join("output.log")
    }

    /// After it has ended.
    pub fn start_again(&mut self, stage: &Stage) -> Result<(), Error> {
        self.child = None;
        self.launch(stage)
    }

    /// Fails with its last words, once it has ended.
    pub fn check_alive(&mut self) -> Result<(), Error> {
        match &mut self.child {
            Some(child) => child.check_alive(),
            None if matches!(self.participant, Participant::Backend) => Ok(()),
            None => Err(format!("{} is not running", self.name).into()),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn participant(&self) -> &Participant {
        &self.participant
    }

    pub fn address(&self) -> SocketAddr {
        self.places.listen
    }

    pub fn processes(&self) -> &[ProcessId] {
        &self.processes
    }

    pub fn resident_bytes_at_start(&self) -> u64 {
        self.resident_bytes_at_start
    }

    pub fn speaks_tls(&self) -> bool {
        let speaks = |setup: &Setup| setup.sites.is_none() && setup.content.is_none_or(|content| content.tls);
        matches!(&self.participant, Participant::Peer { setup, .. } if speaks(setup))
    }

    /// The configuration for another setup, to be had at hand when it is needed.
    pub fn prepare(&self, templates: Option<&Path>, setup: &Setup) -> Result<Rendered, Error> {
        match &self.participant {
            Participant::Peer { program, .. } => peers::render(program, &self.places, setup, templates),
            Participant::Relay(_) | Participant::Backend => Err(format!("{} cannot be configured", self.name).into()),
        }
    }

    /// Writes a prepared configuration and tells the process, without waiting for it. What it had before is not kept:
    /// see [`Running::replaced`].
    pub fn order(&self, prepared: &Rendered) -> Result<(), String> {
        match (&self.participant, &self.child) {
            (Participant::Peer { program, .. }, Some(child)) => {
                peers::order_change(program, &self.places, &self.rendered, prepared, child.process_id())
            }
            (Participant::Peer { .. } | Participant::Relay(_) | Participant::Backend, _) => {
                Err(format!("{} cannot be configured", self.name))
            }
        }
    }

    /// An ordered configuration is the present one from now on, and the one before is at hand again.
    pub fn replaced(&mut self, prepared: &mut Rendered) {
        std::mem::swap(&mut self.rendered, prepared);
    }

    /// Changes the configuration while it runs, as its own documentation says.
    pub fn reconfigure(&mut self, templates: Option<&Path>, change: impl FnOnce(&mut Setup)) -> Result<(), String> {
        let (Participant::Peer { program, setup }, Some(child)) = (&mut self.participant, &self.child) else {
            return Err(format!("{} cannot be configured", self.name));
        };
        let mut changed = setup.clone();
        change(&mut changed);
        let rendered = peers::render(program, &self.places, &changed, templates).map_err(|error| error.to_string())?;
        peers::reconfigure(program, &self.places, &self.rendered, &rendered, child.process_id())?;
        *setup = changed;
        self.rendered = rendered;
        Ok(())
    }

    /// Waits for the end of a process that was asked to stop, and kills it after its time.
    pub fn await_end(&mut self, time_max: Duration) -> Result<(), Error> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let deadline = Instant::now() + time_max;
        while !child.has_ended() {
            if Instant::now() > deadline {
                child.kill();
                return Err(format!("{} did not end after its graceful stop, and was killed", self.name).into());
            }
            std::thread::sleep(START_POLL);
        }
        Ok(())
    }

    /// For the report.
    pub fn configuration(&self) -> Option<Configuration> {
        let Participant::Peer { program, setup } = &self.participant else { return None };
        let mut command: Vec<String> = self.rendered.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        command.push(program.path.display().to_string());
        command.extend(self.rendered.arguments.iter().map(|argument| argument.to_string_lossy().into_owned()));
        // The folder is temporary, and its name tells nothing.
        let Places { folder, listen, admin, backend } = &self.places;
        // Folder and ports are of this one run, tell nothing, and would make equal configurations look different.
        let shorten = |text: &str| {
            let mut text = procfs::without_private_folders(&text.replace(&folder.display().to_string(), "/run/lab"));
            for (address, port) in [(listen, "8443"), (admin, "9180"), (backend, "9000")] {
                text = text.replace(&address.port().to_string(), port);
            }
            text
        };
        Some(Configuration {
            participant: self.name.clone(),
            flavour: setup.flavour,
            command: shorten(&command.join(" ")),
            files: self.rendered.files.iter().map(|(name, text)| (name.clone(), shorten(text))).collect(),
            note: self.rendered.note.clone(),
        })
    }
}

/// Until this process itself listens; another may have the same port.
fn wait_until_it_listens(child: &mut Child, address: SocketAddr) -> Result<(), Error> {
    let deadline = Instant::now() + START_TIME_MAX;
    while !procfs::listen_on(&child.processes()?, address.port()) {
        child.check_alive()?;
        if Instant::now() > deadline {
            return Err(format!("it does not listen on {address} after {START_TIME_MAX:?}").into());
        }
        std::thread::sleep(START_POLL);
    }
    Ok(())
}
