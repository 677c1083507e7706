//! A node of the cluster that is a thread of the test: it binds pods, starts the local program that stands for their
//! image in a network namespace of the pod's own, asks whether it is ready, and ends it as a kubelet does: SIGTERM, the
//! time of grace, SIGKILL. Every pod has one container.

use crate::api::Api;
use crate::container::{ApiPlace, Container, Image};
use crate::network::{GATEWAY, PodNetwork};
use crate::plane::ControlPlane;
use crate::program::Program;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at the pods, and at whether they are ready.
const LOOK: Duration = Duration::from_millis(25);
/// What [`Node::output`] takes of each pod.
const LOG_LINES_MAX: usize = 40;
/// What is asked where a probe names no port.
const PORT: u64 = 8080;

/// A running node. Dropping it ends its pods.
pub struct Node {
    is_over: Arc<AtomicBool>,
    fault: Arc<Mutex<Option<String>>>,
    logs: Logs,
    processes: Processes,
    thread: Option<JoinHandle<()>>,
}

/// What pods wrote, by their names.
type Logs = Arc<Mutex<BTreeMap<String, String>>>;
/// Ids of the processes of pods that run, by their names.
type Processes = Arc<Mutex<BTreeMap<String, u32>>>;

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
    processes: Processes,
    images: Vec<Image>,
    place: ApiPlace,
    pods: BTreeMap<String, RunningPod>,
}

impl Node {
    /// Registers a node of that name, inside of a network ([`crate::network::is_inside`]), which has these images.
    pub fn start(plane: &ControlPlane, name: &str, images: Vec<Image>) -> Result<Node, String> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}},
        });
        plane.api().create("/api/v1/nodes", &node)?;
        let folder = plane.folder.path().join(name);
        let network = PodNetwork::new()?;
        let place = ApiPlace { host: GATEWAY, port: plane.port(), root_file: plane.root_file().to_owned() };
        let (logs, processes) = (Logs::default(), Processes::default());
        let mut kubelet = Kubelet {
            api: plane.api(),
            name: name.to_owned(),
            network,
            folder,
            logs: logs.clone(),
            processes: processes.clone(),
            images,
            place,
            pods: BTreeMap::new(),
        };
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
        Ok(Node { is_over, fault, logs, processes, thread: Some(thread) })
    }

    /// What went wrong first, if anything did.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What went wrong so far was to be expected.
    pub fn forgive(&self) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The ids of the processes of pods that run and whose names begin so.
    pub fn processes(&self, prefix: &str) -> Vec<(String, u32)> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(name, id)| (name.clone(), *id)).collect()
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
        let running = self.pods.values().map(|pod| (pod.name.clone(), pod.program.id())).collect();
        *self.processes.lock().unwrap_or_else(PoisonError::into_inner) = running;
        Ok(())
    }

    fn begin(&mut self, pod: &Value, uid: String) -> Result<(), String> {
        if text(&pod["spec"]["nodeName"]).is_empty() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": self.name});
            let name = text(&pod["metadata"]["name"]);
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
            self.api.create(&format!("{}/binding", path(pod)), &binding)?;
        }
        let address = self.network.next_address();
        let folder = self.folder.join(&uid);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let container = Container::of(pod, address, &self.images, &self.api, &self.place, &folder)?;
        let program = self.network.start(address, &container, &folder)?;
        let started = text(&pod["metadata"]["creationTimestamp"]);
        let name = text(&pod["metadata"]["name"]);
        let running = RunningPod { name, program, address, is_ready: false, started, ends: None };
        self.tell(pod, &running)?;
        self.pods.insert(uid, running);
        Ok(())
    }

    /// The question of the readiness probe; without one a pod that runs is ready. One whose program has ended is not
    /// asked.
    fn ask(&mut self, pod: &Value, uid: &str) -> Result<(), String> {
        let Some(running) = self.pods.get_mut(uid) else { return Ok(()) };
        let container = &pod["spec"]["containers"][0];
        let probe = &container["readinessProbe"]["httpGet"];
        let asked = format!("{}:{}", running.address, port(container, &probe["port"]));
        let is_well = |path: &str| crate::admin::get(&asked, path).is_ok_and(|(status, _)| status < 400);
        let is_ready = running.program.poll_exit().is_none() && probe["path"].as_str().is_none_or(is_well);
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

/// By its number, or by the name that the container has for it.
fn port(container: &Value, asked: &Value) -> u64 {
    let named = || container["ports"].as_array().into_iter().flatten().find(|port| port["name"] == *asked);
    asked.as_u64().or_else(|| named()?["containerPort"].as_u64()).unwrap_or(PORT)
}

fn path(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    format!("/api/v1/namespaces/{}/pods/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
