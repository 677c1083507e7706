//! Rights: none is used that the chart does not give, as the API server itself has written down who asked for what; and
//! each that is missing, from the start or from some moment on, takes away what it is for and nothing else, is told of
//! once, and is noticed again when it is given.

use crate::figure;
use crate::front::{BOUND, server};
use crate::release::{NAMESPACE, RELEASE, Release, manifest_objects};
use crate::shop::{cluster, is_ready, tls_secret};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::control_plane::network::is_inside;
use tidegate_testkit::control_plane::{Api, Audited, ControlPlane, helm};
use tidegate_testkit::server::Server;
use tidegate_testkit::{Program, Surroundings, get};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const PODS: &str = "/api/v1/namespaces/tidegate/pods";
/// The ways of the chart to be installed that differ in rights.
const FORMS: [&[&str]; 7] = [
    &[],
    &["controller.namespaces={shop,tidegate}"],
    &["controller.shadow=true"],
    &["controller.status=false"],
    &["controller.secrets=named"],
    &["controller.secrets=named", "controller.namespaces={shop,tidegate}", "rbac.secretNames={web,users}"],
    &["acme=asked", OF_NOBODY],
];
/// Certificates are asked for, of an authority that is not there: what is kept of that is kept in the cluster.
const OF_NOBODY: &str = "config=access-log \"off\"\nthreads 1\nacme email=\"ops@example.com\" ca=\"https://127.0.0.1:1/dir\"\n";
/// The namespace of those that lose rights.
const LOSING: &str = "losing";

fn until(what: &str, mut condition: impl FnMut() -> bool, seen: impl Fn() -> String) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < 2 * BOUND, "{what}: {}", seen());
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn ready_pods(api: &Api) -> Vec<String> {
    let pods = api.get(PODS).expect("pods");
    let is_ready = |pod: &&Value| is_ready(pod);
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    pods["items"].as_array().into_iter().flatten().filter(is_ready).map(name).collect()
}

/// Everything that happens to a controller: objects come, change, are wrong and go, Secrets are referred to and
/// renewed, and the pod that writes ends.
fn lives(api: &Api, writes: bool, output: &dyn Fn() -> String) {
    until("two pods are ready", || ready_pods(api).len() == 2, output);
    let path = json!([{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]);
    let wrong = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "wrong", "annotations": {
            "nginx.ingress.kubernetes.io/no-such-word": "on",
            "nginx.ingress.kubernetes.io/auth-type": "basic", "nginx.ingress.kubernetes.io/auth-secret": "users",
        }},
        "spec": {"ingressClassName": "tidegate", "rules": [{"host": "wrong.example", "http": {"paths": path}}]},
    });
    api.create(INGRESSES, &wrong).expect("an Ingress");
    let obtained = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "obtained", "annotations": {"tidegate.dev/acme": "true"}},
        "spec": {
            "ingressClassName": "tidegate", "rules": [{"host": "obtained.example", "http": {"paths": path}}],
            "tls": [{"hosts": ["obtained.example"], "secretName": "obtained"}],
        },
    });
    api.create(INGRESSES, &obtained).expect("an Ingress");
    let secrets = "/api/v1/namespaces/shop/secrets";
    let users = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "users"}, "data": {"auth": "YTp4"}});
    api.create(secrets, &users).expect("a Secret");
    api.merge(&format!("{secrets}/web"), &json!({"data": {"more": "YQ=="}})).expect("it is changed");
    if writes {
        let lease = || api.get("/apis/coordination.k8s.io/v1/namespaces/tidegate/leases/tidegate");
        // A pod of an earlier release may have left the Lease.
        let holder = || {
            let holder = lease().ok()?["spec"]["holderIdentity"].as_str()?.to_owned();
            ready_pods(api).contains(&holder).then_some(holder)
        };
        until("a pod has the Lease", || holder().is_some(), output);
        let first = holder().expect("it is somebody's");
        let events = || api.get("/apis/events.k8s.io/v1/namespaces/shop/events").expect("a list").to_string();
        until("it is told of", || events().contains("AnnotationUnknown"), output);
        let status = || api.get(&format!("{INGRESSES}/web")).expect("an Ingress")["status"].to_string();
        until("an address is written", || status().contains("10.96."), output);
        api.delete(&format!("{PODS}/{first}")).expect("it ends");
        until("another one has the Lease", || holder().is_some_and(|holder| holder != first), output);
        until("two pods are ready again", || ready_pods(api).len() == 2, output);
    }
    for path in [&format!("{INGRESSES}/wrong"), &format!("{INGRESSES}/obtained"), &format!("{secrets}/users")] {
        api.delete(path).expect("it is removed");
    }
}

#[test]
fn no_right_is_used_that_the_chart_does_not_give() {
    if !is_inside("rights::no_right_is_used_that_the_chart_does_not_give").expect("it passes inside") {
        return;
    }
    let Some(helm) = helm().expect("Helm is found") else { return };
    let Some((plane, node, _places)) = cluster(1, true) else { return };
    let api = plane.api();
    let (mut used, mut taken_away) = (BTreeMap::<(String, String), u64>::new(), 0);
    let of_program = |one: &Audited| one.user.starts_with(&format!("system:serviceaccount:{NAMESPACE}:"));
    for values in FORMS {
        let release = Release::install(&plane, helm.clone(), values);
        let is_silent = ["shadow", "status"].iter().any(|word| values.iter().any(|value| value.contains(word)));
        lives(&api, !is_silent, &|| format!("{values:?}: {:?}\n{}{}", node.fault(), node.output(RELEASE), plane.output()));
        let asked: Vec<Audited> =
            plane.audited().expect("what was asked for").into_iter().skip(taken_away).filter(of_program).collect();
        assert_eq!(not_allowed(&asked), BTreeSet::new(), "no right of the chart allows it, with {values:?}");
        for Audited { resource, verb, .. } in asked {
            *used.entry((resource, verb)).or_default() += 1;
        }
        // Pods that end give the Lease back, and have no rights by then.
        release.remove(&plane);
        let is_empty = || api.get(PODS).expect("pods")["items"].as_array().is_some_and(Vec::is_empty);
        until("all pods are gone", is_empty, || node.output(RELEASE));
        taken_away = plane.audited().expect("what was asked for").len();
    }
    figure("rights that were used", &format!("in {} requests: {used:?}", used.values().sum::<u64>()));
    let resources: BTreeSet<&str> = used.keys().map(|(resource, _)| resource.as_str()).collect();
    for right in rights(&plane) {
        assert!(resources.contains(right.resource.as_str()), "nobody used {right:?}, but {used:?}");
    }
}

/// What was asked for that the chart gives no right to. The API server has read rights a moment after they are made:
/// who starts within that moment is refused what it is allowed afterwards.
fn not_allowed(asked: &[Audited]) -> BTreeSet<String> {
    let is_of_chart = |one: &Audited| one.status != 403 && one.reason.contains(&format!("ole \"{RELEASE}"));
    let what = |one: &Audited| (one.resource.clone(), one.verb.clone(), one.namespace.clone());
    let allowed: BTreeSet<_> = asked.iter().filter(|one| is_of_chart(one)).map(what).collect();
    let is_early = |one: &Audited| one.status == 403 && allowed.contains(&what(one));
    asked.iter().filter(|one| !is_of_chart(one) && !is_early(one)).map(|one| format!("{one:?}")).collect()
}

/// A right of the manifests that are given out.
#[derive(Debug, Clone)]
struct Right {
    /// With its group in front.
    resource: String,
    /// As the API calls it where it is refused.
    plural: String,
    rule: Value,
    is_of_lease: bool,
}

impl Right {
    /// What a refusal of it says.
    fn told(&self) -> String {
        format!("resource \"{}\"", self.plural)
    }
}

fn rights(plane: &ControlPlane) -> Vec<Right> {
    let mut rights = Vec::new();
    for object in manifest_objects(plane).iter().filter(|object| matches!(object["kind"].as_str(), Some("ClusterRole" | "Role")))
    {
        for rule in object["rules"].as_array().into_iter().flatten() {
            for resource in rule["resources"].as_array().into_iter().flatten() {
                let (group, plural) = (rule["apiGroups"][0].as_str().unwrap_or(""), resource.as_str().unwrap_or("").to_owned());
                let whole = if group.is_empty() { plural.clone() } else { format!("{group}/{plural}") };
                let mut rule = rule.clone();
                rule["resources"] = json!([resource]);
                rights.push(Right { resource: whole, plural, rule, is_of_lease: object["kind"] == "Role" });
            }
        }
    }
    rights
}

/// A process whose account loses a right.
struct Losing<'p> {
    plane: &'p ControlPlane,
    name: String,
    rights: Vec<Right>,
    places: Places,
    program: Program,
    arguments: Vec<String>,
    admin: String,
    plain: String,
}

impl<'p> Losing<'p> {
    fn start(plane: &'p ControlPlane, name: &str, rights: &[Right]) -> Losing<'p> {
        let given = plane.account(LOSING, name, &[]).expect("an account").token;
        let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{LOSING}");
        let metadata = json!({"name": name});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": []});
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": LOSING, "name": name}],
        });
        plane.api().create(&format!("{roles}/roles"), &role).expect("a role");
        plane.api().create(&format!("{roles}/rolebindings"), &binding).expect("a binding");
        let class = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": name},
            "spec": {"controller": format!("tidegate.dev/{name}")},
        });
        plane.api().create("/apis/networking.k8s.io/v1/ingressclasses", &class).expect("a class");
        let mut places = Places::new().expect("a folder");
        let base = places.fill("admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 1\n").expect("ports");
        let admin = places.admin_address().expect("a port");
        let [plain, secure] = ["{port}", "{port:tls}"].map(|port| places.fill(&format!("127.0.0.1:{port}")).expect("a port"));
        places.release_proxy_ports();
        let [token, config] = ["token", "tidegate.kdl"].map(|file| places.folder().join(file));
        std::fs::write(&token, &given).expect("a file");
        std::fs::write(&config, base).expect("a file");
        let path = |path: &Path| path.display().to_string();
        let (url, token, config, root) = (plane.url(), path(&token), path(&config), path(plane.root_file()));
        let (lease, controller) = (format!("{LOSING}/{name}"), format!("tidegate.dev/{name}"));
        let arguments: Vec<String> = [
            "kubernetes",
            "run",
            "--config",
            &config,
            "--http",
            &plain,
            "--https",
            &secure,
            "--api",
            &url,
            "--token-file",
            &token,
            "--ca",
            &root,
            "--lease",
            &lease,
            "--controller",
            &controller,
            "--publish-address",
            "203.0.113.1",
        ]
        .map(str::to_owned)
        .into();
        give(plane, name, rights, None);
        let program = begin(&arguments, &places);
        let (name, rights) = (name.to_owned(), rights.to_vec());
        let losing = Losing { plane, name, rights, places, program, arguments, admin, plain };
        losing.make("plain", None);
        losing.make("web", Some("web"));
        losing
    }

    /// Gives all rights but one.
    fn give(&self, without: Option<&Right>) {
        give(self.plane, &self.name, &self.rights, without);
    }

    fn host(&self, name: &str) -> String {
        format!("{name}.{}.example", self.name)
    }

    /// An Ingress, with a word that nobody knows, so that there is an Event; over TLS with a Secret.
    fn make(&self, name: &str, secret: Option<&str>) {
        let host = self.host(name);
        let path = json!([{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]);
        let mut spec = json!({"ingressClassName": self.name, "rules": [{"host": host, "http": {"paths": path}}]});
        if let Some(secret) = secret {
            spec["tls"] = json!([{"hosts": [host], "secretName": secret}]);
        }
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": spec,
            "metadata": {"name": format!("{}-{name}", self.name), "annotations": {"nginx.ingress.kubernetes.io/no-such-word": "on"}},
        });
        let path = format!("/apis/networking.k8s.io/v1/namespaces/{LOSING}/ingresses");
        self.plane.api().create(&path, &ingress).expect("an Ingress");
    }

    fn ask(&self, name: &str) -> u16 {
        status_of(&self.plain, &self.host(name))
    }

    fn is_ready(&self) -> bool {
        get(&self.admin, "/readyz").is_ok_and(|(status, _)| status == 200)
    }

    fn status(&self) -> String {
        let mut command = std::process::Command::new(crate::program());
        command.args(["status", "--admin", &self.admin]).env("STATE_DIRECTORY", self.places.folder().join("state"));
        let output = command.output().expect("the program");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// How many lines of the log are about that right.
    fn lines_of(&self, right: &Right) -> usize {
        let words = format!("resource \\\"{}\\\"", right.plural);
        self.program.output().lines().filter(|line| line.contains(&words)).count()
    }

    fn seen(&self) -> String {
        format!("{}: {}\n{}", self.name, self.status(), self.program.output())
    }

    /// The right is taken while it runs, and given again: what is served is served all the while.
    fn loses(&self, right: &Right) {
        let all_served = || ["plain", "web"].map(|name| self.ask(name)) == [200, 308];
        until("it is ready and serves", || self.is_ready() && all_served(), || self.seen());
        let told = right.told();
        // A Lease that is held is not made.
        let is_noticed = !right.rule["verbs"].as_array().is_some_and(|verbs| right.is_of_lease && verbs.len() == 1);
        let told_before = self.lines_of(right);
        self.give(Some(right));
        let (began, mut made) = (Instant::now(), 0);
        while is_noticed && !self.status().contains(&told) {
            assert!(began.elapsed() < 2 * BOUND, "{right:?} is not missed: {}", self.seen());
            assert!(all_served(), "without {right:?}: {}", self.seen());
            made += 1;
            // Something to be written.
            self.make(&format!("more-{made}"), None);
            std::thread::sleep(Duration::from_secs(1));
        }
        if is_noticed {
            figure(&format!("{} is taken away", right.resource), &format!("noticed after {:.1?}", began.elapsed()));
        }
        std::thread::sleep(Duration::from_secs(3));
        let lines = self.lines_of(right) - told_before;
        assert!(!is_noticed || lines == 1, "{right:?} is told of {lines} times: {}", self.seen());
        assert!(all_served(), "without {right:?}: {}", self.seen());
        self.give(None);
        let given = Instant::now();
        let mut more = 0;
        until(
            "it is noticed that it is given",
            || {
                more += 1;
                if more % 10 == 1 {
                    self.make(&format!("again-{more}"), None);
                }
                !self.status().contains(&told)
            },
            || self.seen(),
        );
        figure(&format!("{} is given again", right.resource), &format!("noticed after {:.1?}", given.elapsed()));
        assert!(all_served(), "with {right:?} again: {}", self.seen());
    }

    /// Has the program begin anew without the right.
    fn starts_without(&mut self, right: &Right) {
        self.program.signal("KILL").expect("a signal");
        let _ = self.program.wait_exit(BOUND);
        self.give(Some(right));
        self.program = begin(&self.arguments, &self.places);
        let (is_ready, plain) = match right.plural.as_str() {
            "services" | "endpointslices" => (false, None),
            "ingresses" | "ingressclasses" => (true, Some(404)),
            _ => (true, Some(200)),
        };
        if let Some(plain) = plain {
            until("it is ready", || self.is_ready(), || self.seen());
            until("the rest is served", || self.ask("plain") == plain, || self.seen());
        } else {
            until("it says what is missing", || self.status().contains(&right.told()), || self.seen());
        }
        assert_eq!(self.is_ready(), is_ready, "without {right:?}: {}", self.seen());
        self.give(None);
        let comes_back = || self.is_ready() && ["plain", "web"].map(|name| self.ask(name)) == [200, 308];
        until("it serves with all rights", comes_back, || self.seen());
    }
}

/// A Service with a server, and a Secret, for all of them.
fn furnish(plane: &ControlPlane, server: &Server) {
    let core = format!("/api/v1/namespaces/{LOSING}");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"name": "http", "port": 80}]},
    });
    plane.api().create(&format!("{core}/services"), &service).expect("a Service");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "port": server.address().port(), "protocol": "TCP"}],
        "endpoints": [{"addresses": [server.address().ip()], "conditions": {"ready": true}}],
    });
    plane.api().create(&format!("/apis/discovery.k8s.io/v1/namespaces/{LOSING}/endpointslices"), &slice).expect("a slice");
    let secret = tls_secret(&mut Places::new().expect("a folder"), "right.example");
    plane.api().create(&format!("{core}/secrets"), &secret).expect("a Secret");
}

/// Gives an account all rights but one, of a Lease for its own.
fn give(plane: &ControlPlane, name: &str, rights: &[Right], without: Option<&Right>) {
    let is_given = |right: &&Right| without.is_none_or(|without| right.rule != without.rule);
    let of_own_lease = |right: &Right| {
        let mut rule = right.rule.clone();
        if !rule["resourceNames"].is_null() {
            rule["resourceNames"] = json!([name]);
        }
        rule
    };
    let rules = |is_of_lease: bool| -> Vec<Value> {
        rights.iter().filter(|right| right.is_of_lease == is_of_lease).filter(is_given).map(of_own_lease).collect()
    };
    let api = "/apis/rbac.authorization.k8s.io/v1";
    let cluster = format!("{api}/clusterroles/{LOSING}-{name}");
    plane.api().merge(&cluster, &json!({"rules": rules(false)})).expect("it is given");
    let role = format!("{api}/namespaces/{LOSING}/roles/{name}");
    plane.api().merge(&role, &json!({"rules": rules(true)})).expect("it is given");
}

fn begin(arguments: &[String], places: &Places) -> Program {
    Program::start_in(&crate::program(), arguments, places.folder(), &Surroundings::default()).expect("it starts")
}

/// The status of an answer over plain HTTP; 0 where there is none.
fn status_of(address: &str, host: &str) -> u16 {
    use std::io::{Read, Write};
    let ask = || -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().ok().and_then(|text| text.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
}

#[test]
fn each_right_that_is_missing_takes_away_what_it_is_for_and_nothing_else() {
    let Some(plane) = ControlPlane::shared().expect("it starts") else { return };
    plane.namespace(LOSING).expect("a namespace");
    let web = server("web");
    furnish(&plane, &web);
    let rights = rights(&plane);
    assert!(rights.len() >= 9, "{rights:?}");
    std::thread::scope(|all| {
        for (number, right) in rights.iter().enumerate() {
            let (plane, rights) = (&plane, &rights);
            all.spawn(move || {
                let mut losing = Losing::start(plane, &format!("right-{number}"), rights);
                losing.loses(right);
                losing.starts_without(right);
            });
        }
    });
}
