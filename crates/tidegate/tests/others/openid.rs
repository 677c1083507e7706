//! Log-ins at providers that others have written, in a real browser: `oidc-provider`, which is certified by the OpenID
//! Foundation, and `oauth2-mock-server`, both of npm. Without them, Node.js or Chromium a test says so and passes; in
//! CI (variable `CI`) that is a failure.

use crate::browser::server::{PAGE, Server, page};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tidegate_testkit::chromium::Chromium;
use tidegate_testkit::ports::Reservation;
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// A browser starts slowly on a machine that compiles.
const BOUND: Duration = Duration::from_secs(180);

/// Where `.ci/run` installs the packages of npm: `target/tools/openid`.
fn packages() -> Option<PathBuf> {
    let target = Path::new(PROGRAM).ancestors().find(|folder| folder.join("tools/openid/node_modules/oidc-provider").is_dir());
    let has_node = Command::new("node").arg("--version").output().is_ok();
    let found = target.map(|target| target.join("tools/openid")).filter(|_| has_node);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "oidc-provider and oauth2-mock-server are not installed, or Node.js is not");
        println!("skipped: `npm install --prefix target/tools/openid oidc-provider@9.13.3 oauth2-mock-server@9.3.0` has them");
    }
    found
}

/// A provider in Node.js, ended when this goes.
struct Provider {
    process: Child,
    said: Arc<Mutex<String>>,
}

impl Provider {
    /// The script has to lie beside its packages to find them.
    fn start(packages: &Path, name: &str, script: &str, arguments: &[&str]) -> Provider {
        let file = packages.join(format!("{name}-{}.mjs", std::process::id()));
        std::fs::write(&file, script).expect("written");
        let mut command = Command::new("node");
        command.arg(&file).args(arguments).current_dir(packages).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        let pipes: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(process.stdout.take().expect("piped")), Box::new(process.stderr.take().expect("piped"))];
        for pipe in pipes {
            let said = said.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let mut said = said.lock().expect("no panic");
                    said.push_str(&line);
                    said.push('\n');
                }
            });
        }
        let provider = Provider { process, said };
        provider.wait_for("listening");
        std::fs::remove_file(&file).expect("it was read");
        provider
    }

    fn said(&self) -> String {
        self.said.lock().expect("no panic").clone()
    }

    fn wait_for(&self, text: &str) {
        let begin = Instant::now();
        while !self.said().contains(text) {
            assert!(begin.elapsed() < BOUND, "the provider does not say `{text}`: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a page finds out in a session that is refreshed under it: scripts and tabs ask at the same time, again and
/// again.
const IN_SESSION: &str = r#"
    const sleep = milliseconds => new Promise(done => setTimeout(done, milliseconds));
    const ask = async path => {
        const answer = await fetch(path, { cache: "no-store" });
        return `${answer.status} ${await answer.text()}`;
    };
    const tab = path => new Promise(done => {
        const frame = document.createElement("iframe");
        frame.onload = () => done(frame.contentDocument.body.textContent);
        frame.src = path;
        document.body.append(frame);
    });
    const result = { first: await ask("/who"), cookies: document.cookie, rounds: [] };
    for (let round = 0; round < 3; round++) {
        await sleep(3500);
        const asked = [...Array(6).keys()].map(number => ask(`/who?${round}.${number}`));
        const tabs = [...Array(3).keys()].map(number => tab(`/who?${round}.tab.${number}`));
        result.rounds.push([await Promise.all(asked), await Promise.all(tabs)]);
    }
    setTimeout(() => { location.href = "/.tidegate/oidc/logout"; }, 500);
    return result;"#;

/// What a page without a session finds out.
const AFTERWARDS: &str = r#"
    const answer = await fetch("/who", { cache: "no-store" });
    return { status: answer.status, said: answer.headers.get("WWW-Authenticate") };"#;

fn config(issuer: &str, secret: &str, upstream: &str) -> String {
    format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 2\nstorage \"{{dir}}/storage\"\nsite \"https://localhost:{{port}}\" {{\n    tls \"internal\"\n    \
         oidc issuer=\"{issuer}\" client=\"tidegate\" {secret} user=\"email\" after-logout=\"/after\"\n    \
         route \"/after\" {{ oidc \"off\"; proxy \"{upstream}\" }}\n    route \"/result\" {{ oidc \"off\"; proxy \"{upstream}\" }}\n    \
         route \"/who\" {{ respond 200 body=\"{{auth.user}} <{{request.header.Cookie}}>\" }}\n    proxy \"{upstream}\"\n}}\n"
    )
}

fn is_in(seen: &Value) {
    assert_eq!(seen["first"], "200 alice@example.com <>", "{seen}");
    assert_eq!(seen["cookies"], "", "no script sees them");
}

#[test]
fn a_browser_logs_in_refreshes_in_many_tabs_and_logs_out() {
    let (Some(packages), Some(browser)) = (packages(), Chromium::find()) else { return };
    let server = Server::start(IN_SESSION, |exchange| {
        exchange.reply("Content-Type: text/html\r\nCache-Control: no-store\r\n", page(AFTERWARDS).as_bytes());
    });
    let port = Reservation::new().expect("a port").port();
    let issuer = format!("http://127.0.0.1:{port}");
    let mut proxy =
        Proxy::start(PROGRAM, &config(&issuer, "secret=\"s3cret & +%\"", &server.address.to_string())).expect("it starts");
    let origin = proxy.places.fill("https://localhost:{port}").expect("a port");
    let [redirect, after, back_channel] =
        ["/.tidegate/oidc/callback", "/after", "/.tidegate/oidc/back-channel"].map(|path| format!("{origin}{path}"));
    // The provider comes later than the site, which is none the worse for it.
    let port_text = port.to_string();
    let arguments = [&port_text, &redirect, &after, &back_channel].map(String::as_str);
    let provider = Provider::start(&packages, "certified", include_str!("openid/certified.mjs"), &arguments);
    proxy.wait_for_log("the provider of log-ins was found").expect("it is found");
    let _only = crate::only_browser();
    let mut chromium = Chromium::open(&browser, &format!("{origin}{PAGE}"));
    let mut seen = || {
        let result = server.result(BOUND);
        result.unwrap_or_else(|| panic!("{}\n{}\n{}", chromium.output(), provider.said(), proxy.program.output()))
    };
    let result = seen();
    is_in(&result);
    let who = "alice@example.com <>";
    for round in result["rounds"].as_array().expect("rounds") {
        assert_eq!(round[0], json!(vec![format!("200 {who}"); 6]), "{}", provider.said());
        assert_eq!(round[1], json!(vec![who; 3]), "{}", provider.said());
    }
    let refreshes = provider.said().matches("grant refresh_token").count();
    assert!((3..=5).contains(&refreshes), "one for each round, and those of the page: {}", provider.said());
    assert!(!provider.said().contains("grant.error"), "{}", provider.said());
    let result = seen();
    assert_eq!(result["status"], 401, "{result}\n{}", provider.said());
    assert!(result["said"].as_str().is_some_and(|said| said.starts_with("OpenID login=")), "{result}");
}

#[test]
fn another_provider_with_other_keys_logs_people_in() {
    const SCRIPT: &str = "const answer = await fetch('/who');
        return { first: `${answer.status} ${await answer.text()}`, cookies: document.cookie };";
    let (Some(packages), Some(browser)) = (packages(), Chromium::find()) else { return };
    let port = Reservation::new().expect("a port").port();
    let provider = Provider::start(&packages, "mock", include_str!("openid/mock.mjs"), &[&port.to_string()]);
    let server = Server::start(SCRIPT, |exchange| exchange.reply("", b""));
    let config = config(&format!("http://127.0.0.1:{port}"), "secret=\"any\"", &server.address.to_string());
    let mut proxy = Proxy::start(PROGRAM, &config).expect("it starts");
    let origin = proxy.places.fill("https://localhost:{port}").expect("a port");
    let _only = crate::only_browser();
    let mut chromium = Chromium::open(&browser, &format!("{origin}{PAGE}"));
    let result = server.result(BOUND);
    is_in(&result.unwrap_or_else(|| panic!("{}\n{}\n{}", chromium.output(), provider.said(), proxy.program.output())));
}
