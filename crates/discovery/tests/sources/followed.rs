//! A source that is followed by a thread of its own, as the control thread does, and what it tells as text.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tidegate_discovery::{Context, Endpoint, Event, follow};
use tidegate_model::{Discover, UpstreamAddress};
use tidegate_testkit::tokio;

/// For anything that has to happen; the machine may be busy.
pub const SOON: Duration = Duration::from_secs(30);

pub struct Followed {
    events: Receiver<Event>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Followed {
    pub fn new(discover: Discover, folder: &Path) -> Followed {
        let (sender, events) = channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let base = Context { folder: folder.to_owned(), ..Context::default() };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let report = |event| sender.send(event).expect("the test goes on");
                tokio::select! {
                    () = follow(discover, base, report) => {}
                    _ = stopped => {}
                }
            });
        });
        Followed { events, stop: Some(stop), thread: Some(thread) }
    }

    /// The next thing that is told.
    #[track_caller]
    pub fn expect(&self, expected: &str) {
        let event =
            self.events.recv_timeout(SOON).unwrap_or_else(|error| panic!("nothing is told instead of {expected:?}: {error}"));
        assert_eq!(describe(&event), expected);
    }

    /// What is told sooner or later; what comes before does not matter.
    #[track_caller]
    pub fn expect_at_last(&self, expected: &str) {
        let deadline = Instant::now() + SOON;
        let mut seen = Vec::new();
        loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(event) if describe(&event) == expected => return,
                Ok(event) => seen.push(describe(&event)),
                Err(error) => panic!("{expected:?} is not told, but {seen:?}: {error}"),
            }
        }
    }

    /// For what depends on the machine.
    #[track_caller]
    pub fn expect_one_of(&self, expected: &[&str]) {
        let event = self.events.recv_timeout(SOON).unwrap_or_else(|error| panic!("nothing is told: {error}"));
        let seen = describe(&event);
        assert!(expected.contains(&seen.as_str()), "{seen:?} is none of {expected:?}");
    }

    /// Nothing has been told since, once the source was asked again as often as the caller waited for.
    #[track_caller]
    pub fn expect_nothing(&self) {
        match self.events.try_recv() {
            Ok(event) => panic!("{:?} is told", describe(&event)),
            Err(std::sync::mpsc::TryRecvError::Empty) => {}
            Err(error) => panic!("following has ended: {error}"),
        }
    }

    #[track_caller]
    pub fn expect_fault_with(&self, part: &str) {
        match self.events.recv_timeout(SOON) {
            Ok(event) => {
                let text = describe(&event);
                assert!(text.starts_with("fault") && text.contains(part), "{text:?} instead of a fault with {part:?}");
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => panic!("no fault with {part:?}"),
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "following panicked");
        }
    }
}

/// Waits for something that only asking can tell.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "it does not happen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Endpoints(endpoints) if endpoints.is_empty() => "nobody".to_owned(),
        Event::Endpoints(endpoints) => endpoints.iter().map(endpoint).collect::<Vec<_>>().join(", "),
        Event::Fault(fault) => format!("fault {fault}"),
        Event::Remark(fault) => format!("remark {fault}"),
        Event::Recovered => "recovered".to_owned(),
    }
}

/// Without what is as it is for everybody: weight 1, priority 0.
fn endpoint(endpoint: &Endpoint) -> String {
    let server = &endpoint.server;
    let mut text = server.address.to_string();
    if !endpoint.addresses.is_empty() {
        let ips: Vec<String> = endpoint.addresses.iter().map(|address| address.ip().to_string()).collect();
        let UpstreamAddress::Tcp(written) = &server.address else { panic!("no source tells addresses of a socket: {text}") };
        assert!(endpoint.addresses.iter().all(|address| address.port() == written.port));
        if ips != [written.host.as_str()] {
            text.push_str(&format!(" at {}", ips.join(" and ")));
        }
    }
    if server.weight != 1 {
        text.push_str(&format!(" *{}", server.weight));
    }
    if server.priority != 0 {
        text.push_str(&format!(" ^{}", server.priority));
    }
    if let Some(zone) = &server.zone {
        text.push_str(&format!(" in {zone}"));
    }
    if endpoint.is_leaving {
        text.push_str(" leaving");
    }
    text
}
