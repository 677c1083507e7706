//! Values that are refused are secrets as well: in every place of the configurations stands something that came from
//! elsewhere and cannot be used there, and no part of it is in what the program says. The readers of all directives
//! are gone through one by one in `kept_back` of the configuration's crate; here it is every way to the outside.

use super::{DNS, PLANNED, RUNNING, over_tcp, program};
use std::path::Path;
use std::process::{Command, Stdio};
use tidegate_testkit::case::Places;
use tidegate_testkit::{Proxy, Surroundings};

/// No word of the program's has six of these letters in a row.
const MARKER: &str = "QzvKwxJrmy";
const FRAGMENT_CHARS: usize = 6;
const CALM: &str = "admin \"127.0.0.1:{admin}\" token=\"0123456789abcdef\"\nsite \"http://:{port}\" { respond 200; }\n";

/// Every quoted text but each `spared`th is filled in, alternately by a variable and a file.
fn wrong(text: &str, spared: usize, folder: &Path) -> String {
    let mut count = 0;
    let line = |line: &str| {
        // The address of the endpoint is asked for what it says.
        if line.starts_with("//") || line.starts_with("admin ") {
            return String::new();
        }
        let filled = |(position, part): (usize, &str)| {
            if position % 2 == 0 {
                return part.to_owned();
            }
            count += 1;
            match count % 2 {
                _ if count % spared == 0 => part.replace(['«', '»'], ""),
                0 => "{env.VALUE}".to_owned(),
                _ => format!("{{file.{}}}", folder.join("value").display()),
            }
        };
        line.split('"').enumerate().map(filled).collect::<Vec<_>>().join("\"")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn given_away(output: &str) -> Option<String> {
    let output = output.to_lowercase().replace("%71", "q").replace("%51", "q");
    let marker = MARKER.to_lowercase();
    let base64 = "uxp2s3d4snjt".to_owned();
    let fragments = (0..=marker.len() - FRAGMENT_CHARS).map(|start| marker[start..start + FRAGMENT_CHARS].to_owned());
    let fragment = fragments.chain([base64]).find(|fragment| output.contains(fragment))?;
    output.lines().find(|line| line.contains(&fragment)).map(str::to_owned)
}

struct Refused {
    proxy: Proxy,
    value: String,
    searched: usize,
    faults: Vec<String>,
}

impl Refused {
    fn look(&mut self, place: &str, output: &str) {
        self.searched += 1;
        if let Some(line) = given_away(output) {
            self.faults.push(format!("{place} with {:?}: {line}", self.value));
        }
    }

    fn command(&mut self, arguments: &[&str]) {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.proxy.places.folder()).stdin(Stdio::null());
        command.env("VALUE", &self.value).env("TIDEGATE_ADMIN_TOKEN", "0123456789abcdef");
        command.env("STATE_DIRECTORY", self.proxy.places.folder().join("other-state"));
        let output = command.output().expect("the program can be run");
        let output = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.trim().is_empty(), "{arguments:?}");
        self.look(&arguments.join(" "), &output);
    }

    fn everywhere(&mut self, text: &str) {
        let folder = self.proxy.places.folder().to_owned();
        let file = folder.join("wrong.kdl");
        std::fs::write(&file, text).expect("writable");
        let (file, admin) = (file.display().to_string(), self.proxy.admin.clone());
        self.command(&["check", &file]);
        self.command(&["explain", "--config", &file, "GET", "http://a.test/"]);
        self.command(&["run", "--config", &file]);
        self.command(&["plan", &file, "--admin", &admin]);
        self.command(&["apply", &file, "--admin", &admin]);
        let body = serde_json::json!({ "text": text, "name": folder.join("sent.kdl") }).to_string();
        let headers = ["Authorization: Bearer 0123456789abcdef", "Content-Type: application/json"];
        for path in ["/v1/plan", "/v1/apply"] {
            let reply = over_tcp(&admin, "POST", path, &headers, &body);
            assert!(reply.text.contains("error"), "{path}: {}", reply.text);
            self.look(path, &reply.text);
        }
        let text = format!("{}\n{text}", self.calm());
        std::fs::write(self.proxy.places.config_file(), &text).expect("writable");
        assert_eq!(self.proxy.reload(&admin).expect("it says how the change ended"), "refused", "{text}");
        for path in ["/v1/status", "/v1/history", "/v1/changes", "/metrics"] {
            let reply = over_tcp(&admin, "GET", path, &headers, "");
            self.look(path, &reply.text);
        }
    }

    fn calm(&mut self) -> String {
        self.proxy.places.fill(CALM).expect("it was filled in before")
    }
}

#[test]
fn nothing_of_what_is_refused_is_shown() {
    let (mut searched, mut faults) = (0, Vec::new());
    let values = [
        MARKER.to_owned(),
        format!("{MARKER} {MARKER}"),
        format!("~({MARKER}=[*{MARKER}*"),
        format!("https://{MARKER}.test:443"),
        format!("/{MARKER}/../{MARKER}?a=b"),
        format!("{MARKER}.test:99999"),
    ];
    for (number, value) in values.iter().enumerate() {
        let places = Places::new().expect("a folder");
        std::fs::write(places.folder().join("value"), value).expect("writable");
        let environment = [("VALUE", value.clone())].into();
        let surroundings = Surroundings { environment, ..Surroundings::default() };
        let proxy = Proxy::start_in(places, &program(), CALM, &[], &surroundings).expect("the proxy starts");
        let mut refused = Refused { proxy, value: value.clone(), searched: 0, faults: Vec::new() };
        let planned = PLANNED.replace("dns \"DNS\"", DNS[number % DNS.len()]);
        for (text, spared) in [(RUNNING, usize::MAX), (RUNNING, 2), (RUNNING, 3), (&planned, usize::MAX), (&planned, 3)] {
            let text = wrong(text, spared, refused.proxy.places.folder());
            let text = refused.proxy.places.fill(&text).expect("filled in");
            refused.everywhere(&text);
        }
        let output = refused.proxy.program.output();
        assert!(output.contains("was not applied"), "{output}");
        refused.look("what the process wrote", &output);
        searched += refused.searched;
        faults.extend(refused.faults);
    }
    assert!(searched > 300, "{searched}");
    assert!(faults.is_empty(), "{} of {searched}:\n{}", faults.len(), faults.join("\n"));
}
