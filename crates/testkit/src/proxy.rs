//! The proxy for tests written in Rust: a configuration with the placeholders of case files, started and ready.

use crate::admin::Metrics;
use crate::case::Places;
use crate::program::Program;
use std::net::SocketAddr;
use std::path::Path;

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
    /// Starts `binary` on a configuration, in which `{port}`, `{admin}`, `{cert:name}` and so on are filled in. It has to say
    /// `admin "127.0.0.1:{admin}"` itself.
    pub fn start(binary: &str, config: &str) -> Result<Proxy, String> {
        let mut places = Places::new()?;
        let text = places.fill(config)?;
        let admin = places.admin_address()?;
        let main = places.main_address()?;
        let file = places.config_file();
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        places.release_proxy_ports();
        let program = Program::start_proxy(Path::new(binary), &file, &admin)?;
        let address = main.parse().map_err(|_| format!("{main} is no address"))?;
        Ok(Proxy { program, admin, address, places })
    }

    pub fn metrics(&self) -> Result<Metrics, String> {
        Metrics::fetch(&self.admin)
    }

    /// Polls a metric until it has the value.
    pub fn wait_for_metric(&self, selector: &str, value: f64) -> Result<(), String> {
        let begin = std::time::Instant::now();
        loop {
            let metrics = self.metrics()?;
            if (metrics.sum(selector) - value).abs() < f64::EPSILON {
                return Ok(());
            }
            if begin.elapsed() > std::time::Duration::from_secs(10) {
                return Err(format!("{selector} did not become {value}:\n{}", metrics.lines_of(selector)));
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
