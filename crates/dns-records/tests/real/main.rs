//! Records published and looked up for real: with BIND on loopback (`named.rs`), with programs (`exec.rs`), and with
//! emulations of providers' APIs, written from their documentation (`api.rs` and a file for each), because those cannot
//! be asked by a test.

mod api;
mod cloudflare;
mod digitalocean;
mod exec;
mod hetzner;
mod lookup;
mod named;
mod propagation;
mod rfc2136;
mod route53;
mod webhook;

use std::net::SocketAddr;
use std::time::Duration;
use tidegate_dns_records::{Lookup, LookupSettings, Published, Publisher};
use tidegate_model::{AcmeDns, DnsProvider};
use tidegate_testkit::dns::NameServer;
use tidegate_testkit::tokio;

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn lookup(resolver: SocketAddr) -> Lookup {
    Lookup::new(LookupSettings { resolver: Some(resolver), authority_port: resolver.port() })
}

/// With a name server that knows no alias.
fn publisher(provider: DnsProvider) -> Publisher {
    let server = NameServer::start().expect("a name server");
    publisher_with(provider, lookup(server.address)).expect("a publisher")
}

fn publisher_with(provider: DnsProvider, lookup: Lookup) -> Result<Publisher, tidegate_dns_records::DnsFault> {
    Publisher::new(&AcmeDns { provider, propagation: Duration::from_secs(10), resolver: None }, lookup)
}

fn published(name: &str, value: &str) -> Published {
    Published { name: name.into(), value: value.into() }
}

/// Orders run side by side, wherever there is a thread for them.
#[test]
fn everything_that_waits_goes_from_thread_to_thread() {
    fn check<T: Send>(_: &T) {}
    run(async {
        let publisher = publisher(DnsProvider::Exec { command: "/bin/true".into() });
        let lookup = Lookup::new(LookupSettings::default());
        let done = published("a.example", "words");
        check(&publisher.publish("a.example", "words"));
        check(&publisher.withdraw(&done));
        check(&tidegate_dns_records::await_published(&lookup, "a.example", "words", Duration::ZERO));
        check(&lookup.caa("a.example"));
    });
}
