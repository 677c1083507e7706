//! `tidegate proxy`: a site and its upstreams from the command line. The text it makes is a configuration like any
//! other, so every check and every default of the file holds here too.

use super::run;
use crate::cli::Sharing;
use std::process::ExitCode;
use tidegate_certs::default_state_dir;
use tidegate_control::Source;
use tidegate_model::ADMIN_ADDRESS;

pub fn run(from: &[String], to: &[String], admin: Option<&str>, sharing: Sharing) -> ExitCode {
    run_site(from, &format!("proxy {}", quote_all(to)), admin, sharing)
}

/// One site with one terminal step.
pub fn run_site(from: &[String], answers: &str, admin: Option<&str>, sharing: Sharing) -> ExitCode {
    let admin = match admin {
        Some(admin) => format!("admin {}\n", quote_all(&[admin.to_owned()])),
        None if is_default_free() => String::new(),
        None => "admin \"off\"\n".to_owned(),
    };
    let text = format!("{admin}site {} {{\n    {answers}\n}}\n", quote_all(from));
    let source = Source::Text { name: "<command line>".into(), text, directory: std::env::current_dir().unwrap_or_default() };
    run::serve(
        || source,
        default_state_dir(),
        run::Life { watch: false, ends_with_terminal: true, sharing, objects: None },
        || {},
    )
}

/// Two proxies started by hand must not stand in each other's way; one that was asked for an address gets it or fails.
fn is_default_free() -> bool {
    let is_free = std::net::TcpListener::bind(ADMIN_ADDRESS).is_ok();
    if !is_free {
        eprintln!("note: {ADMIN_ADDRESS} is taken, so metrics and health are not served; choose another address with --admin");
    }
    is_free
}

/// KDL strings, one after the other.
pub fn quote_all(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    quoted.join(" ")
}
