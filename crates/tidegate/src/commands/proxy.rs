//! `tidegate proxy`: a site and its upstreams from the command line. The text it makes is a configuration like any
//! other, so every check and every default of the file holds here too.

use super::run;
use std::process::ExitCode;
use tidegate_certs::default_state_dir;
use tidegate_control::Source;

pub fn run(from: &[String], to: &[String], admin: Option<&str>) -> ExitCode {
    run_site(from, &format!("proxy {}", quote_all(to)), admin)
}

/// One site with one terminal step.
pub fn run_site(from: &[String], answers: &str, admin: Option<&str>) -> ExitCode {
    let admin = quote_all(&[admin.map_or_else(|| free_admin_address().to_owned(), str::to_owned)]);
    let text = format!("admin {admin}\nsite {} {{\n    {answers}\n}}\n", quote_all(from));
    let source = Source::Text { name: "<command line>".into(), text, directory: std::env::current_dir().unwrap_or_default() };
    run::serve(|| source, default_state_dir(), false, || {})
}

/// Two proxies started by hand must not stand in each other's way; one that was asked for an address gets it or fails.
fn free_admin_address() -> &'static str {
    const DEFAULT: &str = "127.0.0.1:9180";
    if std::net::TcpListener::bind(DEFAULT).is_ok() {
        return DEFAULT;
    }
    eprintln!("note: {DEFAULT} is taken, so metrics and health are not served; choose another address with --admin");
    "off"
}

/// KDL strings, one after the other.
pub fn quote_all(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    quoted.join(" ")
}
