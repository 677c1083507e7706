//! What of a pod is run: the local program that stands for the image of its container, with arguments, variables,
//! volumes and user as the pod has them. With volumes it sees them, its own program and what that is linked with, and
//! no other file of the machine; without, it sees the machine.

use crate::api::Api;
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Without mounts: waits until its network is there, and becomes the program.
const WAIT: &str = "while [ ! -e \"$0\" ]; do sleep 0.01; done; exec \"$@\"";
/// With mounts: makes a root of what the program needs, and becomes the program within it.
const CONFINE: &str = r#"
while [ ! -e "$0" ]; do sleep 0.01; done
root=$1 program=$2 user=$3; shift 3
mount -t tmpfs none "$root"
for place in usr lib lib64 proc dev; do
    [ -d "/$place" ] && mkdir "$root/$place" && mount --rbind "/$place" "$root/$place"
done
mkdir "$root/bin" "$root/tmp" && chmod 1777 "$root/tmp"
touch "$root/bin/${program##*/}" && mount --bind "$program" "$root/bin/${program##*/}"
while read -r source target; do
    mkdir -p "$root$target" && mount --bind "$source" "$root$target"
done < "$root.mounts"
mount -o remount,ro "$root"
cd / && exec chroot $user "$root" "/bin/${program##*/}" "$@"
"#;
/// How long a token of an account is good; longer than any pod of ours lives.
const TOKEN_SECONDS: u32 = 7200;

/// A program of this machine that stands for an image, whatever its tag.
#[derive(Debug, Clone)]
pub struct Image {
    pub name: String,
    pub program: PathBuf,
    /// Before those of the container.
    pub arguments: Vec<String>,
}

/// Where pods reach the API server, and its root in PEM.
#[derive(Debug, Clone)]
pub struct ApiPlace {
    pub host: Ipv4Addr,
    pub port: u16,
    pub root_file: PathBuf,
}

/// What is run.
#[derive(Debug)]
pub struct Container {
    program: PathBuf,
    arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// What is seen where.
    mounts: Vec<(PathBuf, String)>,
    user: Option<u64>,
}

impl Container {
    /// Of a pod, which has only one; what its volumes hold is written below `folder`.
    pub fn of(
        pod: &Value,
        address: Ipv4Addr,
        images: &[Image],
        api: &Api,
        place: &ApiPlace,
        folder: &Path,
    ) -> Result<Container, String> {
        let container = &pod["spec"]["containers"][0];
        let wanted = text(&container["image"]);
        let name = wanted.rsplit_once(':').map_or(wanted.as_str(), |(name, _)| name);
        let image = images.iter().find(|image| image.name == name);
        let image = image.ok_or_else(|| format!("no program stands for the image {wanted:?}"))?;
        let mut environment = environment_of(pod, address);
        let said = container["args"].as_array().into_iter().flatten().map(|word| expanded(&text(word), &environment));
        let arguments = image.arguments.iter().cloned().chain(said).collect();
        environment.push(("KUBERNETES_SERVICE_HOST".to_owned(), place.host.to_string()));
        environment.push(("KUBERNETES_SERVICE_PORT".to_owned(), place.port.to_string()));
        let mut mounts = Vec::new();
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let name = text(&mount["name"]);
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let volume = volumes.into_iter().find(|volume| text(&volume["name"]) == name);
            let volume = volume.ok_or_else(|| format!("there is no volume {name:?}"))?;
            let source = folder.join(&name);
            fill(volume, pod, api, place, &source)?;
            mounts.push((source, text(&mount["mountPath"])));
        }
        let user = pod["spec"]["securityContext"]["runAsUser"].as_u64();
        Ok(Container { program: image.program.clone(), arguments, environment, mounts, user })
    }

    /// The arguments of `unshare` that run it; it waits until `connected` is there.
    pub fn command(&self, connected: &Path, folder: &Path) -> Result<Vec<String>, String> {
        let (connected, program) = (connected.display().to_string(), self.program.display().to_string());
        let mut words: Vec<String> = if self.mounts.is_empty() {
            ["--net", "sh", "-c", WAIT, &connected, &program].map(str::to_owned).into()
        } else {
            let root = folder.join("root");
            fs::create_dir_all(&root).map_err(|error| at(&root, &error))?;
            let lines: Vec<String> = self.mounts.iter().map(|(from, to)| format!("{} {to}\n", from.display())).collect();
            let file = folder.join("root.mounts");
            fs::write(&file, lines.concat()).map_err(|error| at(&file, &error))?;
            // Whoever is root in a namespace of users has no other users.
            let user = self.user.filter(|_| has_all_users()).map_or(String::new(), |user| format!("--userspec={user}:{user}"));
            let root = root.display().to_string();
            ["--net", "--mount", "sh", "-e", "-c", CONFINE, &connected, &root, &program, &user].map(str::to_owned).into()
        };
        words.extend_from_slice(&self.arguments);
        Ok(words)
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

/// `$(NAME)` in an argument stands for the variable.
fn expanded(argument: &str, environment: &[(String, String)]) -> String {
    let replaced = |text: String, (name, value): &(String, String)| text.replace(&format!("$({name})"), value);
    environment.iter().fold(argument.to_owned(), replaced)
}

/// Writes what a volume holds.
fn fill(volume: &Value, pod: &Value, api: &Api, place: &ApiPlace, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    let namespace = text(&pod["metadata"]["namespace"]);
    let write = |path: &str, contents: &str| {
        let file = folder.join(path);
        fs::write(&file, contents).map_err(|error| at(&file, &error))
    };
    if let Some(name) = volume["configMap"]["name"].as_str() {
        let map = api.get(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}"))?;
        let mut data = map["data"].as_object().into_iter().flatten();
        return data.try_for_each(|(path, contents)| write(path, &text(contents)));
    }
    for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
        if let Some(path) = source["serviceAccountToken"]["path"].as_str() {
            let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{}", text(&pod["spec"]["serviceAccountName"]));
            let wanted = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECONDS},
            });
            let given = api.create(&format!("{account}/token"), &wanted)?;
            write(path, &text(&given["status"]["token"]))?;
        } else if source["configMap"].is_object() {
            // The root of the cluster, which a controller that is not here keeps in each namespace.
            let root = fs::read_to_string(&place.root_file).map_err(|error| at(&place.root_file, &error))?;
            write("ca.crt", &root)?;
        } else if source["downwardAPI"].is_object() {
            write("namespace", &namespace)?;
        }
    }
    if !volume["emptyDir"].is_null() {
        use std::os::unix::fs::PermissionsExt;
        // As the group of a volume is the pod's.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).map_err(|error| at(folder, &error))?;
    }
    Ok(())
}

fn has_all_users() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().last() == Some("4294967295"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::expanded;

    #[test]
    fn variables_stand_in_arguments_as_the_api_has_them() {
        let environment = [("POD_NAMESPACE", "edge"), ("A", "b")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let check = |argument: &str, expected: &str| assert_eq!(expanded(argument, &environment), expected);
        check("--publish-service=$(POD_NAMESPACE)/tidegate", "--publish-service=edge/tidegate");
        check("$(A)$(A) $(B) $A", "bb $(B) $A");
    }
}
