//! A client stays with its server over everything that is not that server's end.

use crate::pools::asked::{Asked, PROGRAM, config};
use tidegate_testkit::server::{Server, Settings};

const STICKY: &str = "sticky cookie=\"tg_route\"";

struct Session {
    cookie: String,
    server: String,
}

/// A client without a cookie gets one.
fn begin(asked: &Asked) -> Session {
    let reply = asked.get("/");
    assert_eq!(reply.status, 200);
    let given = reply.head.value("set-cookie").expect("a cookie");
    let given = String::from_utf8(given).expect("text");
    let cookie = given.split(';').next().expect("one at least").to_owned();
    assert!(cookie.starts_with("tg_route="), "{given}");
    Session { cookie, server: reply.text() }
}

impl Session {
    fn stays(&self, asked: &Asked, when: &str) {
        for _ in 0..6 {
            let reply = asked.send("GET", "/", &format!("Cookie: {}\r\n", self.cookie), "");
            assert_eq!((reply.status, reply.text()), (200, self.server.clone()), "{when}");
            assert_eq!(reply.head.value("set-cookie"), None, "{when}");
        }
    }
}

#[test]
fn a_session_survives_reload_restart_and_more_servers() {
    let mut servers: Vec<Server> =
        ["a", "b", "c", "d", "e"].map(|name| Server::start(Settings::new(name)).expect("it starts")).into();
    let all: Vec<&Server> = servers.iter().collect();
    let three = config(&all[..3], STICKY, "");
    let five = config(&all, STICKY, "");
    let mut asked = Asked::start(&three);
    let sessions: Vec<Session> = (0..6).map(|_| begin(&asked)).collect();
    let all_stay = |asked: &Asked, when: &str| sessions.iter().for_each(|session| session.stays(asked, when));
    all_stay(&asked, "at first");
    asked.proxy.apply(&three.replace("threads 2", "threads 1")).expect("it is applied");
    all_stay(&asked, "after a change of something else");
    asked.proxy.apply(&five).expect("it is applied");
    all_stay(&asked, "with more servers");
    asked.proxy.restart(PROGRAM).expect("it starts again");
    all_stay(&asked, "after a restart");
    asked.proxy.apply(&three).expect("it is applied");
    all_stay(&asked, "with fewer servers");
    let session = &sessions[0];
    let position = servers.iter().position(|server| server.settings.name == session.server).expect("one of them");
    servers[position].kill();
    let reply = asked.send("GET", "/", &format!("Cookie: {}\r\n", session.cookie), "");
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_ne!(reply.text(), session.server);
    assert!(reply.head.value("set-cookie").is_some(), "it belongs to another one now:\n{}", reply.head.text());
}
