//! The proxy for tests written in Rust: a configuration with the placeholders of case files, started and ready, and
//! changed while it runs.

use crate::admin::{self, Metrics};
use crate::case::Places;
use crate::program::{Program, Surroundings};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long anything that the proxy does on its own may take; generous, because tests share the machine with compilers.
const WAIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Attempts to change the configuration, however they ended.
const CHANGES: &str = "tidegate_configuration_changes_total";

/// A running proxy. Dropping it ends the process and removes its folder.
pub struct Proxy {
    pub program: Program,
    /// `127.0.0.1:port` of the admin endpoint.
    pub admin: String,
    /// Where `{port}` is.
    pub address: SocketAddr,
    pub places: Places,
}

impl Proxy {
    /// Starts `binary` on a configuration, in which `{port}`, `{admin}`, `{cert:name}` and so on are filled in. It has
    /// to say `admin "127.0.0.1:{admin}"` itself.
    pub fn start(binary: &str, config: &str) -> Result<Proxy, String> {
        Proxy::start_in(Places::new()?, binary, config, &[], &Surroundings::default())
    }

    /// In a folder that may hold files already, with more arguments for `run`.
    pub fn start_in(
        mut places: Places,
        binary: &str,
        config: &str,
        more: &[&str],
        surroundings: &Surroundings<'_>,
    ) -> Result<Proxy, String> {
        let text = places.fill(config)?;
        let main = places.main_address()?;
        let file = places.config_file();
        std::fs::write(&file, &text).map_err(|error| error.to_string())?;
        places.release_proxy_ports();
        let file = file.display().to_string();
        let arguments: Vec<String> = ["run", "--config", &file].iter().chain(more).map(ToString::to_string).collect();
        let program = Program::start_in(Path::new(binary), &arguments, places.folder(), surroundings)?;
        let address = main.parse().map_err(|_| format!("{main} is no address"))?;
        let mut proxy = Proxy { program, admin: admin_of(&text)?, address, places };
        let admin = proxy.admin.clone();
        proxy.program.wait_until("ready", || matches!(admin::get(&admin, "/readyz"), Ok((200, _))))?;
        Ok(proxy)
    }

    /// Ends the process (SIGTERM) and starts another one on the same configuration, in the same folder.
    pub fn restart(&mut self, binary: &str) -> Result<(), String> {
        self.program.signal("TERM")?;
        self.program.wait_exit(WAIT)?;
        let arguments = ["run", "--config", &self.places.config_file().display().to_string()].map(str::to_owned);
        self.program = Program::start_in(Path::new(binary), &arguments, self.places.folder(), &Surroundings::default())?;
        let admin = self.admin.clone();
        self.program.wait_until("ready", || matches!(admin::get(&admin, "/readyz"), Ok((200, _))))
    }

    pub fn metrics(&self) -> Result<Metrics, String> {
        Metrics::fetch(&self.admin)
    }

    /// Polls a metric until it has the value.
    pub fn wait_for_metric(&self, selector: &str, value: f64) -> Result<(), String> {
        self.wait_for_metric_from(selector, value, value)
    }

    /// Polls a metric until its value is one of these, both ends included.
    pub fn wait_for_metric_from(&self, selector: &str, least: f64, most: f64) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let metrics = self.metrics()?;
            if (least..=most).contains(&metrics.sum(selector)) {
                return Ok(());
            }
            if begin.elapsed() > WAIT {
                return Err(format!("{selector} did not become {least} to {most}:\n{}", metrics.lines_of(selector)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Writes the configuration, at once as an editor does that saves by a rename.
    pub fn write(&mut self, config: &str) -> Result<String, String> {
        let text = self.places.fill(config)?;
        self.places.release_proxy_ports();
        let file = self.places.config_file();
        replace_file(&file, &text)?;
        Ok(text)
    }

    /// Writes the configuration, sends SIGHUP and waits for what comes of it. `Err` unless it was applied, or was the
    /// same as before.
    pub fn apply(&mut self, config: &str) -> Result<(), String> {
        let text = self.write(config)?;
        match self.reload(&admin_of(&text)?)?.as_str() {
            "refused" => Err(format!("the configuration was refused:\n{}", self.program.stderr())),
            _ => Ok(()),
        }
    }

    /// SIGHUP; says how the change ended, as `changes_total` calls it. `admin` is where the endpoint is afterwards.
    pub fn reload(&mut self, admin: &str) -> Result<String, String> {
        let before = self.metrics()?;
        self.program.signal("HUP")?;
        let begin = Instant::now();
        loop {
            // While the endpoint moves it may be at neither place.
            if let Ok(metrics) = Metrics::fetch(admin)
                && metrics.sum(CHANGES) > before.sum(CHANGES)
            {
                admin.clone_into(&mut self.admin);
                let of_result = |result: &&str| {
                    let series = format!("{CHANGES}{{result=\"{result}\"}}");
                    metrics.sum(&series) > before.sum(&series)
                };
                let results = ["applied", "unchanged", "refused", "rolled_back"];
                let result = results.iter().find(|result| of_result(result)).ok_or("a result of another name")?;
                return Ok((*result).to_owned());
            }
            if let Some(code) = self.program.poll_exit() {
                return Err(format!("the proxy ended with {code}\n{}", self.program.output()));
            }
            if begin.elapsed() > WAIT {
                return Err(format!("nothing came of SIGHUP within {WAIT:?}\n{}", self.program.output()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the program has logged this.
    pub fn wait_for_log(&mut self, text: &str) -> Result<(), String> {
        let begin = Instant::now();
        while !self.program.stderr().contains(text) {
            if begin.elapsed() > WAIT {
                return Err(format!("the log does not say `{text}`:\n{}", self.program.output()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// Where a configuration has its admin endpoint.
pub fn admin_of(config: &str) -> Result<String, String> {
    let line = config.lines().find_map(|line| line.trim().strip_prefix("admin \""));
    line.and_then(|rest| rest.split('"').next()).map(str::to_owned).ok_or_else(|| "the configuration names no `admin`".to_owned())
}

/// At no moment is there half a file.
pub fn replace_file(file: &Path, text: &str) -> Result<(), String> {
    let new = file.with_extension("new");
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file)).map_err(|error| format!("{}: {error}", file.display()))
}
