//! A node of the cluster that is a thread of the test: it binds pods, starts the local program that stands for their
//! image in a network namespace of the pod's own, asks whether it is ready, and ends it as a kubelet does: SIGTERM, the
//! time of grace, SIGKILL. Every pod has one container.

use super::network::PodNetwork;
use super::{Api, ControlPlane};
use crate::program::Program;
use crate::server::{PROCESS_TEST, Settings, told_to};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The image that stands for the scripted server ([`crate::server`]); its answers are named by the pod's label `app`.
pub const SERVER_IMAGE: &str = "testkit/server";
/// The image that stands for the program under test, with the arguments of its container.
pub const PROGRAM_IMAGE: &str = "testkit/program";
/// Between two looks at the pods, and at whether they are ready.
const LOOK: Duration = Duration::from_millis(25);
/// What [`Node::output`] takes of each pod.
const LOG_LINES_MAX: usize = 40;
/// What the scripted server listens on, and what is asked where a probe names no number.
const PORT: u16 = 8080;

/// A running node. Dropping it ends its pods.
pub struct Node {
    is_over: Arc<AtomicBool>,
    fault: Arc<Mutex<Option<String>>>,
    logs: Logs,
    thread: Option<JoinHandle<()>>,
}

/// What pods wrote, by their names.
type Logs = Arc<Mutex<BTreeMap<String, String>>>;

struct RunningPod {
    name: String,
    program: Program,
    address: Ipv4Addr,
    is_ready: bool,
    started: String,
    /// When it has to have ended.
    ends: Option<Instant>,
}

struct Kubelet {
    api: Api,
    name: String,
    network: PodNetwork,
    folder: PathBuf,
    logs: Logs,
    /// What [`PROGRAM_IMAGE`] stands for.
    program: PathBuf,
    pods: BTreeMap<String, RunningPod>,
}

impl Node {
    /// Registers a node of that name, inside of a network ([`super::network::is_inside`]), with the program under test.
    pub fn start(plane: &ControlPlane, name: &str, program: &Path) -> Result<Node, String> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}},
        });
        plane.api().create("/api/v1/nodes", &node)?;
        let folder = plane.folder.path().join(name);
        let network = PodNetwork::new()?;
        let (program, pods, logs) = (program.to_owned(), BTreeMap::new(), Logs::default());
        let kept = logs.clone();
        let mut kubelet = Kubelet { api: plane.api(), name: name.to_owned(), network, folder, logs: kept, program, pods };
        let (is_over, fault) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (until, told) = (is_over.clone(), fault.clone());
        let run = move || {
            while !until.load(Ordering::Relaxed) {
                if let Err(error) = kubelet.look() {
                    told.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
                thread::sleep(LOOK);
            }
        };
        let thread = thread::Builder::new().name("node".into()).spawn(run).map_err(|error| error.to_string())?;
        Ok(Node { is_over, fault, logs, thread: Some(thread) })
    }

    /// What went wrong first, if anything did.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last lines of all pods whose names begin so, those that are gone included, for failure messages.
    pub fn output(&self, prefix: &str) -> String {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let of_pod = |(name, log): (&String, &String)| {
            let lines: Vec<&str> = log.lines().collect();
            format!("=== {name}\n{}\n", lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n"))
        };
        logs.iter().filter(|(name, _)| name.starts_with(prefix)).map(of_pod).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What panicked there has said so.
            let _ = thread.join();
        }
    }
}

impl Kubelet {
    fn look(&mut self) -> Result<(), String> {
        let pods = self.api.get("/api/v1/pods")?;
        let mut known = BTreeSet::new();
        for pod in pods["items"].as_array().into_iter().flatten() {
            let uid = text(&pod["metadata"]["uid"]);
            known.insert(uid.clone());
            let is_leaving = !pod["metadata"]["deletionTimestamp"].is_null();
            match (self.pods.contains_key(&uid), is_leaving) {
                (false, false) => self.begin(pod, uid)?,
                (false, true) => self.forget(pod)?,
                (true, false) => self.ask(pod, &uid)?,
                (true, true) => self.end(pod, &uid)?,
            }
        }
        for pod in self.pods.values() {
            self.logs.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.name.clone(), pod.program.output());
        }
        self.pods.retain(|uid, _| known.contains(uid));
        Ok(())
    }

    fn begin(&mut self, pod: &Value, uid: String) -> Result<(), String> {
        if text(&pod["spec"]["nodeName"]).is_empty() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": self.name});
            let name = text(&pod["metadata"]["name"]);
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
            self.api.create(&format!("{}/binding", path(pod)), &binding)?;
        }
        let container = &pod["spec"]["containers"][0];
        let address = self.network.next_address();
        let folder = self.folder.join(&uid);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut environment = Vec::new();
        let variables = environment_of(pod, address);
        environment.extend(variables.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let (binary, arguments) = match text(&container["image"]).as_str() {
            SERVER_IMAGE => {
                let settings = Settings::new(&text(&pod["metadata"]["labels"]["app"]));
                environment.push(told_to(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), &settings));
                let binary = std::env::current_exe().map_err(|error| error.to_string())?;
                (binary, [PROCESS_TEST, "--nocapture", "--test-threads=1"].map(str::to_owned).to_vec())
            }
            PROGRAM_IMAGE => {
                let arguments = container["args"].as_array().into_iter().flatten();
                (self.program.clone(), arguments.map(text).collect())
            }
            image => return Err(format!("no program stands for the image {image:?}")),
        };
        let program = self.network.start(address, (&binary, &arguments), &folder, environment)?;
        let started = text(&pod["metadata"]["creationTimestamp"]);
        let name = text(&pod["metadata"]["name"]);
        let running = RunningPod { name, program, address, is_ready: false, started, ends: None };
        self.tell(pod, &running)?;
        self.pods.insert(uid, running);
        Ok(())
    }

    /// The question of the readiness probe; without one a pod that runs is ready.
    fn ask(&mut self, pod: &Value, uid: &str) -> Result<(), String> {
        let Some(running) = self.pods.get_mut(uid) else { return Ok(()) };
        let probe = &pod["spec"]["containers"][0]["readinessProbe"]["httpGet"];
        let asked = format!("{}:{}", running.address, probe["port"].as_u64().unwrap_or(PORT.into()));
        let is_well = |path: &str| crate::get(&asked, path).is_ok_and(|(status, _)| status < 400);
        let is_ready = probe["path"].as_str().is_none_or(is_well);
        if is_ready == running.is_ready {
            return Ok(());
        }
        running.is_ready = is_ready;
        let running = &self.pods[uid];
        self.tell(pod, running)
    }

    fn end(&mut self, pod: &Value, uid: &str) -> Result<(), String> {
        let Some(running) = self.pods.get_mut(uid) else { return Ok(()) };
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30);
        match running.ends {
            None => {
                running.ends = Some(Instant::now() + Duration::from_secs(grace));
                // The program may have ended by itself.
                let _ = running.program.signal("TERM");
                Ok(())
            }
            Some(ends) if running.program.poll_exit().is_none() && Instant::now() < ends => Ok(()),
            Some(_) => {
                let name = running.name.clone();
                self.logs.lock().unwrap_or_else(PoisonError::into_inner).insert(name, running.program.output());
                self.pods.remove(uid);
                self.forget(pod)
            }
        }
    }

    /// Nothing of it is left here.
    fn forget(&self, pod: &Value) -> Result<(), String> {
        let answer = self.api.send(
            "DELETE",
            &path(pod),
            Some(&json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})),
        )?;
        if answer.status < 300 || answer.status == 404 { Ok(()) } else { Err(answer.text) }
    }

    fn tell(&self, pod: &Value, running: &RunningPod) -> Result<(), String> {
        let RunningPod { address, is_ready, started, .. } = running;
        let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
        let container = &pod["spec"]["containers"][0];
        let status = json!({
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "startTime": started,
            "conditions": [
                condition("PodScheduled", true), condition("Initialized", true),
                condition("ContainersReady", *is_ready), condition("Ready", *is_ready),
            ],
            "containerStatuses": [{
                "name": container["name"], "image": container["image"], "imageID": container["image"], "restartCount": 0,
                "ready": is_ready, "started": true, "state": {"running": {"startedAt": started}},
            }],
        });
        let answer = self.api.send("PATCH", &format!("{}/status", path(pod)), Some(&json!({"status": status})))?;
        // The pod may be gone since it was listed.
        if answer.status < 300 || answer.status == 404 { Ok(()) } else { Err(answer.text) }
    }
}

/// Variables of its container: values, and what the pod says of itself by the names that Kubernetes has for it.
fn environment_of(pod: &Value, address: Ipv4Addr) -> Vec<(String, String)> {
    let variables = pod["spec"]["containers"][0]["env"].as_array().into_iter().flatten();
    let value = |variable: &Value| match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        Some("metadata.name") => text(&pod["metadata"]["name"]),
        Some("metadata.namespace") => text(&pod["metadata"]["namespace"]),
        Some("status.podIP" | "status.podIPs") => address.to_string(),
        Some(_) | None => text(&variable["value"]),
    };
    variables.map(|variable| (text(&variable["name"]), value(variable))).collect()
}

fn path(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    format!("/api/v1/namespaces/{}/pods/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
