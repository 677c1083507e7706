//! gRPC for Go on both sides: calls of all four kinds, metadata, statuses with details, deadlines, cancelled calls,
//! large messages, more calls at once than a server takes streams, and a server that dies in the middle.

use super::go::{Behind, peers};
use super::peer::{Peer, free};
use super::{Doors, PROGRAM, doors};
use crate::programs::run;
use std::thread;
use std::time::{Duration, Instant};
use tidegate_testkit::Surroundings;
use tidegate_testkit::case::Places;
use tidegate_testkit::proxy::Proxy;

#[test]
fn calls_of_every_kind_come_through_and_their_ends_as_well() {
    let Some(peers) = peers() else { return };
    for behind in [Behind::H2c, Behind::Tls] {
        let mut places = Places::new().expect("a folder");
        let address = free(&mut places, "a");
        let mut arguments = vec!["grpc-serve".to_owned(), "-address".to_owned(), address.to_string()];
        arguments.extend(behind.certificate(&mut places));
        let mut server = Peer::start(peers, &arguments, address);
        let config = super::CONFIG.replace("POOL", &behind.pool(&["a"]));
        let mut proxy = Proxy::start_in(places, PROGRAM, &config, &[], &Surroundings::default()).expect("it starts");
        let doors = doors(&mut proxy);
        let call = |is_secure: bool, more: &[&str]| {
            let said = run(peers, &[&["grpc-client"], &door(&doors, is_secure)[..], more].concat(), "");
            assert!(said.is_success, "{behind:?}, TLS {is_secure}: {}\n{}", said.text, proxy.program.output());
        };
        call(true, &[]);
        call(false, &[]);
        // From each of the two clients: one call and one stream cancelled, and one deadline over. Whoever of proxy and
        // server has the shorter breath, the server learns of each.
        let begin = Instant::now();
        let mut ended = String::new();
        while !["4 cancelled, 2 late", "5 cancelled, 1 late", "6 cancelled, 0 late"].contains(&ended.as_str()) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{behind:?}: the server knows of {ended}");
            thread::sleep(Duration::from_millis(50));
            ended = server.ask("ended");
        }
        println!("{behind:?}: {ended}");
        call(true, &["-die"]);
        server.wait_for_end();
    }
}

fn door(doors: &Doors, is_secure: bool) -> Vec<&str> {
    if is_secure {
        vec!["-address", doors.secure.trim_start_matches("https://"), "-ca", &doors.root]
    } else {
        vec!["-address", doors.plain.trim_start_matches("http://")]
    }
}
