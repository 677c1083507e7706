//! A real Chromium without a window, used as a person uses one: pages are opened, read, clicked and typed into. It is
//! driven over a pipe in the DevTools protocol, JSON objects with a NUL behind each. What pages complain of is kept for
//! the report of a failure, with a picture.

use crate::processes::Process;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_testkit::chromium::{Chromium, FLAGS};

/// How long anything on a page may take; generous, because development servers compile first.
const BOUND: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A child of ours cannot be given descriptors by their numbers without unsafe code; a shell does it, and becomes the
/// program.
const WITH_PIPES: &str = "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2";
/// No other host of the network is asked for anything.
const NO_OTHERS: &str = "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1";
/// Kept of what pages complain of.
const COMPLAINTS_MAX: usize = 30;

/// Finds the first visible element for a selector that has that text in it.
const FIND: &str = "(css, text) => [...document.querySelectorAll(css)].find(one => one.getClientRects().length && \
                    (one.innerText ?? one.textContent ?? '').includes(text))";

/// A browser with one page.
pub struct Browser {
    process: Process,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    complaints: Vec<String>,
    /// What the page wants to have a file chosen for.
    chooser: Option<Value>,
    /// Where a picture of a failure goes.
    picture: PathBuf,
}

/// With Control, Shift or neither held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Nothing,
    Control,
    Shift,
}

impl Browser {
    /// Starts one whose profile, log and pictures are in the folder; with a port, the names of the manual lead there.
    pub fn start(folder: &Path, names_at: Option<u16>) -> Result<Browser, String> {
        let program = Chromium::find().ok_or("there is no Chromium on this machine (Debian: apt-get install chromium)")?;
        let log = folder.join("chromium.log");
        let errors = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let home = folder.join("chromium");
        fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let mut command = Command::new("sh");
        command
            .args(["-c", WITH_PIPES, "sh"])
            .arg(program)
            .args(FLAGS)
            .args(["--remote-debugging-pipe", "--window-size=1400,1000"]);
        if let Some(port) = names_at {
            // The last of two counts.
            command.arg(format!("--host-resolver-rules=MAP *.example.com 127.0.0.1:{port}, {NO_OTHERS}"));
        }
        command.arg(format!("--user-data-dir={}", home.join("profile").display())).arg("about:blank");
        for name in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(name, &home);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut process = Process::spawn("chromium", &mut command, &log)?;
        let (commands, answers) = (process.child().stdin.take(), process.child().stdout.take());
        let (commands, answers) = commands.zip(answers).ok_or("no pipes")?;
        let (tell, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                if serde_json::from_slice(&message).is_ok_and(|message: Value| tell.send(message).is_err()) {
                    return;
                }
            }
        });
        let picture = folder.join("page.png");
        let (last_id, session, complaints, chooser) = (0, None, Vec::new(), None);
        let mut browser = Browser { process, commands, messages, last_id, session, complaints, chooser, picture };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<(), String> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached = self.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }))?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "DOM"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        self.call("Page.setInterceptFileChooserDialog", json!({ "enabled": true })).map(drop)
    }

    /// Opens an address and waits until its document is complete.
    pub fn open(&mut self, url: &str) -> Result<(), String> {
        let opened = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(error) = opened["errorText"].as_str() {
            return Err(self.failed(&format!("{url}: {error}")));
        }
        self.wait("document.readyState == 'complete'", &format!("{url} is loaded"))
    }

    /// The value of an expression on the page; a promise is awaited.
    pub fn value(&mut self, expression: &str) -> Result<Value, String> {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let outcome = self.call("Runtime.evaluate", parameters)?;
        match outcome.get("exceptionDetails") {
            Some(thrown) => Err(format!("{expression}: {}", thrown["exception"]["description"].as_str().unwrap_or("it throws"))),
            None => Ok(outcome["result"]["value"].clone()),
        }
    }

    /// Polls until the expression is true; `what` is what that means.
    pub fn wait(&mut self, expression: &str, what: &str) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            // On its way to another document a page has no values.
            let outcome = self.value(&format!("Boolean({expression})"));
            if outcome.as_ref().is_ok_and(|value| *value == true) {
                return Ok(());
            }
            if begin.elapsed() > BOUND {
                let last = outcome.err().unwrap_or_default();
                return Err(self.failed(&format!("after {BOUND:?} not so: {what} {last}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Until an element is to be seen that has the text.
    pub fn see(&mut self, css: &str, text: &str) -> Result<(), String> {
        self.wait(&found(css, text), &format!("`{css}` with `{text}` is to be seen"))
    }

    /// Until none is to be seen any more.
    pub fn see_no(&mut self, css: &str, text: &str) -> Result<(), String> {
        self.wait(&format!("!{}", found(css, text)), &format!("`{css}` with `{text}` is gone"))
    }

    /// Whether one is to be seen now.
    pub fn sees(&mut self, css: &str, text: &str) -> bool {
        self.value(&format!("Boolean({})", found(css, text))).is_ok_and(|value| value == true)
    }

    /// With the mouse, on the middle of the element.
    pub fn click(&mut self, css: &str, text: &str) -> Result<(), String> {
        self.see(css, text)?;
        let place = format!(
            "(() => {{ const one = {}; one.scrollIntoView({{ block: 'center' }}); const box = one.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            found(css, text)
        );
        let place = self.value(&place)?;
        for (kind, count) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)] {
            let button = if count == 0 { "none" } else { "left" };
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": button, "clickCount": count });
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Takes the place of what stands in a field.
    pub fn fill(&mut self, css: &str, text: &str) -> Result<(), String> {
        self.see(css, "")?;
        self.value(&format!("(() => {{ const one = {}; one.focus(); one.select?.(); }})()", found(css, "")))?;
        self.insert(text)
    }

    /// At the cursor, all at once, as from a clipboard.
    pub fn insert(&mut self, text: &str) -> Result<(), String> {
        self.call("Input.insertText", json!({ "text": text })).map(drop)
    }

    /// Key by key, as terminals want it.
    pub fn type_keys(&mut self, text: &str) -> Result<(), String> {
        for letter in text.chars() {
            if letter == '\n' {
                self.press("Enter", Held::Nothing)?;
            } else {
                self.call(
                    "Input.dispatchKeyEvent",
                    json!({ "type": "keyDown", "text": letter.to_string(), "key": letter.to_string() }),
                )?;
                self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": letter.to_string() }))?;
            }
        }
        Ok(())
    }

    /// `Enter`, or a letter, with another key held.
    pub fn press(&mut self, key: &str, held: Held) -> Result<(), String> {
        let modifiers = match held {
            Held::Nothing => 0,
            Held::Control => 2,
            Held::Shift => 8,
        };
        let (code, number) = match key {
            "Enter" => ("Enter".to_owned(), 13),
            letter => (format!("Key{}", letter.to_uppercase()), u32::from(letter.to_uppercase().bytes().next().unwrap_or(0))),
        };
        let mut event = json!({ "key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers });
        event["type"] = "rawKeyDown".into();
        if key == "Enter" {
            event["type"] = "keyDown".into();
            event["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", event.clone())?;
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event).map(drop)
    }

    /// Clicks what asks for a file, and chooses this one.
    pub fn choose_file(&mut self, css: &str, text: &str, file: &Path) -> Result<(), String> {
        self.chooser = None;
        self.click(css, text)?;
        let begin = Instant::now();
        while self.chooser.is_none() {
            if begin.elapsed() > BOUND {
                return Err(self.failed(&format!("`{css}` asks for no file")));
            }
            // Messages come in while something is asked.
            self.value("1")?;
            thread::sleep(POLL_INTERVAL);
        }
        let node = self.chooser.take().unwrap_or_default();
        self.call("DOM.setFileInputFiles", json!({ "files": [file.display().to_string()], "backendNodeId": node })).map(drop)
    }

    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        let id = self.send(method, parameters)?;
        let until = Instant::now() + BOUND;
        loop {
            let message =
                self.messages.recv_timeout(until.saturating_duration_since(Instant::now())).map_err(|error| match error {
                    RecvTimeoutError::Timeout => format!("the browser does not answer `{method}`"),
                    RecvTimeoutError::Disconnected => format!("the browser has ended\n{}", self.process.output()),
                })?;
            if message["id"] != id {
                self.note(&message)?;
                continue;
            }
            return match message.get("error") {
                Some(error) => Err(format!("{method}: {}", error["message"].as_str().unwrap_or_default())),
                None => Ok(message["result"].clone()),
            };
        }
    }

    fn send(&mut self, method: &str, parameters: Value) -> Result<u64, String> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).map_err(|error| format!("the browser is gone: {error}\n{}", self.process.output()))?;
        Ok(self.last_id)
    }

    /// What happens on the page meanwhile.
    fn note(&mut self, message: &Value) -> Result<(), String> {
        let event = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            // Whether a page with changes may be left: yes.
            "Page.javascriptDialogOpening" => {
                self.send("Page.handleJavaScriptDialog", json!({ "accept": true }))?;
            }
            "Page.fileChooserOpened" => self.chooser = Some(event["backendNodeId"].clone()),
            "Runtime.exceptionThrown" => {
                let thrown = &event["exceptionDetails"];
                self.complain(thrown["exception"]["description"].as_str().unwrap_or("something is thrown"));
            }
            "Runtime.consoleAPICalled" if event["type"] == "error" => self.complain(&event["args"].to_string()),
            "Network.responseReceived" if event["response"]["status"].as_u64().is_some_and(|status| status >= 400) => {
                self.complain(&format!("{} {}", event["response"]["status"], event["response"]["url"]));
            }
            "Network.loadingFailed" if event["canceled"] != true => self.complain(&event["errorText"].to_string()),
            _ => {}
        }
        Ok(())
    }

    fn complain(&mut self, text: &str) {
        if self.complaints.len() == COMPLAINTS_MAX {
            self.complaints.remove(0);
        }
        self.complaints.push(text.chars().take(400).collect());
    }

    /// A failure with what is to be seen at the time.
    pub fn failed(&mut self, what: &str) -> String {
        let shown = self.value("location.href + '\\n' + document.body?.innerText.slice(0, 1500)").unwrap_or_default();
        let shot = self.call("Page.captureScreenshot", json!({})).ok();
        let picture = shot.and_then(|shot| BASE64_STANDARD.decode(shot["data"].as_str()?).ok());
        let written = picture.is_some_and(|picture| fs::write(&self.picture, picture).is_ok());
        let place = if written { format!("a picture is in {}\n", self.picture.display()) } else { String::new() };
        let complaints = self.complaints.join("\n    ");
        format!("{what}\n{place}the page shows {}\nand complained of\n    {complaints}", shown.as_str().unwrap_or_default())
    }
}

/// The element, as an expression.
fn found(css: &str, text: &str) -> String {
    format!("({FIND})({}, {})", json!(css), json!(text))
}
