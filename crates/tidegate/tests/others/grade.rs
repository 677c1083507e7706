//! How good the TLS is, in the words of others: testssl.sh looks for faults, OpenSSL, curl and Chromium connect as
//! clients, HAProxy stands in front and nginx behind. What the program's own clients can say is in `tests/cases/tls`,
//! `tcp` and `upstream`. A test whose program is missing says so and passes.

mod around;
mod chromium;
mod curl;
mod openssl;
mod testssl;

use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// What every configuration here begins with; `{tls.version}` and the like in the answers of sites are the program's
/// own placeholders.
const HEAD: &str = "admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 2\n";

fn start(sites: &str) -> Proxy {
    Proxy::start(PROGRAM, &format!("{HEAD}{sites}")).expect("it starts")
}

/// The root of the CA that signs for names which no public CA would sign for.
fn internal_root(proxy: &Proxy) -> String {
    proxy.places.folder().join("state/internal-ca/root.crt").display().to_string()
}
