//! The client against servers on loopback: hyper's, with certificates of a CA of its own, and raw sockets for what
//! hyper would not do.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_outbound::{ClientIdentity, HttpsClient, Limits, OutboundFault, Stage, Trust};
use tidegate_testkit::authority::CertificateFiles;
use tidegate_testkit::tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tidegate_testkit::tokio::net::TcpListener;
use tidegate_testkit::{Authority, KeyKind, tokio};
use tokio_rustls::TlsAcceptor;

/// Only ever reached by a test that fails.
const LONG: Limits = Limits { total: Duration::from_secs(30), body_bytes_max: 1000 };

struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers `/big` with 1,001 bytes and everything else with what was asked.
    async fn start(tls: Option<&CertificateFiles>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let acceptor = tls.map(acceptor);
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream).await,
                        Some(acceptor) => {
                            // A client that does not trust it leaves here.
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        Server { address, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn acceptor(files: &CertificateFiles) -> TlsAcceptor {
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer};
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = CertificateDer::pem_file_iter(&files.cert).expect("a file").collect::<Result<Vec<_>, _>>().expect("a chain");
    let key = PrivateKeyDer::from_pem_file(&files.key).expect("a key");
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    TlsAcceptor::from(Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).expect("they fit")))
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) {
    let service = service_fn(|request: Request<Incoming>| async move {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let host = head.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or("no host").to_owned();
        let answer = match head.uri.path() {
            "/big" => Response::new(Full::new(Bytes::from(vec![b'a'; 1001]))),
            "/moved" => Response::builder().status(302).header("location", "/").body(Full::default()).expect("an answer"),
            _ => {
                let text = format!("{} {} {host} {}", head.method, head.uri, String::from_utf8_lossy(&body));
                Response::new(Full::new(Bytes::from(text)))
            }
        };
        Ok::<_, Infallible>(answer)
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Takes connections, and says this on each once it has heard something.
async fn says(words: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = [0; 4096];
                let _ = stream.read(&mut heard).await;
                let _ = stream.write_all(words).await;
            });
        }
    });
    address
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).expect("a request")
}

fn text(answer: Result<Response<Bytes>, OutboundFault>) -> Result<String, String> {
    let text = |answer: Response<Bytes>| format!("{} {}", answer.status().as_u16(), String::from_utf8_lossy(answer.body()));
    answer.map(text).map_err(|fault| fault.to_string())
}

fn trusting(file: &Path) -> HttpsClient {
    HttpsClient::new(Trust::File(file.to_owned())).expect("roots")
}

#[test]
fn answers_come_over_tls_and_without_it_on_one_connection_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ours").expect("an authority");
    let files = authority.issue("localhost+127.0.0.1", KeyKind::Ecdsa).expect("a certificate");
    run(async {
        let (tls, plain) = (Server::start(Some(&files)).await, Server::start(None).await);
        let client = trusting(authority.root_file());
        for (scheme, server) in [("https", &tls), ("http", &plain)] {
            let at = format!("{}:{}", "localhost", server.address.port());
            for attempt in 1..=3 {
                let request = Request::post(format!("{scheme}://{at}/a?b=c")).body(Bytes::from("words")).expect("a request");
                let answer = text(client.clone().send(request, LONG).await);
                assert_eq!(answer, Ok(format!("200 POST /a?b=c {at} words")), "attempt {attempt}");
            }
            assert_eq!(server.connections(), 1, "{scheme}");
        }
        let moved = client.send(get(&format!("http://{}/moved", plain.address)), LONG).await.expect("an answer");
        assert_eq!((moved.status().as_u16(), &moved.headers()["location"]), (302, &"/".parse().expect("a value")));
    });
}

#[test]
fn only_who_is_trusted_gets_a_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours").expect("an authority");
    let theirs = Authority::new(folder.path(), "theirs").expect("an authority");
    let right = ours.issue("127.0.0.1", KeyKind::Ecdsa).expect("a certificate");
    let other_name = ours.issue("other.example", KeyKind::Ecdsa).expect("a certificate");
    let expired = ours.issue("127.0.0.1", KeyKind::Expired).expect("a certificate");
    let check = |files: &CertificateFiles, trust: Trust, expected: &str| {
        run(async {
            let server = Server::start(Some(files)).await;
            let client = HttpsClient::new(trust).expect("roots");
            let fault = client.send(get(&format!("https://{}/", server.address)), LONG).await.expect_err("no trust");
            assert!(!fault.is_transient(), "{fault:?}");
            let shown = fault.to_string();
            let lead = format!("at {} shows a certificate that is not trusted: ", server.address);
            assert_eq!(shown.strip_prefix(&lead), Some(expected), "{shown}");
        });
    };
    let file = |authority: &Authority| Trust::File(authority.root_file().to_owned());
    check(&right, file(&theirs), &format!("none of the roots in {} stands behind it", theirs.root_file().display()));
    check(&right, Trust::System, "none of the system's roots stands behind it");
    check(&other_name, file(&ours), "it is not valid for 127.0.0.1, but for other.example");
    check(&expired, file(&ours), "it has expired, or this machine's clock is wrong");
}

#[test]
fn a_file_of_roots_is_read_again_when_it_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours").expect("an authority");
    let theirs = Authority::new(folder.path(), "theirs").expect("an authority");
    let files = ours.issue("127.0.0.1", KeyKind::Ecdsa).expect("a certificate");
    let roots = folder.path().join("roots.pem");
    std::fs::copy(theirs.root_file(), &roots).expect("a copy");
    run(async {
        let server = Server::start(Some(&files)).await;
        let client = trusting(&roots);
        let url = format!("https://{}/", server.address);
        client.send(get(&url), LONG).await.expect_err("another root");
        let next = folder.path().join("next.pem");
        std::fs::copy(ours.root_file(), &next).expect("a copy");
        std::fs::rename(&next, &roots).expect("in its place");
        client.send(get(&url), LONG).await.expect("the right root");
    });
}

#[test]
fn files_without_roots_are_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |content: Option<&str>, expected: &str| {
        let path = folder.path().join("roots.pem");
        let _ = std::fs::remove_file(&path);
        if let Some(content) = content {
            std::fs::write(&path, content).expect("a file");
        }
        let Err(fault) = HttpsClient::new(Trust::File(path.clone())) else { panic!("{expected}") };
        let lead = format!("cannot be verified with the roots in {}: ", path.display());
        assert_eq!(fault.to_string().strip_prefix(&lead), Some(expected));
        assert!(!fault.is_transient());
    };
    check(None, "No such file or directory (os error 2)");
    check(Some("words"), "it holds no `-----BEGIN CERTIFICATE-----` block");
    check(
        Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        "certificate number 1 cannot be used: its certificate is not taken: it cannot be read",
    );
}

#[test]
fn faults_say_who_and_what() {
    run(async {
        let client = HttpsClient::new(Trust::System).expect("roots");
        let server = Server::start(None).await;
        let check = async |url: String, expected: String| {
            assert_eq!(text(client.send(get(&url), LONG).await), Err(expected), "{url}");
        };
        let at = server.address;
        check(format!("http://{at}/big"), format!("at {at} answers with more than 1000 bytes")).await;
        check(
            format!("https://{at}/"),
            format!("at {at} cannot be spoken to over TLS: what it sends is no TLS; is it `http://`?"),
        )
        .await;
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
        check(format!("http://{closed}/"), format!("at {closed} cannot be reached: {closed} refuses the connection")).await;
        let at = says(b"220 mail.example ESMTP\r\n").await;
        check(format!("http://{at}/"), format!("at {at} does not answer as HTTP servers do: invalid HTTP version parsed")).await;
        let at = says(b"").await;
        check(format!("http://{at}/"), format!("at {at} closes the connection without an answer")).await;
        let at = says(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhal").await;
        check(format!("http://{at}/"), format!("at {at} breaks off its answer: end of file before message length reached")).await;
        let fault = client.send(get("http://a.name.invalid/"), LONG).await.expect_err("no such name");
        assert!(fault.to_string().starts_with("at a.name.invalid cannot be found: "), "{fault}");
        assert!(fault.is_transient());
    });
}

#[test]
fn a_client_goes_from_thread_to_thread() {
    fn check<T: Send>(_: &T) {}
    let client = HttpsClient::new(Trust::System).expect("roots");
    check(&client.send(get("http://127.0.0.1/"), LONG));
}

#[test]
fn who_is_silent_has_a_time() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = HttpsClient::new(Trust::System).expect("roots");
        let limits = Limits { total: Duration::from_millis(200), body_bytes_max: 1000 };
        let check = async |scheme: &str, stage: Stage| {
            let fault = client.send(get(&format!("{scheme}://{at}/")), limits).await.expect_err("nobody answers");
            assert_eq!(fault, OutboundFault::TimedOut { host: at.to_string(), stage, total: limits.total });
        };
        check("http", Stage::Answering).await;
        check("https", Stage::Handshaking).await;
    });
}

#[test]
fn a_kept_connection_that_was_closed_is_no_fault() {
    run(async {
        let at = says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
        let client = HttpsClient::new(Trust::System).expect("roots");
        for attempt in 1..=3 {
            let answer = text(client.send(get(&format!("http://{at}/")), LONG).await);
            assert_eq!(answer, Ok("200 hi".to_owned()), "attempt {attempt}");
        }
    });
}

#[test]
fn an_answer_without_an_end_comes_piece_by_piece_and_silence_has_a_bound() {
    run(async {
        let address = says(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n").await;
        let client = HttpsClient::new(Trust::System).expect("a client");
        let request = Request::get(format!("http://{address}/")).body(Bytes::new()).expect("a request");
        let mut open = client.open(request, LONG.total).await.expect("an answer");
        assert_eq!(open.head().status, 200);
        assert_eq!(open.piece(LONG.total).await.expect("a piece").as_deref(), Some(&b"one"[..]));
        let ended = open.piece(LONG.total).await.expect_err("it was broken off").to_string();
        assert!(ended.starts_with(&format!("at {address} breaks off its answer")), "{ended}");
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = silent.local_addr().expect("an address");
        let request = Request::get(format!("http://{at}/")).body(Bytes::new()).expect("a request");
        let total = Duration::from_millis(50);
        let fault = client.open(request, total).await.err().expect("nothing is said");
        assert_eq!(fault, OutboundFault::TimedOut { host: at.to_string(), stage: Stage::Answering, total });
    });
}

#[test]
fn a_client_shows_its_certificate_where_it_is_asked_for() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "root").expect("a CA");
        let files = authority.issue("localhost+127.0.0.1", KeyKind::Ecdsa).expect("a certificate");
        let own = authority.issue("client", KeyKind::Ecdsa).expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let acceptor = asking_acceptor(&files, authority.root());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream).await;
                    }
                });
            }
        });
        let root: Arc<[u8]> = std::fs::read(authority.root_file()).expect("a file").into();
        let (chain, key) = (std::fs::read(&own.cert).expect("a file"), std::fs::read(&own.key).expect("a file"));
        let identity = ClientIdentity::from_pem(&chain, &key).expect("they fit");
        let known = HttpsClient::with_identity(Trust::Held(root.clone()), Some(identity)).expect("a client");
        let ask = || Request::get(format!("https://{address}/")).body(Bytes::new()).expect("a request");
        assert_eq!(known.send(ask(), LONG).await.expect("an answer").status(), 200);
        let unknown = HttpsClient::new(Trust::Held(root)).expect("a client");
        unknown.send(ask(), LONG).await.expect_err("it shows nothing");
    });
}

#[test]
fn what_cannot_be_a_certificate_is_refused_before_anything_is_sent() {
    let check = |chain: &[u8], key: &[u8], expected: &str| {
        let said = ClientIdentity::from_pem(chain, key).err().expect("a fault");
        assert!(said.starts_with(expected), "{said}");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "root").expect("a CA");
    let issued = |name: &str| authority.issue(name, KeyKind::Ecdsa).expect("a certificate");
    let read = |path: &Path| std::fs::read(path).expect("a file");
    let (one, other) = (issued("one"), issued("other"));
    check(b"", &read(&one.key), "holds no `-----BEGIN CERTIFICATE-----` block");
    check(&read(&one.cert), b"", "has a key that cannot be read");
    check(&read(&one.cert), &read(&other.key), "cannot be used");
    let fault = HttpsClient::new(Trust::Held(b"nothing".as_slice().into())).err().expect("a fault");
    assert_eq!(
        fault.to_string(),
        "cannot be verified with the roots in the text that was given: it holds no `-----BEGIN CERTIFICATE-----` block"
    );
}

/// Takes clients with a certificate of this authority, and no others.
fn asking_acceptor(files: &CertificateFiles, root: &rustls_pki_types::CertificateDer<'static>) -> TlsAcceptor {
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer};
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(root.clone()).expect("a root");
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let chain = CertificateDer::pem_file_iter(&files.cert).expect("a file").collect::<Result<Vec<_>, _>>().expect("a chain");
    let key = PrivateKeyDer::from_pem_file(&files.key).expect("a key");
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let builder = builder.with_client_cert_verifier(verifier.expect("a verifier"));
    TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).expect("they fit")))
}
