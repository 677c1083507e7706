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
/// Between two looks at the pods, and at whether they are ready.
const LOOK: Duration = Duration::from_millis(25);
/// Where a pod's network is not named: what the scripted server listens on.
const PORT: u16 = 8080;

/// A running node. Dropping it ends its pods.
pub struct Node {
    is_over: Arc<AtomicBool>,
    fault: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

struct RunningPod {
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
    pods: BTreeMap<String, RunningPod>,
}

impl Node {
    /// Registers a node of that name, inside of a network ([`super::network::is_inside`]).
    pub fn start(plane: &ControlPlane, name: &str) -> Result<Node, String> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}},
        });
        plane.api().create("/api/v1/nodes", &node)?;
        let folder = plane.folder.path().join(name);
        let network = PodNetwork::new()?;
        let mut kubelet = Kubelet { api: plane.api(), name: name.to_owned(), network, folder, pods: BTreeMap::new() };
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
        Ok(Node { is_over, fault, thread: Some(thread) })
    }

    /// What went wrong first, if anything did.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let image = text(&container["image"]);
        if image != SERVER_IMAGE {
            return Err(format!("no program stands for the image {image:?}"));
        }
        let address = self.network.next_address();
        let folder = self.folder.join(&uid);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let settings = Settings::new(&text(&pod["metadata"]["labels"]["app"]));
        let mut environment = vec![told_to(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), &settings)];
        let variables = container["env"].as_array().into_iter().flatten();
        let variables: Vec<(String, String)> = variables.map(|one| (text(&one["name"]), text(&one["value"]))).collect();
        environment.extend(variables.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let binary = std::env::current_exe().map_err(|error| error.to_string())?;
        let arguments = [PROCESS_TEST, "--nocapture", "--test-threads=1"].map(str::to_owned);
        let program = self.network.start(address, (Path::new(&binary), &arguments), &folder, environment)?;
        let started = text(&pod["metadata"]["creationTimestamp"]);
        let running = RunningPod { program, address, is_ready: false, started, ends: None };
        self.tell(pod, &running)?;
        self.pods.insert(uid, running);
        Ok(())
    }

    /// The question of the readiness probe; without one a pod that runs is ready.
    fn ask(&mut self, pod: &Value, uid: &str) -> Result<(), String> {
        let Some(running) = self.pods.get_mut(uid) else { return Ok(()) };
        let probe = &pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"];
        let is_well = |path: &str| crate::get(&format!("{}:{PORT}", running.address), path).is_ok_and(|(status, _)| status < 400);
        let is_ready = probe.as_str().is_none_or(is_well);
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

fn path(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    format!("/api/v1/namespaces/{}/pods/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
