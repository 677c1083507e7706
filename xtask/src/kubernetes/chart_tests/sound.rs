//! What has to hold of every set of objects that the chart is rendered to, whatever its values.

use super::super::manifests::NAME;
use super::rights::{given, needed, of_any_secret};
use serde_json::{Value, json};

/// As long as it takes until every node of a cluster knows that a pod leaves, as the program believes.
const UNSEEN_LEAVE_SECONDS: u64 = 15;

/// What is wrong with a set of objects, each in a sentence.
pub fn faults(objects: &[Value]) -> Vec<String> {
    let of_kind = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<&Value>>();
    let workloads = [of_kind("Deployment"), of_kind("DaemonSet")].concat();
    let [workload] = workloads[..] else { return vec![format!("there are {} workloads", workloads.len())] };
    let pod = &workload["spec"]["template"]["spec"];
    let [container] = &pod["containers"].as_array().map_or(&[][..], Vec::as_slice) else {
        return vec!["a pod has one container".into()];
    };
    let mut faults = hardened(pod, container);
    faults.extend(named(objects));
    faults.extend(ending(pod, container, objects));
    faults.extend(ports(workload, container, &of_kind("Service")));
    faults.extend(rights(objects, pod, container));
    faults.extend(of_its_kind(objects, workload, container));
    faults
}

fn arguments(container: &Value) -> Vec<String> {
    let words = container["args"].as_array().into_iter().flatten();
    words.map(|word| word.as_str().unwrap_or_default().to_owned()).collect()
}

fn differs(what: &str, seen: &Value, wanted: &Value) -> Option<String> {
    (seen != wanted).then(|| format!("{what} is {seen}, and has to be {wanted}"))
}

/// The rules of Pod Security Standards that are called `restricted`, and a root that cannot be written to.
fn hardened(pod: &Value, container: &Value) -> Vec<String> {
    let (of_pod, of_container) = (&pod["securityContext"], &container["securityContext"]);
    let mut faults: Vec<String> = [
        differs("runAsNonRoot", &of_pod["runAsNonRoot"], &json!(true)),
        differs("seccompProfile", &of_pod["seccompProfile"], &json!({"type": "RuntimeDefault"})),
        differs("readOnlyRootFilesystem", &of_container["readOnlyRootFilesystem"], &json!(true)),
        differs("allowPrivilegeEscalation", &of_container["allowPrivilegeEscalation"], &json!(false)),
        differs("privileged", &of_container["privileged"], &json!(false)),
        differs("capabilities", &of_container["capabilities"], &json!({"drop": ["ALL"]})),
    ]
    .into_iter()
    .flatten()
    .collect();
    for name in ["hostNetwork", "hostPID", "hostIPC", "initContainers", "shareProcessNamespace"] {
        faults.extend(pod.get(name).map(|_| format!("a pod has {name}")));
    }
    for name in ["runAsNonRoot", "runAsUser", "seccompProfile"] {
        faults.extend(of_container.get(name).map(|_| format!("{name} of the container goes before that of the pod")));
    }
    if of_pod["runAsUser"] == 0 {
        faults.push("the user is root".into());
    }
    let volumes = pod["volumes"].as_array().into_iter().flatten();
    let is_free = |volume: &&Value| volume.get("emptyDir").is_some() || volume.get("configMap").is_some();
    faults.extend(volumes.filter(|volume| !is_free(volume)).map(|volume| format!("{volume} is a volume of the node")));
    faults.extend(places(pod, container));
    faults
}

/// Where the process writes has to be a volume, and what has keys in it memory.
fn places(pod: &Value, container: &Value) -> Vec<String> {
    let is_written = |path: &str| {
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        let name = mounts.filter(|mount| mount["mountPath"] == path).map(|mount| &mount["name"]).next()?;
        let volume = pod["volumes"].as_array()?.iter().find(|volume| &volume["name"] == name)?;
        volume.get("emptyDir").cloned()
    };
    let mut faults = Vec::new();
    let variables = container["env"].as_array().into_iter().flatten();
    let state = variables.filter(|one| one["name"] == "STATE_DIRECTORY").find_map(|one| one["value"].as_str());
    if state.and_then(is_written).is_none() {
        faults.push("the state folder cannot be written to".into());
    }
    if let Some(folder) = arguments(container).iter().find_map(|word| word.strip_prefix("--snapshot-dir=")) {
        match is_written(folder) {
            Some(volume) if volume["medium"] == "Memory" => {}
            volume => faults.push(format!("Secrets would be kept in {folder}, which is {volume:?}")),
        }
    }
    faults
}

/// All objects of one set have one label, so that they are found and removed together.
fn named(objects: &[Value]) -> Vec<String> {
    let own = objects.iter().filter(|object| object["kind"] != "Namespace");
    let faults = own.filter_map(|object| {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        if object["metadata"]["labels"]["app.kubernetes.io/name"] != "tidegate" {
            return Some(format!("{kind} {name} has not the label of all"));
        }
        let is_of_cluster = matches!(kind.as_str(), Some("ClusterRole" | "ClusterRoleBinding" | "IngressClass"));
        match (is_of_cluster, object["metadata"].get("namespace")) {
            (false, None) => Some(format!("{kind} {name} has no namespace")),
            (true, Some(_)) => Some(format!("{kind} {name} has a namespace")),
            (false, Some(_)) | (true, None) => None,
        }
    });
    faults.collect()
}

/// The time before a pod is killed is that of leaving, the drain and five seconds.
fn ending(pod: &Value, container: &Value, objects: &[Value]) -> Vec<String> {
    let files = objects.iter().filter(|object| object["kind"] == "ConfigMap").collect::<Vec<&Value>>();
    let has_service = objects.iter().any(|object| object["kind"] == "Service" && object["spec"].get("clusterIP").is_none());
    let seconds = |text: &str| text.strip_suffix('s').and_then(|text| text.parse::<u64>().ok());
    let leave = arguments(container).iter().find_map(|word| seconds(word.strip_prefix("--leave-after=")?));
    let file = files.iter().find_map(|file| file["data"]["tidegate.kdl"].as_str()).unwrap_or_default();
    let drain = file.lines().find_map(|line| seconds(line.strip_prefix("drain \"")?.strip_suffix('"')?));
    let (Some(leave), Some(drain)) = (leave, drain) else { return vec![format!("no times: {leave:?} and {drain:?}")] };
    let mut faults: Vec<String> =
        differs("the grace period", &pod["terminationGracePeriodSeconds"], &json!(leave + drain + 5)).into_iter().collect();
    let words = arguments(container);
    let namespaces = words.iter().find_map(|word| word.strip_prefix("--namespaces="));
    let is_looked_at = namespaces.is_none_or(|names| names.split(',').any(|name| name == NAME));
    if !(has_service && is_looked_at) && leave < UNSEEN_LEAVE_SECONDS {
        faults.push(format!("a pod does not see when the cluster knows that it leaves, and takes connections for {leave} s"));
    }
    faults
}

fn ports(workload: &Value, container: &Value, services: &[&Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let labels = workload["spec"]["template"]["metadata"]["labels"].as_object();
    let has = |wanted: &Value| {
        wanted
            .as_object()
            .is_some_and(|wanted| wanted.iter().all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value)))
    };
    if !has(&workload["spec"]["selector"]["matchLabels"]) {
        faults.push("the workload does not select its own pods".into());
    }
    let ports = container["ports"].as_array().map_or(&[][..], Vec::as_slice);
    for service in services {
        let name = &service["metadata"]["name"];
        if !has(&service["spec"]["selector"]) {
            faults.push(format!("the Service {name} does not select the pods"));
        }
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            if !ports.iter().any(|known| known["name"] == port["targetPort"]) {
                faults.push(format!("the Service {name} leads to a port that no pod has: {port}"));
            }
        }
    }
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let asked = &container[probe]["httpGet"];
        let path = if probe == "readinessProbe" { "/readyz" } else { "/healthz" };
        faults.extend(differs(probe, asked, &json!({"path": path, "port": "metrics"})));
    }
    for port in ports {
        let is_of_node = port.get("hostPort").is_some();
        if is_of_node && workload["kind"] != "DaemonSet" {
            faults.push(format!("two pods of a node would want one port: {port}"));
        }
        if port["containerPort"].as_u64().is_none_or(|number| number < 1024) {
            faults.push(format!("without a capability nobody listens on {port}"));
        }
    }
    faults
}

/// The rights are those that the process needs with the words that it is given, and its account has them all.
fn rights(objects: &[Value], pod: &Value, container: &Value) -> Vec<String> {
    let of = |kinds: &[&str]| -> Vec<&Value> {
        objects.iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind)).collect()
    };
    let roles = of(&["Role", "ClusterRole"]);
    if roles.is_empty() {
        return Vec::new();
    }
    let (needed, given) = (needed(&arguments(container), NAME), of_any_secret(given(&roles)));
    let missing = needed.difference(&given).map(|right| format!("a right is missing: {right:?}"));
    let beyond = given.difference(&needed).map(|right| format!("a right is given that nobody uses: {right:?}"));
    let mut faults: Vec<String> = missing.chain(beyond).collect();
    let account = json!([{"kind": "ServiceAccount", "namespace": NAME, "name": pod["serviceAccountName"]}]);
    let bindings = of(&["RoleBinding", "ClusterRoleBinding"]);
    for role in &roles {
        let (kind, metadata) = (&role["kind"], &role["metadata"]);
        let leads = |binding: &&&Value| {
            binding["roleRef"]["kind"] == *kind
                && binding["roleRef"]["name"] == metadata["name"]
                && binding["metadata"]["namespace"] == metadata["namespace"]
        };
        let bound: Vec<&&Value> = bindings.iter().filter(leads).collect();
        if bound.len() != 1 || bound[0]["subjects"] != account {
            faults.push(format!("{kind} {} is not bound to the account of the pods", metadata["name"]));
        }
    }
    if bindings.len() != roles.len() {
        faults.push(format!("{} bindings of {} roles", bindings.len(), roles.len()));
    }
    faults
}

/// What is there only where it fits.
fn of_its_kind(objects: &[Value], workload: &Value, container: &Value) -> Vec<String> {
    let has = |kind: &str| objects.iter().any(|object| object["kind"] == kind);
    let mut faults = Vec::new();
    let is_deployment = workload["kind"] == "Deployment";
    for kind in ["HorizontalPodAutoscaler", "PodDisruptionBudget"] {
        if has(kind) && !is_deployment {
            faults.push(format!("{kind} of a DaemonSet"));
        }
    }
    let says_replicas = workload["spec"].get("replicas").is_some();
    if says_replicas == (has("HorizontalPodAutoscaler") || !is_deployment) {
        faults.push("how many pods there are is said by nobody, or by two".into());
    }
    let is_namespaced = arguments(container).iter().any(|word| word.starts_with("--namespaces="));
    for kind in ["ClusterRole", "ClusterRoleBinding", "IngressClass"] {
        if is_namespaced && has(kind) {
            faults.push(format!("{kind} beside rights in some namespaces"));
        }
    }
    if is_namespaced && !arguments(container).iter().any(|word| word.starts_with("--ingress-class=")) {
        faults.push("who cannot read an IngressClass has to know it by its name".into());
    }
    faults
}
