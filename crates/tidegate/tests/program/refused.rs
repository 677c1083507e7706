//! What does not change the configuration: files that cannot be read or run. And what changes it without being told to:
//! `--watch`, and certificates, which are always watched. Changes under load are in `reload.rs`.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::connection::Socket;
use tidegate_testkit::load::{Goal, Kind, Load, Order};
use tidegate_testkit::tokio::task::LocalSet;
use tidegate_testkit::{Client, Proxy, Surroundings, get, tls, tokio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HOST: &str = "example.com";
/// A change of a file is noticed long before.
const NOTICE_BOUND: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

fn config(version: &str, more: &str) -> String {
    format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 1\nsite \"http://:{{port}}\" {{ respond 200 body=\"{version}\" }}\n{more}\n"
    )
}

fn served(proxy: &Proxy) -> String {
    get(&proxy.address.to_string(), "/").expect("requests are answered").1
}

/// SIGHUP with a file that is as it is now: the running configuration stays, and everybody can see why.
fn check_refused(proxy: &mut Proxy, refusals: &mut u64, why: &str) {
    let admin = proxy.admin.clone();
    assert_eq!(proxy.reload(&admin).expect("an outcome"), "refused", "{why}");
    *refusals += 1;
    assert_eq!(served(proxy), "one", "{why}");
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(metrics.sum("tidegate_configuration_refused").to_string(), "1", "{why}");
    let series = "tidegate_configuration_changes_total{result=\"refused\"}";
    assert_eq!(metrics.sum(series).to_string(), refusals.to_string(), "{why}");
    proxy.wait_for_log(why).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_cannot_run_changes_nothing() {
    let good = config("one", "");
    let mut proxy = Proxy::start(PROGRAM, &good).expect("the proxy starts");
    let file = proxy.places.config_file();
    let mut refusals = 0;

    proxy.write(&good[..good.len() - 20]).expect("written");
    check_refused(&mut proxy, &mut refusals, "this block is never closed");
    std::fs::remove_file(&file).expect("it is there");
    check_refused(&mut proxy, &mut refusals, "there is no such file");
    std::fs::create_dir(&file).expect("the name is free");
    check_refused(&mut proxy, &mut refusals, "it is a directory");
    std::fs::remove_dir(&file).expect("it is empty");
    std::fs::write(&file, b"site \xff\xfe").expect("written");
    check_refused(&mut proxy, &mut refusals, "it is not UTF-8 text");
    proxy.write(&config("two", "frobnicate 3")).expect("written");
    check_refused(&mut proxy, &mut refusals, "unknown word `frobnicate`");
    proxy.write(&config("two", "include \"absent.kdl\"")).expect("written");
    check_refused(&mut proxy, &mut refusals, "absent.kdl");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken = other.local_addr().expect("bound");
    // A listener that could be bound beside one that cannot must not stay behind.
    let more = format!("site \"http://127.0.0.1:{{port:new}}\" {{ respond 204 }}\nsite \"http://{taken}\" {{ respond 204 }}");
    proxy.write(&config("two", &more)).expect("written");
    check_refused(&mut proxy, &mut refusals, "it is already taken");
    let new = proxy.places.fill("127.0.0.1:{port:new}").expect("known");
    get(&new, "/").expect_err("nothing of a refused change happens");
    let mismatch = "site \"https://:{port:tls}\" { tls cert=\"{cert:a.test}\" key=\"{key:b.test}\"; respond 204 }";
    proxy.write(&config("two", mismatch)).expect("written");
    check_refused(&mut proxy, &mut refusals, "does not belong to the certificate");
    let log = "access-log \"{dir}/absent/access.log\"";
    proxy.write(&config("two", "").replace("access-log \"off\"", log)).expect("written");
    check_refused(&mut proxy, &mut refusals, "absent/access.log cannot be opened");
    proxy.write(&config("two", "").replace("127.0.0.1:{admin}", &taken.to_string())).expect("written");
    check_refused(&mut proxy, &mut refusals, "the admin endpoint cannot listen");

    proxy.apply(&config("two", "")).expect("it is applied");
    assert_eq!(served(&proxy), "two");
    let metrics = proxy.metrics().expect("metrics");
    assert_eq!(metrics.sum("tidegate_configuration_refused").to_string(), "0");
    assert_eq!(metrics.sum("tidegate_configuration_generation").to_string(), "2", "what is refused takes no number");
}

#[test]
fn the_same_again_is_no_change() {
    let mut proxy = Proxy::start(PROGRAM, &config("one", "")).expect("the proxy starts");
    let admin = proxy.admin.clone();
    proxy.write(&config("one", "// a remark")).expect("written");
    assert_eq!(proxy.reload(&admin).expect("an outcome"), "unchanged");
    assert_eq!(proxy.metrics().expect("metrics").sum("tidegate_configuration_generation").to_string(), "1");
}

fn wait_until_served(proxy: &Proxy, expected: &str) {
    let begin = Instant::now();
    while served(proxy) != expected {
        assert!(
            begin.elapsed() < NOTICE_BOUND,
            "`{}` is served instead of `{expected}`\n{}",
            served(proxy),
            proxy.program.output()
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[test]
fn a_watched_file_is_applied_however_it_is_saved() {
    let places = Places::new().expect("a folder");
    let parts = places.folder().join("parts");
    std::fs::create_dir(&parts).expect("a free name");
    let start = config("one", "include \"parts/*.kdl\"");
    let mut proxy = Proxy::start_in(places, PROGRAM, &start, &["--watch"], &Surroundings::default()).expect("the proxy starts");
    let file = proxy.places.config_file();

    proxy.write(&config("renamed", "include \"parts/*.kdl\"")).expect("written");
    wait_until_served(&proxy, "renamed");
    let text = proxy.places.fill(&config("in place", "include \"parts/*.kdl\"")).expect("known places");
    std::fs::write(&file, text).expect("written");
    wait_until_served(&proxy, "in place");
    let address = proxy.places.fill("127.0.0.1:{port:part}").expect("a port is free");
    proxy.places.release_proxy_ports();
    std::fs::write(parts.join("one.kdl"), format!("site \"http://{address}\" {{ respond 200 body=\"part\" }}\n"))
        .expect("written");
    let begin = Instant::now();
    while get(&address, "/").map_or(true, |(_, body)| body != "part") {
        assert!(begin.elapsed() < NOTICE_BOUND, "a new file of a pattern was not noticed\n{}", proxy.program.output());
        std::thread::sleep(POLL_INTERVAL);
    }
    // A fault in between is refused, and mending it is enough.
    proxy.write("site {").expect("written");
    proxy.wait_for_metric("tidegate_configuration_refused", 1.0).expect("it is refused");
    assert_eq!(served(&proxy), "in place");
    proxy.write(&config("mended", "")).expect("written");
    wait_until_served(&proxy, "mended");
}

/// As Kubernetes mounts a ConfigMap: the file is a link through `..data`, a link that is swapped.
#[test]
fn a_swapped_volume_is_noticed() {
    let mut places = Places::new().expect("a folder");
    let folder = places.folder().join("volume");
    std::fs::create_dir(&folder).expect("a free name");
    let main = config("", "").replace("respond 200 body=\"\"", "include \"volume/site.kdl\"");
    let version = |name: &str| {
        let of_version = folder.join(format!("..{name}"));
        std::fs::create_dir(&of_version).expect("a free name");
        std::fs::write(of_version.join("site.kdl"), format!("respond 200 body=\"{name}\"\n")).expect("written");
        let link = folder.join("..data_tmp");
        symlink(format!("..{name}"), &link).expect("a link");
        std::fs::rename(&link, folder.join("..data")).expect("swapped");
    };
    version("one");
    symlink("..data/site.kdl", folder.join("site.kdl")).expect("a link");
    places.fill(&main).expect("known places");
    let proxy = Proxy::start_in(places, PROGRAM, &main, &["--watch"], &Surroundings::default()).expect("the proxy starts");
    for name in ["two", "three"] {
        version(name);
        wait_until_served(&proxy, name);
    }
}

/// The certificate that a fresh handshake shows.
async fn shown_certificate(address: SocketAddr, config: &tls::ClientOptions) -> Vec<u8> {
    let config = Arc::new(
        tls::client_config(None, &tls::ClientOptions { only: Some("ecdsa".to_owned()), ..config.clone() }).expect("valid"),
    );
    let client = Client::connect_tls(address, config, HOST).await.expect("a handshake");
    let Socket::Tls(stream) = &client.connection.socket else { panic!("it is TLS") };
    let (_, session) = stream.get_ref();
    session.peer_certificates().expect("one is shown")[0].to_vec()
}

/// No reload, no `--watch`: the files of a certificate are watched in any case.
#[test]
fn a_certificate_is_renewed_file_by_file() {
    let mut places = Places::new().expect("a folder");
    let [cert, key] = ["live.crt", "live.key"].map(|name| places.folder().join(name));
    let [old, new] = ["example.com", "example.com+b.test"].map(|name| places.certificate(name).expect("made"));
    let copy = |from: &Path, to: &Path| {
        std::fs::copy(from, to.with_extension("part"))
            .and_then(|_| std::fs::rename(to.with_extension("part"), to))
            .expect("copied");
    };
    copy(&old.cert, &cert);
    copy(&old.key, &key);
    let site = "site \"https://:{port:tls}\" { tls cert=\"{dir}/live.crt\" key=\"{dir}/live.key\"; respond 200 body=\"same\" }";
    let mut proxy =
        Proxy::start_in(places, PROGRAM, &config("one", site), &[], &Surroundings::default()).expect("the proxy starts");
    let goal = Goal::of(&mut proxy, HOST).expect("a goal");
    let same = Order::Text { path: "/".to_owned(), body: "same".to_owned() };
    let load = Load::start(&goal, &[(Kind::FreshTls, 3), (Kind::Http2, 1)], &[same]).expect("clients");
    load.go_on_for(10).expect("answers");
    let options = tls::ClientOptions { send_sni: true, ..Default::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        assert_eq!(shown_certificate(goal.secure, &options).await, old.der.to_vec());
        copy(&new.cert, &cert);
        // The pair does not match now; the log says so once it has been looked at.
        proxy.wait_for_log("a certificate was not renewed").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(shown_certificate(goal.secure, &options).await, old.der.to_vec());
        copy(&new.key, &key);
        let begin = Instant::now();
        while shown_certificate(goal.secure, &options).await != new.der.to_vec() {
            assert!(begin.elapsed() < NOTICE_BOUND, "the new pair is not served\n{}", proxy.program.output());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    });
    let tally = load.finish();
    assert!(tally.is_clean(), "{tally}\n{}", proxy.program.output());
    assert_eq!(
        proxy.metrics().expect("metrics").sum("tidegate_configuration_generation").to_string(),
        "1",
        "nothing was reloaded"
    );
}
