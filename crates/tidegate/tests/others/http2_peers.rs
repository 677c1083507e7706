//! HTTP/2 and gRPC as others have made them: clients through the real program (curl, nghttp2, Go, python-h2, hyper) and
//! servers behind it (Go, nghttp2, hypercorn, gRPC for Go). What is said frame by frame is in `tests/cases/http2` and
//! in h2spec. A test whose program is missing says so and passes.

mod clients;
mod go;
mod grpc;
mod hyper_client;
mod peer;
mod poisoned;
mod python;
mod upstreams;

use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// A plain site and a TLS site whose requests all go to the pool `app`, with these lines in it.
fn start(pool: &str) -> Proxy {
    let config = CONFIG.replace("POOL", pool);
    Proxy::start(PROGRAM, &config).expect("it starts")
}

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "{dir}/access.log"
threads 2
site "http://:{port}" { pass-on trailers=#true; proxy "app" }
site "https://localhost:{port:tls}" { tls cert="{cert:localhost}" key="{key:localhost}"; pass-on trailers=#true; proxy "app" }
pool "app" { POOL; tls ca="{ca}" }
"#;

/// Where clients go, for each way to speak HTTP/2.
struct Doors {
    plain: String,
    secure: String,
    root: String,
}

fn doors(proxy: &mut Proxy) -> Doors {
    let [secure_port, root] = ["{port:tls}", "{ca}"].map(|text| proxy.places.fill(text).expect("filled in before"));
    Doors { plain: format!("http://{}", proxy.address), secure: format!("https://localhost:{secure_port}"), root }
}
