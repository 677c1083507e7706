//! What becomes of files when the configuration is changed through the API: written, left alone because somebody else
//! wrote them, not writable, taken back. How the objects look is in `configuration`.

use crate::admin::asked::{Asked, PROGRAM, TYPED};
use crate::admin::configuration::{TEAM, TOKEN, own_steps, start};
use crate::admin::plain::{Reply, over_tcp};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use tidegate_testkit::case::Places;
use tidegate_testkit::proxy::replace_file;
use tidegate_testkit::{Metrics, Program, Surroundings, get};

const DRIFTED: &str = "tidegate_configuration_drifted";
const TEAM_SERVER: &str = "/v1/configuration/pools/team/servers/127.0.0.1:9";

impl Asked {
    fn file(&self) -> PathBuf {
        self.proxy.places.config_file()
    }

    fn edit_by_hand(&self, from: &str, to: &str) -> String {
        let text = self.text().replace(from, to);
        replace_file(&self.file(), &text).expect("written");
        text
    }

    fn written(&self, reply: &Reply) -> (Value, usize) {
        assert_eq!(reply.status, 200, "{}\n{}", reply.text, self.proxy.program.output());
        (reply.json()["written"].clone(), reply.json()["unwritten"].as_array().map_or(0, Vec::len))
    }

    /// Whether the process says in both ways that a restart would bring something else.
    fn is_drifted(&self) -> bool {
        let drift = self.get("/v1/status").json()["drift"].clone();
        let is_drifted = drift != json!([]);
        self.proxy.wait_for_metric(DRIFTED, f64::from(u8::from(is_drifted))).unwrap_or_else(|error| panic!("{drift}: {error}"));
        is_drifted
    }

    fn wait_for_generation(&mut self, number: u64) -> Value {
        let (admin, token) = (self.proxy.admin.clone(), format!("Authorization: Bearer {}", self.token));
        let status = || over_tcp(&admin, "GET", "/v1/status", &[&token], "").json();
        let reached = || status()["generation"].as_u64() >= Some(number);
        self.proxy.program.wait_until(&format!("at generation {number}"), reached).expect("it comes there");
        status()
    }

    fn changes(&self, result: &str) -> f64 {
        self.proxy.metrics().expect("metrics").sum(&format!("tidegate_configuration_changes_total{{result=\"{result}\"}}"))
    }
}

#[test]
fn what_was_included_is_written_where_it_stands() {
    let asked = start(&[]);
    let (main, team) = (asked.text(), asked.proxy.places.folder().join("teams/a.kdl"));
    let reply = asked.change("PATCH", TEAM_SERVER, &json!({ "weight": 3 }));
    assert_eq!(asked.written(&reply), (json!([team]), 0));
    assert_eq!(fs::read_to_string(&team).expect("readable"), TEAM.replace("weight=2", "weight=3"));
    assert_eq!((asked.text(), asked.is_drifted()), (main, false));
    assert_eq!(fs::read_dir(team.parent().expect("a folder")).expect("readable").count(), 1, "nothing is left beside it");
}

#[test]
fn what_somebody_wrote_meanwhile_is_not_lost() {
    let asked = start(&[]);
    let edited = asked.edit_by_hand("drain \"5s\" // at most", "drain \"9s\" // by hand");
    let refused = asked.set_own("second");
    asked.refuses(&refused, 409, "file-changed");
    let file = asked.file().display().to_string();
    assert!(
        refused.json()["help"].as_str().is_some_and(|help| help.contains(&format!("tidegate apply {file}"))),
        "{}",
        refused.text
    );
    assert_eq!((asked.text(), asked.own(), asked.is_drifted()), (edited.clone(), "first".to_owned(), true));
    // Another file has nothing to do with it.
    assert_eq!(asked.written(&asked.change("PATCH", TEAM_SERVER, &json!({ "weight": 3 }))).1, 0);
    assert_eq!(asked.post("/v1/apply", &json!({})).status, 200);
    assert_eq!(asked.written(&asked.set_own("second")), (json!([file]), 0));
    assert_eq!((asked.text(), asked.own()), (edited.replace("\"first\"", "\"second\""), "second".to_owned()));
    assert!(!asked.is_drifted());
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_up_nobody() {
    let asked = start(&[]);
    let (folder, part) = (asked.proxy.places.folder().to_owned(), asked.proxy.places.folder().join("teams/a.kdl"));
    let pipe = folder.join("pipe");
    let make = |pipe: &Path| assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo runs").success());
    make(&pipe);
    for address in ["/v1/plan", "/v1/apply"] {
        let refused = asked.post(address, &json!({ "file": pipe }));
        asked.refuses(&refused, 422, "configuration");
        assert!(refused.text.contains("it is not a regular file"), "{}", refused.text);
    }
    fs::remove_file(&part).expect("it is there");
    make(&part);
    let drift = asked.get("/v1/status").json()["drift"].to_string();
    assert!(drift.contains("it is not a regular file"), "{drift}");
    let reply = asked.change("PATCH", TEAM_SERVER, &json!({ "weight": 3 }));
    assert_eq!(asked.written(&reply), (json!([]), 1));
    assert_eq!(reply.json()["unwritten"][0]["reason"], "it is not a regular file");
    let including = json!({ "text": "include \"teams/a.kdl\"", "name": "<test>", "directory": folder });
    asked.refuses(&asked.post("/v1/plan", &including), 422, "configuration");
    // A command reads what is piped into it.
    let text = "site \"http://127.0.0.1:1\" { respond 200; }";
    let writer = std::thread::spawn(move || fs::write(pipe, text));
    let checked = Command::new(PROGRAM).arg("check").arg(folder.join("pipe")).output().expect("the command runs");
    assert!(!String::from_utf8_lossy(&checked.stderr).contains("cannot read"), "{checked:?}");
    writer.join().expect("no panic").expect("it was read");
}

/// Makes a file that even root cannot write, until it is dropped.
struct Immutable(PathBuf);

impl Immutable {
    /// `None` where the file system or the rights of this process do not allow it.
    fn new(path: &Path) -> Option<Immutable> {
        let outcome = Command::new("chattr").arg("+i").arg(path).output();
        if outcome.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Immutable(path.to_owned()));
        }
        println!("skipped: {} cannot be made immutable here: {outcome:?}", path.display());
        None
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg("-i").arg(&self.0).output();
    }
}

#[test]
fn what_cannot_be_written_runs_and_is_said() {
    let check = |prevent: &dyn Fn(&Asked) -> Option<Immutable>| {
        let asked = start(&[]);
        let before = asked.text();
        let Some(guard) = prevent(&asked) else { return };
        for text in ["second", "third"] {
            let reply = asked.set_own(text);
            assert_eq!(asked.written(&reply), (json!([]), 1));
            let unwritten = &reply.json()["unwritten"][0];
            assert_eq!(unwritten["name"], json!(asked.file()));
            assert!(unwritten["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{unwritten}");
            assert_eq!((asked.text(), asked.own(), asked.is_drifted()), (before.clone(), text.to_owned(), true));
        }
        assert!(asked.proxy.program.stderr().contains("a restart would lose it"));
        drop(guard);
        // Writable again: the next change brings the others with it.
        assert_eq!(asked.written(&asked.set_own("fourth")).1, 0);
        assert_eq!((asked.text(), asked.is_drifted()), (before.replace("\"first\"", "\"fourth\""), false));
    };
    check(&|asked| Immutable::new(&asked.file()));
    check(&|asked| Immutable::new(asked.proxy.places.folder()));
}

#[test]
fn a_path_that_is_no_file_any_more_is_left_alone() {
    let asked = start(&[]);
    fs::remove_file(asked.file()).expect("removed");
    assert_eq!(asked.written(&asked.set_own("second")), (json!([]), 1));
    fs::create_dir(asked.file()).expect("made");
    assert_eq!(asked.written(&asked.set_own("third")), (json!([]), 1));
    assert_eq!((asked.own(), asked.is_drifted(), asked.file().is_dir()), ("third".to_owned(), true, true));
    let beside = fs::read_dir(asked.proxy.places.folder()).expect("readable").filter_map(Result::ok);
    assert!(beside.into_iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".new")), "nothing is left");
}

#[test]
fn a_configuration_that_was_piped_in_is_changed_and_not_written() {
    let mut places = Places::new().expect("a folder");
    let team = places.folder().join("team.kdl");
    fs::write(&team, TEAM).expect("written");
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\" token=\"{TOKEN}\"\nthreads 1\naccess-log \"off\"\ninclude \"team.kdl\"\nsite \"http://:{{port}}\" {{ respond 200 body=\"first\"; }}\n"
    );
    let text = places.fill(&config).expect("filled in");
    let (admin, main) = (places.admin_address().expect("a port"), places.main_address().expect("a port"));
    places.release_proxy_ports();
    let surroundings = Surroundings { stdin: Some(text.as_bytes()), ..Surroundings::default() };
    let arguments = ["run", "-c", "-"].map(str::to_owned);
    let mut program = Program::start_in(Path::new(PROGRAM), &arguments, places.folder(), &surroundings).expect("it starts");
    program.wait_until("ready", || matches!(get(&admin, "/readyz"), Ok((200, _)))).expect("it starts");
    let send = |method: &str, path: &str, body: &Value| {
        over_tcp(&admin, method, path, &[TYPED, &format!("Authorization: Bearer {TOKEN}")], &body.to_string())
    };
    let drift = || send("GET", "/v1/status", &json!({})).json()["drift"].as_array().map_or(0, Vec::len);
    // The included file is a file like any other.
    let reply = send("PATCH", TEAM_SERVER, &json!({ "weight": 3 }));
    assert_eq!((reply.status, &reply.json()["written"]), (200, &json!([team])), "{}", reply.text);
    assert_eq!((fs::read_to_string(&team).expect("readable"), drift()), (TEAM.replace("weight=2", "weight=3"), 0));
    let site = format!("/v1/configuration/sites/http:%2F%2F:{}", main.rsplit_once(':').expect("a port").1);
    let reply = send("PATCH", &site, &own_steps("second"));
    let unwritten = json!([{ "name": "<stdin>", "reason": "it was not read from a file" }]);
    assert_eq!(
        (reply.status, &reply.json()["unwritten"], &reply.json()["written"]),
        (200, &unwritten, &json!([])),
        "{}",
        reply.text
    );
    assert_eq!((get(&main, "/").expect("answered").1, drift()), ("second".to_owned(), 1));
    assert_eq!(Metrics::fetch(&admin).expect("metrics").sum(DRIFTED).to_string(), "1");
    // Somebody edits the included file: what runs is not what a restart would read.
    replace_file(&team, TEAM).expect("written");
    assert_eq!(drift(), 2);
}

#[test]
fn of_two_edits_at_once_one_is_told() {
    let asked = start(&[]);
    for turn in 0..20 {
        let tag = asked.get("/v1/configuration").header("etag").expect("tagged").to_owned();
        let together = Barrier::new(2);
        let write = |text: &str| {
            let path = format!("{}/routes/0", asked.site());
            let body = own_steps(text).to_string();
            together.wait();
            asked.send("PATCH", &path, &[TYPED, &format!("If-Match: {tag}")], &body).status
        };
        let texts = [format!("a{turn}"), format!("b{turn}")];
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let writers: Vec<_> = texts.iter().map(|text| scope.spawn(move || write(text))).collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
        });
        let winner = match statuses[..] {
            [200, 412] => &texts[0],
            [412, 200] => &texts[1],
            _ => panic!("{statuses:?}"),
        };
        assert_eq!(asked.own(), *winner);
        assert!(asked.text().contains(&format!("body=\"{winner}\" }} // ours")), "{}", asked.text());
    }
    assert!(!asked.is_drifted());
}

fn set_own_for_now(asked: &Asked, text: &str) -> Reply {
    asked.change("PATCH", &format!("{}/routes/0?confirm_within_seconds=2", asked.site()), &own_steps(text))
}

#[test]
fn a_change_that_nobody_confirms_goes_out_of_the_file_as_well() {
    let mut asked = start(&[]);
    let before = asked.text();
    let reply = set_own_for_now(&asked, "second");
    assert_eq!(asked.written(&reply), (json!([asked.file()]), 0));
    assert_eq!(reply.json()["applied"]["confirm_within_seconds"], 2);
    let status = asked.wait_for_generation(3);
    assert!(status["origin"].as_str().is_some_and(|origin| origin.contains("nobody confirmed")), "{status}");
    assert_eq!((asked.text(), asked.own(), asked.is_drifted()), (before, "first".to_owned(), false));
}

#[test]
fn a_change_that_waits_or_is_kept_is_in_the_file() {
    let asked = start(&[]);
    let before = asked.text();
    let path = format!("{}/routes/0?confirm_within_seconds=600", asked.site());
    assert_eq!(asked.change("PATCH", &path, &own_steps("second")).status, 200);
    let after = before.replace("\"first\"", "\"second\"");
    asked.refuses(&asked.set_own("third"), 409, "awaits-confirmation");
    assert_eq!((asked.text(), asked.own()), (after.clone(), "second".to_owned()));
    assert_eq!(asked.post("/v1/confirm", &json!({})).status, 200);
    assert_eq!((asked.text(), asked.is_drifted()), (after.clone(), false));
    // Back and forth by hand: the file goes with what runs.
    assert_eq!(asked.post("/v1/generations/1/rollback", &json!({})).status, 200);
    assert_eq!((asked.text(), asked.is_drifted()), (before, false));
    assert_eq!(asked.post("/v1/generations/2/rollback", &json!({})).status, 200);
    assert_eq!((asked.text(), asked.is_drifted()), (after, false));
}

#[test]
fn what_somebody_wrote_while_a_change_waited_stays_and_is_said() {
    let mut asked = start(&[]);
    assert_eq!(set_own_for_now(&asked, "second").status, 200);
    let edited = asked.edit_by_hand("// at most", "// by hand");
    asked.wait_for_generation(3);
    assert_eq!((asked.text(), asked.own(), asked.is_drifted()), (edited, "first".to_owned(), true));
}

#[test]
fn a_file_that_was_applied_and_not_edited_is_not_touched_by_a_rollback() {
    let asked = start(&[]);
    let edited = asked.edit_by_hand("\"first\"", "\"second\"");
    assert_eq!(asked.post("/v1/apply", &json!({})).status, 200);
    assert_eq!(asked.post("/v1/generations/1/rollback", &json!({})).status, 200);
    assert_eq!((asked.text(), asked.own(), asked.is_drifted()), (edited, "first".to_owned(), true));
}

#[test]
fn what_the_process_wrote_itself_is_no_news_to_its_watch() {
    let mut asked = start(&["--watch"]);
    let before = asked.text();
    assert_eq!(set_own_for_now(&asked, "second").status, 200);
    let status = asked.wait_for_generation(3);
    assert_eq!(status["refused"], Value::Null);
    assert_eq!((asked.text(), asked.own()), (before, "first".to_owned()));
    assert_eq!(asked.written(&asked.set_own("third")).1, 0);
    asked.edit_by_hand("\"third\"", "\"fourth\"");
    let status = asked.wait_for_generation(5);
    assert_eq!((&status["generation"], &status["origin"]), (&json!(5), &json!("the file changed")));
    assert_eq!((asked.own(), asked.is_drifted()), ("fourth".to_owned(), false));
    assert_eq!((asked.changes("refused").to_string(), asked.changes("unchanged").to_string()), ("0".to_owned(), "0".to_owned()));
}
