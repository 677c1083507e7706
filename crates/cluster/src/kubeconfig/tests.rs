//! Kubeconfigs, as people and clouds write them.

use super::plugin::WrittenExec;
use super::{ExecPlugin, Kubeconfig};
use crate::client::Token;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tidegate_outbound::Trust;
use tidegate_testkit::authority::{Authority, KeyKind};

struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let file = self.path().join(name);
        fs::write(&file, text).expect("a file");
        file
    }

    fn program(&self, name: &str, script: &str) -> PathBuf {
        let file = self.put(name, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it may be run");
        file
    }

    /// One cluster and one user.
    fn config(&self, cluster: &str, user: &str) -> Kubeconfig {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n  context: {{cluster: c, user: u, \
             namespace: shop}}\nclusters:\n- name: c\n  cluster: {{{cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n"
        );
        Kubeconfig::read(&[self.put("config", &text)]).expect("a kubeconfig")
    }
}

const SERVER: &str = "server: 'https://api.example:6443/'";

#[test]
fn a_context_names_a_server_and_who_we_are_there() {
    let home = Home::new();
    let authority = Authority::new(home.path(), "root").expect("an authority");
    let pair = authority.issue("me", KeyKind::Ecdsa).expect("a certificate");
    let base64 = |file: &Path| {
        use base64::Engine;
        base64::prelude::BASE64_STANDARD.encode(fs::read(file).expect("a file"))
    };
    let (root, chain, key) = (base64(authority.root_file()), base64(&pair.cert), base64(&pair.key));
    home.put("token", "from-a-file\n");
    let check = |cluster: &str, user: &str, trust: Trust, has_identity: bool, token: Option<&str>| {
        let place = home.config(cluster, user).place(None).expect("a place");
        assert_eq!((&*place.url, place.trust, place.identity.is_some()), ("https://api.example:6443", trust, has_identity));
        let seen = place.token.now().expect("a token");
        assert_eq!(seen.as_ref().map(tidegate_model::Secret::reveal), token, "{user}");
    };
    check(SERVER, "token: abc", Trust::System, false, Some("abc"));
    check(SERVER, "", Trust::System, false, None);
    let file = Trust::File(authority.root_file().to_owned());
    check(&format!("{SERVER}, certificate-authority: root-ca.pem"), "tokenFile: token", file, false, Some("from-a-file"));
    let held = Trust::Held(fs::read(authority.root_file()).expect("a file").into());
    let with_data = format!("{SERVER}, certificate-authority-data: {root}, certificate-authority: nowhere");
    check(&with_data, &format!("client-certificate-data: {chain}, client-key-data: {key}"), held, true, None);
    let by_file = format!("client-certificate: {}, client-key: {}, token: x", pair.cert.display(), pair.key.display());
    check(SERVER, &by_file, Trust::System, true, Some("x"));
    assert_eq!(home.config(SERVER, "").namespace(None).expect("a context"), Some("shop"));
}

#[test]
fn what_gives_a_token_away_or_cannot_be_followed_is_refused_in_a_sentence() {
    let home = Home::new();
    let file = home.path().join("config").display().to_string();
    let check = |cluster: &str, user: &str, expected: &str| {
        let fault = home.config(cluster, user).place(None).err().expect("it is refused").to_string();
        let problem = fault.strip_prefix(&format!("cannot be asked: {file}: ")).unwrap_or(&fault);
        assert!(problem.starts_with(expected), "{problem}");
        assert!(!problem.contains("hush"), "{problem}");
    };
    check(
        &format!("{SERVER}, insecure-skip-tls-verify: true"),
        "token: hush",
        "says `insecure-skip-tls-verify` of the cluster `c`",
    );
    check(&format!("{SERVER}, proxy-url: 'http://p'"), "", "says `proxy-url` of the cluster `c`");
    check(&format!("{SERVER}, tls-server-name: x"), "", "says `tls-server-name` of the cluster `c`");
    check("", "", "says no `server` of the cluster `c`");
    check("server: 'http://api.example'", "token: hush", "is not asked at http://api.example: ");
    check(&format!("{SERVER}, certificate-authority-data: '%'"), "", "has `certificate-authority-data` that is no base64");
    check(SERVER, "username: me, password: hush", "says of the user `u` a name and a password");
    check(SERVER, "auth-provider: {name: gcp}", "says of the user `u` `auth-provider`");
    check(SERVER, "as: root", "says of the user `u` `as`");
    check(SERVER, "client-certificate-data: aHVzaA==", "has a certificate of the user `u` without its key");
    check(SERVER, "client-key-data: aHVzaA==", "has a key of the user `u` without its certificate");
    let both = "client-certificate-data: aHVzaA==, client-key-data: aHVzaA==";
    check(SERVER, both, "has a certificate of the user `u` that holds no `-----BEGIN CERTIFICATE-----` block");
    check(SERVER, "client-certificate: nowhere, client-key: nowhere", "names ");
}

#[test]
fn several_files_are_one_and_the_first_word_counts() {
    let home = Home::new();
    let first = home.put("a", "current-context: one\ncontexts: [{name: one, context: {cluster: c}}]\n");
    let second = home.put(
        "b",
        "current-context: two\ncontexts: [{name: one, context: {cluster: other}}, {name: two, context: {cluster: d, user: u}}]\n\
         clusters: [{name: c, cluster: {server: 'https://c.example'}}, {name: d, cluster: {server: 'https://d.example'}}]\n",
    );
    let read = Kubeconfig::read(&[first, second]).expect("a kubeconfig");
    let url = |context: Option<&str>| read.place(context).map(|place| place.url).map_err(|fault| fault.to_string());
    assert_eq!(url(None), Ok("https://c.example".to_owned()));
    assert!(url(Some("two")).is_err_and(|fault| fault.ends_with("/a: has no user `u`")));
    assert!(url(Some("three")).is_err_and(|fault| fault.ends_with("/a: has no context `three`")));
}

#[test]
fn what_is_no_kubeconfig_is_named_and_not_shown() {
    let home = Home::new();
    let check = |text: &str, expected: &str| {
        let file = home.put("config", text);
        let read = Kubeconfig::read(std::slice::from_ref(&file)).and_then(|read| read.place(None).map(|_| ()));
        let fault = read.expect_err("it is none").to_string();
        assert_eq!(fault, format!("cannot be asked: {}: {expected}", file.display()));
    };
    check("", "is no kubeconfig");
    check("a: 1\n---\nb: 2\n", "is no kubeconfig");
    check("users: [hush]\n", "has something of another type than a kubeconfig");
    check("users: [{name: hush\n", "is no YAML at line 1 column 9");
    check("a: 1\n", "names no current context; name one");
    let nowhere = home.path().join("nowhere");
    let fault = Kubeconfig::read(std::slice::from_ref(&nowhere)).expect_err("it is not there").to_string();
    assert_eq!(fault, format!("cannot be asked: {}: is not there", nowhere.display()));
}

const CREDENTIAL: &str = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":"#;

fn exec(home: &Home, script: &str) -> Kubeconfig {
    home.program("plugin", script);
    let user = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [a, b], env: [{name: WHO, value: \
                me}], provideClusterInfo: true}";
    home.config(&format!("{SERVER}, certificate-authority-data: YQ=="), user)
}

#[test]
fn a_program_says_who_we_are() {
    let home = Home::new();
    let script = format!(
        "echo \"$1 $2 $WHO $KUBERNETES_EXEC_INFO\" >> {}\necho '{CREDENTIAL}{{\"token\":\"abc\",\"expirationTimestamp\":\
         \"2999-01-01T00:00:00Z\"}}}}'",
        home.path().join("ran").display()
    );
    let place = exec(&home, &script).place(None).expect("a place");
    for _ in 0..2 {
        assert_eq!(place.token.now().expect("a token").expect("a token").reveal(), "abc");
    }
    let ran = fs::read_to_string(home.path().join("ran")).expect("it ran");
    assert_eq!(ran.lines().count(), 1, "what it said is good for long");
    assert!(ran.starts_with("a b me {"), "{ran}");
    let info: serde_json::Value = serde_json::from_str(ran.trim_start_matches("a b me ")).expect("JSON");
    let cluster = serde_json::json!({"server": "https://api.example:6443", "certificate-authority-data": "YQ=="});
    assert_eq!(info["spec"], serde_json::json!({"interactive": false, "cluster": cluster}));
    assert!(!format!("{:?}", place.token).contains("abc"));
}

#[test]
fn a_token_that_ends_is_asked_for_anew() {
    let home = Home::new();
    let counted = home.path().join("ran");
    let script = format!(
        "echo x >> {0}\necho '{CREDENTIAL}{{\"token\":\"t'$(grep -c x {0})'\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\"}}}}'",
        counted.display()
    );
    let place = exec(&home, &script).place(None).expect("a place");
    let now = || place.token.now().expect("a token").expect("a token").reveal().to_owned();
    assert_eq!((now(), now()), ("t2".to_owned(), "t3".to_owned()));
}

#[test]
fn a_program_that_says_nothing_of_use_is_named_and_what_it_prints_is_not() {
    let home = Home::new();
    let check = |script: &str, expected: &str| {
        home.program("plugin", script);
        let written: WrittenExec = serde_json::from_value(serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"
        }))
        .expect("a plugin");
        let plugin = ExecPlugin::with_patience(&written, home.path(), Duration::from_secs(1));
        let fault = Token::Plugin(plugin.into()).now().expect_err("no token").to_string();
        let problem = fault.split_once(", which ").expect("a program").1.to_owned();
        assert_eq!(problem, expected, "{fault}");
    };
    check("echo hush; exit 3", "ends with exit status: 3");
    check("echo hush", "prints something else than an ExecCredential");
    check(&format!("echo '{CREDENTIAL}{{}}}}'"), "gives neither a token nor a certificate");
    check(&format!("echo '{CREDENTIAL}{{\"clientKeyData\":\"hush\"}}}}'"), "gives a certificate or a key without the other");
    check(
        "echo '{\"apiVersion\":\"other/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"hush\"}}'",
        "prints something else than an ExecCredential",
    );
    check("yes hush", "prints more than 1048576 bytes");
    check("exec sleep 60", "is not done within 1 s");
    check("exec >&-; exec sleep 60", "is not done within 1 s");
    fs::remove_file(home.path().join("plugin")).expect("it is gone");
    let place = home.config(SERVER, "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin}").place(None);
    assert!(place.is_err_and(|fault| fault.to_string().contains("cannot be started")));
    let old = home.config(SERVER, "exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}").place(None);
    assert!(old.is_err_and(|fault| fault.to_string().contains("a version that is not known here")));
}
