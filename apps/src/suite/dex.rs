//! Dex as the provider of log-ins: a person logs in with its form, is known by name and group, is renewed with tokens
//! that rotate, and logs out, which Dex is told and tells back. Other suites have their log-ins by it too.

use super::Application;
use crate::cache::Cache;
use crate::example::{Configuration, example, replaced_in};
use crate::processes::Process;
use crate::stage::{Front, Scheme, Stage, did, free_port};
use crate::visitor::{Answer, Visitor};
use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

pub const DEX: Application = Application {
    name: "dex",
    title: "Dex of August 2026 (Go)",
    story: "log in with its form, be known by name and group, be renewed, log out here and by the back channel, at several sites",
    configuration: Configuration::Page(PAGE),
    program: None,
    install,
    act,
};

const PAGE: &str = include_str!("../../../docs/providers/dex.md");
const PAGE_OF_OIDC: &str = include_str!("../../../docs/oidc.md");
/// Which of its examples has a domain.
const SEVERAL_SITES: usize = 2;
/// Packages in the version of a commit, since the tags of Dex are no versions of a module.
const PACKAGES: &[&str] = &[
    "github.com/dexidp/dex/cmd/dex@v0.0.0-20260806151424-ab64ed778070",
    "github.com/dexidp/dex/api/v2@v2.4.1-0.20260806151424-ab64ed778070",
];
/// A session is renewed when nine tenths of it are over.
const TOKEN_SECONDS: u64 = 10;
const RENEWED_WITHIN: Duration = Duration::from_secs(40);

pub fn install(cache: &Cache) -> Result<(), String> {
    cache.go_package("dex", PACKAGES)
}

/// A Dex at this port with the configuration of its page, in which these texts are others.
pub fn start(stage: &Stage<'_>, port: u16, replaced: &[(&str, &str)]) -> Result<Process, String> {
    start_with(stage, port, replaced, "", &[])
}

/// Starts it with more lines of configuration, and variables of its environment.
fn start_with(
    stage: &Stage<'_>,
    port: u16,
    replaced: &[(&str, &str)],
    more: &str,
    variables: &[(&str, &OsStr)],
) -> Result<Process, String> {
    let (issuer, address) = (issuer(port), format!("127.0.0.1:{port}"));
    let database = stage.folder.join(format!("dex-{port}.db")).display().to_string();
    let own = [("https://dex.example.com", &*issuer), ("127.0.0.1:5556", &address), ("/var/lib/dex/dex.db", &database)];
    let text = replaced_in(example(PAGE, "yaml", 0)?, &[&own[..], replaced].concat())? + more;
    let mut command = Command::new(stage.cache.of("dex").join("bin/dex"));
    command.arg("serve").arg(stage.write(&format!("dex-{port}.yaml"), &text)?).env("DEX_SESSIONS_ENABLED", "true");
    stage.start_at("dex", port, command.envs(variables.iter().copied()))
}

/// The document that Dex has at this port.
pub fn issuer(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Logs in at the form that this address leads to; the answer is the page that the person gets.
pub fn log_in(visitor: &Visitor<'_>, url: &str) -> Result<Answer, String> {
    let form = visitor.follows(url)?.is(200, "id=\"login\"")?;
    visitor.sends(&["login=anna@example.com", "password=swordfish"], &form.landed)
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let (port, dex_port) = (free_port()?, free_port()?);
    let (_upstream, echo) = stage.echo()?;
    let (_names, proxy) = stage.names(port)?;
    let front = stage.front_by_name(
        port,
        &[
            ("issuer=\"https://dex.example.com\"", &format!("issuer=\"{}\"", issuer(dex_port))),
            ("127.0.0.1:5556", &format!("127.0.0.1:{dex_port}")),
            ("127.0.0.1:9000", &echo),
        ],
    )?;
    // A reader has tokens for a day, and a Dex that finds the sites by their names.
    let tokens = format!("expiry:\n  idTokens: {TOKEN_SECONDS}s\n");
    let root = front.root_certificate();
    let finds = [("HTTPS_PROXY", OsStr::new(&proxy)), ("SSL_CERT_FILE", root.as_os_str())];
    let _dex = start_with(stage, dex_port, &[], &tokens, &finds)?;
    for scheme in Scheme::BOTH {
        be_known(stage, port, scheme)?;
    }
    stay_and_leave(stage, port, &front)?;
    for scheme in Scheme::BOTH {
        front.carried("pages of who is logged in", scheme, 2, |line| line["user"] == "anna@example.com")?;
    }
    front.check(|line| line["reason"] == "oidc_log_in_needed")?;
    share_a_domain(stage, &echo)
}

/// One log-in for several sites, as the page of `oidc` has it.
fn share_a_domain(stage: &Stage<'_>, echo: &str) -> Result<(), String> {
    let (port, dex_port) = (free_port()?, free_port()?);
    let callback = [("https://app.example.com/.tidegate/oidc/callback", "https://login.example.com/back")];
    let secret = ("secret: a-secret-of-the-provider", "secret: a secret of the provider");
    let _dex = start(stage, dex_port, &[callback[0], secret])?;
    let issuer = issuer(dex_port);
    let replaced = [("https://idp.example.com", &*issuer), ("127.0.0.1:9000", echo)];
    let front = stage.front_of_page(example(PAGE_OF_OIDC, "kdl", SEVERAL_SITES)?, port, &replaced)?;
    let mut page = stage.browser_at(port)?;
    page.open("https://app.example.com/who?a=b")?;
    page.fill("#login", "anna@example.com")?;
    page.fill("#password", "swordfish")?;
    page.click("#submit-login", "")?;
    page.see("pre", "GET /who?a=b")?;
    // A browser has a page of its own for an empty 404, which is what that site says to who has logged in.
    let _ = page.open("https://login.example.com/");
    let is_known = |line: &serde_json::Value| line["path"] == "/" && line["status"] == 404 && !line["user"].is_null();
    front.carried("pages of another site for who has logged in", Scheme::Https, 1, is_known)?;
    did("a browser that has logged in at one site is known at another of its domain");
    front.check(|_| false)
}

fn be_known(stage: &Stage<'_>, port: u16, scheme: Scheme) -> Result<(), String> {
    let (anna, who) = (Visitor::new(stage, "anna", port, scheme), "https://app.example.com/who?a=b");
    anna.asks(&["-H", "Accept: application/json"], who)?.is(401, "")?;
    anna.asks(&["-H", "X-User: root", "-H", "Accept: application/json"], who)?.is(401, "")?;
    log_in(&anna, who)?.is(200, "GET /who?a=b")?.says_nothing_of("tidegate")?;
    let forged = ["-H", "X-User: root", "-H", "x_user: root", "-H", "X-Groups: admins", "-H", "X.User: root"];
    let answer = anna.asks(&forged, who)?.is(200, "x-user: anna@example.com\n")?.is(200, "x-groups: staff\n")?;
    answer.says_nothing_of("root")?.says_nothing_of("admins")?;
    did(&format!("{}: logged in, known by name and group, and nobody else", scheme.version()));
    Ok(())
}

/// In a browser, until the tokens are new ones and Dex has ended the session.
fn stay_and_leave(stage: &Stage<'_>, port: u16, front: &Front) -> Result<(), String> {
    let mut page = stage.browser_at(port)?;
    page.open("https://app.example.com/who?tab=1")?;
    page.fill("#login", "anna@example.com")?;
    page.fill("#password", "swordfish")?;
    page.click("#submit-login", "")?;
    page.see("pre", "x-user: anna@example.com")?;
    page.see("pre", "GET /who?tab=1")?;
    did("a browser logged in, and is where it wanted to be");
    let (begin, selector) = (Instant::now(), "tidegate_oidc_refreshes_total{outcome=\"renewed\"}");
    let renewed = |front: &Front| front.metric(selector).unwrap_or_default();
    let before = renewed(front);
    while renewed(front) <= before {
        page.open("https://app.example.com/who?tab=2")?;
        page.see("pre", "x-user: anna@example.com")?;
        if begin.elapsed() > RENEWED_WITHIN {
            return Err(page.failed("its session is not renewed"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    page.open("https://app.example.com/who?tab=3")?;
    page.see("pre", "x-user: anna@example.com")?;
    did("its session was renewed with the next token");
    page.open("https://app.example.com/.tidegate/oidc/logout")?;
    page.see("#login", "")?;
    let is_told = |line: &serde_json::Value| line["path"] == "/.tidegate/oidc/back-channel" && line["status"] == 200;
    let begin = Instant::now();
    while front.logged(is_told).is_empty() {
        if begin.elapsed() > RENEWED_WITHIN {
            return Err("Dex says nothing at the back channel".into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    did("it logged out, here and at Dex, which has told that back");
    Ok(())
}
