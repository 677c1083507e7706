//! A running proxy with its admin API, and how it is asked. What is asked, and what has to come of it, is in the tests.

use crate::admin::plain::{Reply, over_tcp};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tidegate_testkit::case::Places;
use tidegate_testkit::{Proxy, Surroundings, get};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
pub const TYPED: &str = "Content-Type: application/json";

pub struct Asked {
    pub proxy: Proxy,
    pub token: String,
}

impl Asked {
    /// With more arguments for `run`.
    pub fn of(config: &str, more: &[&str]) -> Asked {
        Asked::start_in(Places::new().expect("a folder"), config, more)
    }

    /// In a folder that may hold files already.
    pub fn start_in(places: Places, config: &str, more: &[&str]) -> Asked {
        let mut proxy = Proxy::start_in(places, PROGRAM, config, more, &Surroundings::default()).expect("the proxy starts");
        let token = match configured_token(config) {
            Some(token) => token,
            None => {
                let file = proxy.places.folder().join("state/admin-token");
                proxy.program.wait_until("with a token", || file.exists()).expect("a token is made");
                fs::read_to_string(&file).expect("readable").trim().to_owned()
            }
        };
        Asked { proxy, token }
    }

    pub fn token_file(&self) -> PathBuf {
        self.proxy.places.folder().join("state/admin-token")
    }

    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let token = format!("Authorization: Bearer {}", self.token);
        let mut all = vec![token.as_str()];
        all.extend(headers);
        self.send_as_is(method, path, &all, body)
    }

    /// Without the token.
    pub fn send_as_is(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        over_tcp(&self.proxy.admin, method, path, headers, body)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[TYPED], &body.to_string())
    }

    /// The configuration's text as it is in the file.
    pub fn text(&self) -> String {
        fs::read_to_string(self.proxy.places.config_file()).expect("readable")
    }

    /// A proposal: that text with something in the place of something else.
    pub fn changed(&self, from: &str, to: &str) -> Value {
        let text = self.text();
        assert!(text.contains(from), "{text}");
        json!({ "text": text.replace(from, to), "name": "<test>" })
    }

    /// What the route `/own` answers.
    pub fn own(&self) -> String {
        get(&self.proxy.address.to_string(), "/own").expect("answered").1
    }

    pub fn refuses(&self, reply: &Reply, status: u16, kind: &str) {
        let seen = (reply.status, reply.json()["type"].as_str().unwrap_or_default().to_owned());
        assert_eq!(seen, (status, format!("urn:tidegate:problem:{kind}")), "{}\n{}", reply.text, self.proxy.program.output());
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        assert_eq!(reply.json()["status"], status);
        assert!(!reply.text.contains(&self.token), "a token in an answer");
    }
}

fn configured_token(config: &str) -> Option<String> {
    let (_, rest) = config.split_once("token=\"")?;
    rest.split_once('"').map(|(token, _)| token.to_owned())
}
