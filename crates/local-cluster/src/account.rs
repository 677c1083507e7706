//! Accounts of the cluster: who Tidegate is to the API server, and what it may do there.

use crate::plane::ControlPlane;
use serde_json::{Value, json};

/// What Tidegate needs for a whole cluster: groups, resources, verbs. Leases are those of its own namespace.
pub const TIDEGATE_RULES: &[(&[&str], &[&str], &[&str])] = &[
    (&[""], &["services", "namespaces", "configmaps", "secrets"], &["get", "list", "watch"]),
    (&[""], &["nodes"], &["get"]),
    (&["discovery.k8s.io"], &["endpointslices"], &["get", "list", "watch"]),
    (&["networking.k8s.io"], &["ingresses", "ingressclasses"], &["get", "list", "watch"]),
    (&["networking.k8s.io"], &["ingresses/status"], &["patch"]),
    (&["gateway.networking.k8s.io"], &["*"], &["get", "list", "watch"]),
    (&["gateway.networking.k8s.io"], &["*/status"], &["patch"]),
    (&["tidegate.dev"], &["tidegatepolicies"], &["get", "list", "watch"]),
    (&["tidegate.dev"], &["tidegatepolicies/status"], &["patch"]),
    (&["events.k8s.io"], &["events"], &["create", "patch"]),
];
/// For the one replica that writes.
const LEASE_VERBS: &[&str] = &["get", "create", "update", "patch"];

/// A service account with a token.
#[derive(Debug, Clone)]
pub struct Account {
    pub namespace: String,
    pub name: String,
    pub token: String,
}

impl ControlPlane {
    /// An account with exactly the rights that Tidegate needs, in a namespace that exists.
    pub fn tidegate_account(&self, namespace: &str) -> Result<Account, String> {
        self.tidegate_account_without(namespace, &[])
    }

    /// An account as of [`ControlPlane::tidegate_account`], whose rules leave these resources out.
    pub fn tidegate_account_without(&self, namespace: &str, resources: &[&str]) -> Result<Account, String> {
        let rule = |(groups, all, verbs): &(&[&str], &[&str], &[&str])| {
            let kept: Vec<&&str> = all.iter().filter(|one| !resources.contains(one)).collect();
            (!kept.is_empty()).then(|| json!({"apiGroups": groups, "resources": kept, "verbs": verbs}))
        };
        let rules: Vec<Value> = TIDEGATE_RULES.iter().filter_map(rule).collect();
        let account = self.account(namespace, "tidegate", &rules)?;
        let leases = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": LEASE_VERBS}]);
        let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        self.api().create(&format!("{roles}/roles"), &role("Role", "tidegate", &leases))?;
        self.api().create(&format!("{roles}/rolebindings"), &binding("Role", "tidegate", &account))?;
        Ok(account)
    }

    /// A service account with these rights in all namespaces, and a token for an hour.
    pub fn account(&self, namespace: &str, name: &str, rules: &[Value]) -> Result<Account, String> {
        let api = self.api();
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        api.create(&accounts, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}))?;
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
        let given = api.create(&format!("{accounts}/{name}/token"), &request)?;
        let token = given["status"]["token"].as_str().ok_or("a token request was answered without a token")?.to_owned();
        let account = Account { namespace: namespace.to_owned(), name: name.to_owned(), token };
        let cluster = "/apis/rbac.authorization.k8s.io/v1";
        let whole = format!("{namespace}-{name}");
        api.create(&format!("{cluster}/clusterroles"), &role("ClusterRole", &whole, &rules.into()))?;
        api.create(&format!("{cluster}/clusterrolebindings"), &binding("ClusterRole", &whole, &account))?;
        Ok(account)
    }
}

fn role(kind: &str, name: &str, rules: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, name: &str, account: &Account) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}],
    })
}
