//! Pools of server processes that misbehave, die and come back, whose clients stay with one server, that take no more
//! than they may, and that are found while the proxy runs. Rolling a whole pool is in `rollout.rs`; one behaviour at a
//! time, with scripted servers, in `tests/cases/pools`.

pub mod asked;
mod bounds;
mod discovery;
mod ejection;
mod leaving;
mod memory;
mod misconduct;
mod sticky;
mod unix_sockets;

use tidegate_testkit::get;
use tidegate_testkit::server::{Server, Settings, serve_if_asked};

#[test]
fn this_file_is_also_an_upstream_server() {
    serve_if_asked();
    let mut server = Server::start(Settings::new("alone")).expect("it starts");
    let beside = Server::start_beside(Settings::new("beside"), &server, [127, 0, 0, 2]).expect("it starts");
    assert_eq!(get(&beside.address().to_string(), "/").expect("an answer"), (200, "beside".to_owned()));
    server.kill();
    get(&server.address().to_string(), "/").expect_err("nobody listens");
    assert_eq!(get(&beside.address().to_string(), "/").expect("an answer"), (200, "beside".to_owned()));
}
