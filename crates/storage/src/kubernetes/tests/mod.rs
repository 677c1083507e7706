//! The store in Kubernetes, against an API server emulated at the wire (`server`), over TLS where that matters.

mod server;

use super::api::Api;
use super::{Kubernetes, PREFIX_BYTES_MAX, check_prefix, leases, object_name};
use crate::Store;
use crate::fault::{Problem, StorageFault};
use crate::key::Key;
use crate::lease::{LEASE, Renewal};
use crate::owner::Owner;
use http::{Method, StatusCode};
use proptest::prelude::*;
use serde_json::json;
use server::{ApiServer, NAMESPACE, is_subdomain, refusal};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_cluster::Pod;
use tidegate_model::{KubernetesApi, KubernetesStorage, Secret, Storage};
use tidegate_testkit::rustls::ServerConfig;
use tidegate_testkit::rustls::crypto::aws_lc_rs;
use tidegate_testkit::rustls::pki_types::pem::PemObject;
use tidegate_testkit::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tidegate_testkit::{Authority, KeyKind};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

fn settings(server: &ApiServer) -> KubernetesStorage {
    let api = KubernetesApi { url: format!("http://{}/", server.address), token: Secret::new("token-1"), root: None };
    KubernetesStorage { namespace: Some(NAMESPACE.into()), prefix: "tidegate".into(), api: Some(api) }
}

async fn open(server: &ApiServer) -> Store {
    Store::open(&Storage::Kubernetes(settings(server)), Path::new("/nowhere")).await.expect("opens")
}

#[test]
fn values_are_kept_listed_and_removed() {
    block_on(async {
        let server = ApiServer::start(None).await;
        let store = open(&server).await;
        assert_eq!(store.read("certs/a").await, Ok(None));
        store.write("certs/a", b"one").await.expect("written");
        store.write("certs/a", &[0, 255, 10]).await.expect("written again");
        store.write("certs/*.b", b"").await.expect("written");
        for count in 0..5 {
            store.write(&format!("other/{count}"), b"x").await.expect("written");
        }
        assert_eq!(store.read("certs/a").await, Ok(Some(vec![0, 255, 10])));
        assert_eq!(store.read("certs/*.b").await, Ok(Some(Vec::new())));
        let lock = store.try_lock("certs/a").await.expect("works").expect("free");
        assert_eq!(store.list("certs/").await.expect("listed"), ["certs/*.b", "certs/a"]);
        assert_eq!(store.list("").await.expect("listed").len(), 7, "of several pages, and without locks");
        lock.release().await.expect("released");

        let other = KubernetesStorage { prefix: "other".into(), ..settings(&server) };
        let other = Store::open(&Storage::Kubernetes(other), Path::new("/nowhere")).await.expect("opens");
        assert_eq!(other.list("").await.expect("listed"), Vec::<String>::new());

        store.remove("certs/a").await.expect("removed");
        store.remove("certs/a").await.expect("removed, though it is not there");
        assert_eq!(store.read("certs/a").await, Ok(None));
        assert_eq!(store.describe(), "secrets of the Kubernetes namespace edge");
    });
}

/// What another process does between our look and our change.
#[test]
fn who_writes_at_the_same_moment_is_written_over_and_not_mixed_up() {
    block_on(async {
        let server = ApiServer::start(None).await;
        let store = open(&server).await;
        store.write("a", b"1").await.expect("written");
        let change = |objects: &mut std::collections::BTreeMap<String, serde_json::Value>| {
            for object in objects.values_mut() {
                let version = &mut object["metadata"]["resourceVersion"];
                *version = format!("{}, changed", version.as_str().unwrap_or_default()).into();
            }
        };
        server.with(|state| state.meanwhile = vec![change, |objects| objects.clear(), |_| {}]);
        store.write("a", b"2").await.expect("written, after a conflict and a removal");
        assert_eq!(store.read("a").await, Ok(Some(b"2".to_vec())));
        server.with(|state| state.meanwhile = vec![change; 8]);
        assert!(store.write("a", b"3").await.expect_err("never quick enough").problem().is_transient());
    });
}

#[test]
fn a_secret_of_somebody_else_is_left_alone() {
    block_on(async {
        let server = ApiServer::start(None).await;
        let store = open(&server).await;
        store.write("a", b"1").await.expect("written");
        server.with(|state| {
            for object in state.objects.values_mut() {
                object["metadata"]["labels"] = json!({});
            }
        });
        let fault = store.write("a", b"2").await.expect_err("not ours");
        assert!(matches!(fault.problem(), Problem::InTheWay { path } if *path == object_name("tidegate", &key("a"))), "{fault}");
        assert!(store.read("a").await.is_err());
    });
}

#[test]
fn refusals_say_what_to_do() {
    block_on(async {
        let server = ApiServer::start(None).await;
        let store = open(&server).await;
        let check = async |status: StatusCode, reason: &str, message: &str, is_transient: bool, expected: &str| {
            server.with(|state| {
                let (status, body) = refusal(status, reason, message, "");
                state.refusals.push((Method::GET, status, body));
            });
            let fault: StorageFault = store.read("a").await.expect_err("refused");
            let place = "`a` cannot be read in secrets of the Kubernetes namespace edge";
            assert_eq!((fault.to_string(), fault.problem().is_transient()), (format!("{place}: {expected}"), is_transient));
        };
        let forbidden = "secrets \"x\" is forbidden: User \"system:serviceaccount:edge:default\" cannot get resource \"secrets\"";
        check(
            StatusCode::FORBIDDEN,
            "Forbidden",
            forbidden,
            false,
            &format!(
                "the API server refuses us ({forbidden}); give its service account `get`, `list`, `create`, `update` and `delete` for \
                 secrets and leases of the namespace"
            ),
        )
        .await;
        check(
            StatusCode::FORBIDDEN,
            "Forbidden",
            "secrets \"x\" is forbidden: exceeded quota: q",
            false,
            "it has no room (secrets \"x\" is forbidden: exceeded quota: q); give it more room; what was kept before is unharmed",
        )
        .await;
        check(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "slow down", true, "it is busy (slow down); it is tried again")
            .await;
        check(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "", true, "it is busy (status 500); it is tried again").await;
        check(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "no", false, "it answers: no; look at the server's own log").await;

        // The namespace is missing, and not the secret: asking again would not help.
        server.with(|state| {
            let (status, body) = refusal(StatusCode::NOT_FOUND, "NotFound", "namespaces \"edge\" not found", "namespaces");
            state.refusals.push((Method::POST, status, body));
        });
        let fault = store.write("b", b"1").await.expect_err("no namespace");
        assert!(fault.to_string().contains("namespaces \"edge\" not found"), "{fault}");
    });
}

#[test]
fn a_pod_finds_its_server_and_reads_its_token_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "cluster").expect("made");
    let certificate = authority.issue("127.0.0.1", KeyKind::Ecdsa).expect("issued");
    let chain = CertificateDer::pem_file_iter(&certificate.cert).expect("readable").map(|der| der.expect("PEM")).collect();
    let tls = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&certificate.key).expect("a key"))
        .expect("a pair");
    let account = folder.path().join("account");
    fs::create_dir(&account).expect("made");
    fs::copy(authority.root_file(), account.join("ca.crt")).expect("copied");
    fs::write(account.join("token"), "token-1\n").expect("written");
    fs::write(account.join("namespace"), NAMESPACE).expect("written");
    block_on(async {
        let server = ApiServer::start(Some(Arc::new(tls))).await;
        let settings = KubernetesStorage { namespace: None, prefix: "tidegate".into(), api: None };
        let pod = Pod { host: "127.0.0.1".into(), port: server.address.port().to_string(), account: account.clone() };
        let store = Kubernetes::over(Api::in_pod(&settings, &pod).expect("usable"), "tidegate");
        store.write(&key("a"), b"1").await.expect("written");
        server.with(|state| state.token = "token-2".into());
        let fault = store.read(&key("a")).await.expect_err("an old token");
        assert!(matches!(fault, Problem::Forbidden { .. }), "{fault}");
        fs::write(account.join("token"), "token-2").expect("written");
        assert_eq!(store.read(&key("a")).await, Ok(Some(b"1".to_vec())));

        fs::remove_file(account.join("token")).expect("removed");
        let fault = store.read(&key("a")).await.expect_err("no token");
        assert!(matches!(fault, Problem::NoAccount { .. }), "{fault}");
    });
}

#[test]
fn settings_that_cannot_work_are_told_at_once() {
    let server = block_on(ApiServer::start(None));
    let check = |settings: KubernetesStorage, expected: Problem| {
        let opened = block_on(Store::open(&Storage::Kubernetes(settings), Path::new("/nowhere")));
        assert_eq!(opened.expect_err("refused").problem(), &expected);
    };
    check(KubernetesStorage { namespace: None, ..settings(&server) }, Problem::NoNamespace);
    let exposed = |url: &str| {
        let api = KubernetesApi { url: url.into(), token: Secret::new("token-1"), root: None };
        KubernetesStorage { api: Some(api), ..settings(&server) }
    };
    check(exposed("http://10.0.0.1:6443"), Problem::Exposed { url: "http://10.0.0.1:6443".into() });
    check(exposed("http://localhost.example"), Problem::Exposed { url: "http://localhost.example".into() });
    let namespace = "../default".to_owned();
    check(KubernetesStorage { namespace: Some(namespace.clone()), ..settings(&server) }, Problem::BadNamespace { namespace });
    for prefix in ["", "A", "-a", "a-", "a/b", "a.b"].map(String::from) {
        check(KubernetesStorage { prefix: prefix.clone(), ..settings(&server) }, Problem::BadPrefix { prefix });
    }
}

// --- locks ---

fn stores(server: &ApiServer, count: usize) -> Vec<Kubernetes> {
    let settings = settings(server);
    (0..count).map(|_| Kubernetes::new(&settings).expect("usable")).collect()
}

/// Somebody whose process we know nothing of.
fn give_to(server: &ApiServer, holder: &Owner) {
    server.with(|state| {
        for object in state.objects.values_mut() {
            object["spec"]["holderIdentity"] = holder.to_text().into();
        }
    });
}

#[test]
fn a_lock_is_held_by_one_and_leaves_nothing() {
    block_on(async {
        let server = ApiServer::start(None).await;
        let stores = stores(&server, 2);
        let name = key("certs/*.example.org");
        let mut held = stores[0].try_take(&name).await.expect("works").expect("free");
        assert!(stores[1].try_take(&name).await.expect("works").is_none());
        assert_eq!(held.renew().await, Ok(Renewal::Renewed));
        assert_eq!(stores[1].holder(&name).await.expect("works").expect("held").process, std::process::id());
        // Somebody adds a label; it is ours all the same.
        let touch: fn(&mut std::collections::BTreeMap<String, serde_json::Value>) = |objects| {
            for object in objects.values_mut() {
                object["metadata"]["resourceVersion"] = "touched".into();
            }
        };
        server.with(|state| state.meanwhile = vec![touch]);
        assert_eq!(held.renew().await, Ok(Renewal::Renewed));
        server.with(|state| state.meanwhile = vec![touch]);
        held.release().await.expect("released");
        assert_eq!(stores[1].holder(&name).await, Ok(None));
        assert!(server.with(|state| state.objects.is_empty()));
    });
}

#[test]
fn a_lock_is_taken_over_when_it_shows_no_life_for_a_lease() {
    block_on(async {
        let server = ApiServer::start(None).await;
        let stores = stores(&server, 2);
        let name = key("l");
        let mut held = stores[0].try_take(&name).await.expect("works").expect("free");
        let elsewhere = Owner { host: "elsewhere".into(), ..Owner::here() };
        give_to(&server, &elsewhere);
        let look = async |second: u64| {
            let taken = leases::try_take(&stores[1].shared, &name, || Duration::from_secs(second)).await;
            taken.expect("works").is_some()
        };
        assert!(!look(0).await);
        assert!(!look(29).await);
        server.with(|state| state.objects.values_mut().for_each(|object| object["spec"]["renewTime"] = "later".into()));
        assert!(!look(30).await);
        assert!(!look(59).await);
        assert!(look(60).await);
        assert_eq!(held.renew().await, Ok(Renewal::Lost), "its former holder is told");
        held.release().await.expect("works");
        assert!(stores[0].holder(&name).await.expect("works").is_some(), "and takes nothing away");
    });
}

#[test]
fn of_many_who_take_at_once_one_has_it() {
    block_on(async {
        let server = ApiServer::start(None).await;
        let name = key("l");
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let gone = Owner { process: child.id(), ..Owner::here() };
        child.wait().expect("its end");
        for round in 0..20 {
            let stores = stores(&server, 8);
            if round % 2 == 0 {
                stores[0].try_take(&name).await.expect("works").expect("free");
                give_to(&server, &gone);
            }
            let mut tasks = tokio::task::JoinSet::new();
            for store in stores {
                let name = name.clone();
                tasks.spawn(async move { leases::try_take(&store.shared, &name, || LEASE).await.expect("works") });
            }
            let mut taken: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
            assert_eq!(taken.len(), 1, "round {round}");
            taken.remove(0).release().await.expect("released");
        }
    });
}

proptest! {
    #[test]
    fn whatever_is_a_key_has_a_name(text in "[a-z0-9._*@/-]{1,300}", prefix in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?") {
        prop_assert!(prefix.len() <= PREFIX_BYTES_MAX && check_prefix(&prefix).is_ok());
        if let Ok(key) = Key::parse(&text) {
            let name = object_name(&prefix, &key);
            prop_assert!(is_subdomain(&name), "{}", name);
        }
    }

    #[test]
    fn two_keys_have_two_names(one in "[a-z.*/-]{1,5}", other in "[a-z.*/-]{1,5}") {
        if let (Ok(one), Ok(other)) = (Key::parse(&one), Key::parse(&other)) {
            prop_assert_eq!(one == other, object_name("t", &one) == object_name("t", &other));
        }
    }
}
