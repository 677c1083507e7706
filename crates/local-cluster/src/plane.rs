//! A real control plane: etcd and the API server as processes on loopback, with a CA of its own and RBAC on. They are
//! what `cargo xtask kubernetes build` has built; where nothing is built there is none, and a line on stderr says so.

use crate::api::{self, Api};
use crate::authority::{Authority, CertificateFiles, KeyKind};
use crate::network::{GATEWAY, SERVICE_RANGE, is_within};
use crate::ports::Reservation;
use crate::program::{Program, Surroundings};
use crate::programs::Programs;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Until it answers. It takes five seconds of a calm machine, and tests share theirs with compilers.
const READY_WAIT: Duration = Duration::from_secs(120);
/// Until a process that was asked to end has ended.
const END_WAIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Whom the test itself is to the API server, and may do everything.
const MASTER_TOKEN: &str = "token-of-the-test";
/// What other hosts would reach the server at: there are none, and loopback is refused.
const ADVERTISED: &str = "192.0.2.1";

/// A running control plane. Dropping it ends its processes and removes its folder.
pub struct ControlPlane {
    programs: Programs,
    authority: Authority,
    serving: CertificateFiles,
    /// Of the tokens of service accounts, which stay good while the API server comes and goes.
    signing: CertificateFiles,
    /// `None` while its data are exchanged.
    etcd: Option<Program>,
    /// `None` while it is stopped.
    server: Option<Program>,
    controllers: Option<Program>,
    ports: PlanePorts,
    /// Where the API server writes who has asked for what.
    audit_log: Option<PathBuf>,
    pub(crate) folder: TempDir,
}

/// A request of a service account, as the API server has written it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// As in `system:serviceaccount:tidegate:tidegate`.
    pub user: String,
    pub verb: String,
    /// With its group in front, and what is beneath it: `networking.k8s.io/ingresses/status`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub status: u64,
    /// By which role it was allowed, in the words of the API server; empty where none did.
    pub reason: String,
}

/// Kept by nobody between a stop and the next start: those of tests lie below the range that the system takes from.
#[derive(Debug, Clone, Copy)]
struct PlanePorts {
    etcd: u16,
    etcd_peers: u16,
    server: u16,
}

impl ControlPlane {
    /// Starts one. `Ok(None)`, and a line on stderr, where it is not built.
    pub fn start() -> Result<Option<ControlPlane>, String> {
        ControlPlane::start_with(false)
    }

    /// Starts one that writes down what service accounts ask for.
    pub fn start_audited() -> Result<Option<ControlPlane>, String> {
        ControlPlane::start_with(true)
    }

    fn start_with(is_audited: bool) -> Result<Option<ControlPlane>, String> {
        let Some(programs) = Programs::find()? else { return Ok(None) };
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let authority = Authority::new(folder.path(), "cluster")?;
        let serving = authority.issue(&format!("127.0.0.1+{GATEWAY}+kubernetes.default.svc"), KeyKind::Server)?;
        let signing = authority.issue("service-accounts", KeyKind::Ecdsa)?;
        let ports = PlanePorts::free()?;
        let etcd = start_etcd(&programs, folder.path(), ports)?;
        let audit_log = is_audited.then(|| folder.path().join("audit.log"));
        let (etcd, server, controllers) = (Some(etcd), None, None);
        let mut plane =
            ControlPlane { programs, authority, serving, signing, etcd, server, controllers, ports, audit_log, folder };
        plane.start_api_server()?;
        Ok(Some(plane))
    }

    /// The one that tests share which ask nothing but its API, each in namespaces of its own: it ends with the last
    /// test that holds it.
    pub fn shared() -> Result<Option<Arc<ControlPlane>>, String> {
        static SHARED: Mutex<Weak<ControlPlane>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plane) = shared.upgrade() {
            return Ok(Some(plane));
        }
        let Some(plane) = ControlPlane::start()?.map(Arc::new) else { return Ok(None) };
        *shared = Arc::downgrade(&plane);
        Ok(Some(plane))
    }

    /// Starts the API server, and waits until it says that it is ready.
    pub fn start_api_server(&mut self) -> Result<(), String> {
        if self.server.is_some() {
            return Ok(());
        }
        let tokens = self.folder.path().join("tokens.csv");
        fs::write(&tokens, format!("{MASTER_TOKEN},test,test,system:masters\n")).map_err(|error| error.to_string())?;
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let mut arguments = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--secure-port={}", self.ports.server),
            // Pods ask it from networks of their own; nobody else is in the test's.
            format!("--bind-address={}", if is_within() { "0.0.0.0" } else { "127.0.0.1" }),
            format!("--advertise-address={ADVERTISED}"),
            "--endpoint-reconciler-type=none".to_owned(),
            flag("tls-cert-file", &self.serving.cert),
            flag("tls-private-key-file", &self.serving.key),
            flag("client-ca-file", self.root_file()),
            flag("token-auth-file", &tokens),
            flag("service-account-key-file", &self.signing.cert),
            flag("service-account-signing-key-file", &self.signing.key),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            // Otherwise a watch that nobody ends keeps it from ending for a minute.
            "--shutdown-watch-termination-grace-period=1s".to_owned(),
        ];
        if let Some(log) = &self.audit_log {
            let policy = self.folder.path().join("audit.json");
            fs::write(&policy, audit_policy().to_string()).map_err(|error| error.to_string())?;
            arguments.extend([flag("audit-policy-file", &policy), flag("audit-log-path", log)]);
        }
        let server = self.start_program("kube-apiserver", &arguments)?;
        let api = self.api();
        let server = self.server.insert(server);
        wait_for(server, "ready", || api.send("GET", "/readyz", None).is_ok_and(|answer| answer.status == 200))
    }

    /// Ends the API server with SIGTERM; etcd keeps what it knows.
    pub fn stop_api_server(&mut self) -> Result<(), String> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        server.signal("TERM")?;
        server.wait_exit(END_WAIT).map(drop)
    }

    /// Ends it with SIGKILL: whoever was connected sees the connection end.
    pub fn kill_api_server(&mut self) {
        self.server = None;
    }

    /// Starts the controllers that make pods of Deployments and slices of Services.
    pub fn start_controllers(&mut self) -> Result<(), String> {
        let kubeconfig = self.kubeconfig("controllers", MASTER_TOKEN)?;
        let controllers = "deployment-controller,replicaset-controller,endpointslice-controller,serviceaccount-controller,\
                           namespace-controller,garbage-collector-controller";
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={controllers}"),
            "--leader-elect=false".to_owned(),
            // Nobody asks it anything.
            "--secure-port=0".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        self.controllers = Some(self.start_program("kube-controller-manager", &arguments)?);
        Ok(())
    }

    /// The API as whoever may do everything.
    pub fn api(&self) -> Api {
        self.api_with(MASTER_TOKEN)
    }

    /// The API as whoever a token belongs to.
    pub fn api_with(&self, token: &str) -> Api {
        Api::new(self.ports.server, self.authority.root(), token)
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.server)
    }

    /// What pods call it.
    pub fn url_for_pods(&self) -> String {
        format!("https://{GATEWAY}:{}", self.ports.server)
    }

    /// The root of what the API server shows, in PEM.
    pub fn root_file(&self) -> &Path {
        self.authority.root_file()
    }

    /// A kubeconfig for `kubectl` and the like, as a file that goes with the control plane.
    pub fn kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf, String> {
        let file = self.folder.path().join(format!("{name}.kubeconfig"));
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url(), "certificate-authority": self.root_file()}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        });
        fs::write(&file, text.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// A kubeconfig of whoever may do everything.
    pub fn master_kubeconfig(&self) -> Result<PathBuf, String> {
        self.kubeconfig("test", MASTER_TOKEN)
    }

    /// A program that was built beside the API server, as `kubectl`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.path(name)
    }

    /// Makes a namespace.
    pub fn namespace(&self, name: &str) -> Result<(), String> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api().create("/api/v1/namespaces", &object).map(drop)
    }

    /// Forgets all versions before the newest: who watches from an older one has to list anew. Versions of objects are
    /// etcd's.
    pub fn forget(&self) -> Result<(), String> {
        let version = |value: &Value| value["header"]["revision"].as_str().map(str::to_owned);
        let revision =
            version(&api::etcd(self.ports.etcd, "/v3/kv/range", "{\"key\":\"AA==\"}")?).ok_or("etcd names no revision")?;
        api::etcd(self.ports.etcd, "/v3/kv/compaction", &format!("{{\"revision\":\"{revision}\",\"physical\":true}}")).map(drop)
    }

    /// What service accounts have asked for since the start, in order.
    pub fn audited(&self) -> Result<Vec<Audited>, String> {
        let log = self.audit_log.as_ref().ok_or("nothing is written down")?;
        let text = fs::read_to_string(log).map_err(|error| format!("{}: {error}", log.display()))?;
        // The last line may not be whole.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).map(|event: Value| audited(&event)).collect())
    }

    /// Keeps everything as it is now, for [`ControlPlane::restore`]. The API server is stopped for it, and comes back.
    pub fn back_up(&mut self) -> Result<(), String> {
        self.with_etcd_stopped(|folder| copy_folder(&folder.join("etcd"), &folder.join("kept")))
    }

    /// Everything is as it was at [`ControlPlane::back_up`], and versions that were given since come again.
    pub fn restore(&mut self) -> Result<(), String> {
        self.with_etcd_stopped(|folder| {
            let text = |error: std::io::Error| format!("the data of etcd: {error}");
            fs::remove_dir_all(folder.join("etcd")).map_err(text)?;
            fs::rename(folder.join("kept"), folder.join("etcd")).map_err(text)
        })
    }

    fn with_etcd_stopped(&mut self, act: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        self.stop_api_server()?;
        if let Some(mut etcd) = self.etcd.take() {
            etcd.signal("TERM")?;
            etcd.wait_exit(END_WAIT)?;
        }
        act(self.folder.path())?;
        self.etcd = Some(start_etcd(&self.programs, self.folder.path(), self.ports)?);
        self.start_api_server()
    }

    /// What the processes wrote, for failure messages.
    pub fn output(&self) -> String {
        let of =
            |name: &str, program: Option<&Program>| program.map_or(String::new(), |one| format!("=== {name}\n{}", one.stderr()));
        let (server, controllers) =
            (of("kube-apiserver", self.server.as_ref()), of("kube-controller-manager", self.controllers.as_ref()));
        format!("{}{server}{controllers}", of("etcd", self.etcd.as_ref()))
    }

    /// Where it keeps what it keeps; it goes with the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The port of the API server.
    pub fn port(&self) -> u16 {
        self.ports.server
    }

    /// The id of the API server's process.
    pub fn api_server_id(&self) -> Option<u32> {
        self.server.as_ref().map(Program::id)
    }

    fn start_program(&self, name: &str, arguments: &[String]) -> Result<Program, String> {
        Program::start_in(&self.programs.path(name), arguments, self.folder.path(), &Surroundings::default())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // From the top, so that nobody complains about who has gone.
        self.controllers = None;
        self.server = None;
    }
}

/// Requests of service accounts, with who allowed them.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
    })
}

fn audited(event: &Value) -> Audited {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let parts = ["apiGroup", "resource", "subresource"].map(|part| text(&object[part]));
    Audited {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        resource: parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("/"),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        status: event["responseStatus"]["code"].as_u64().unwrap_or(0),
        reason: text(&event["annotations"]["authorization.k8s.io/reason"]),
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let text = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(text)?;
    for entry in fs::read_dir(from).map_err(text)?.flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(text)?;
        }
    }
    Ok(())
}

impl PlanePorts {
    fn free() -> Result<PlanePorts, String> {
        let reserve = || Reservation::new().map_err(|error| error.to_string());
        let (etcd, etcd_peers, server) = (reserve()?, reserve()?, reserve()?);
        Ok(PlanePorts { etcd: etcd.port(), etcd_peers: etcd_peers.port(), server: server.port() })
    }
}

fn start_etcd(programs: &Programs, folder: &Path, ports: PlanePorts) -> Result<Program, String> {
    let (clients, peers) = (format!("http://127.0.0.1:{}", ports.etcd), format!("http://127.0.0.1:{}", ports.etcd_peers));
    let arguments = [
        "--name=test".to_owned(),
        format!("--data-dir={}", folder.join("etcd").display()),
        // What is lost with the machine is a test.
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=test={peers}"),
        "--log-level=warn".to_owned(),
    ];
    let mut etcd = Program::start_in(&programs.path("etcd"), &arguments, folder, &Surroundings::default())?;
    wait_for(&mut etcd, "ready", || {
        crate::admin::get(&format!("127.0.0.1:{}", ports.etcd), "/health").is_ok_and(|(status, _)| status == 200)
    })?;
    Ok(etcd)
}

/// As [`Program::wait_until`], for programs that take longer than ours.
fn wait_for(program: &mut Program, what: &str, mut condition: impl FnMut() -> bool) -> Result<(), String> {
    let began = Instant::now();
    while !condition() {
        if let Some(code) = program.poll_exit() {
            return Err(format!("it ended with {code} before it was {what}\n{}", program.output()));
        }
        if began.elapsed() > READY_WAIT {
            return Err(format!("it was not {what} after {READY_WAIT:?}\n{}", program.output()));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
