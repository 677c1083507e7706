//! The command line, as clap reads it; its help texts are the manual.

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

pub const DEFAULT_CONFIG: &str = "/etc/tidegate/tidegate.kdl";

#[derive(Parser)]
#[command(
    name = "tidegate",
    version,
    about = "A reverse proxy, load balancer and TLS terminator.",
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run with a configuration file until SIGTERM, then finish the requests in flight.
    Run {
        /// The configuration; `-` reads standard input.
        #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Run a proxy without a file: `tidegate proxy --from :8443 --to 127.0.0.1:9000`.
    Proxy {
        /// The address to answer on, as in `site`: `:8443`, `http://:8080`, `example.com`.
        #[arg(long, value_name = "ADDRESS", required = true)]
        from: Vec<String>,
        /// A server to forward to; may be given several times.
        #[arg(long, value_name = "SERVER", required = true)]
        to: Vec<String>,
        /// Where metrics and health are served: an address, `unix:PATH` or `off`. By default 127.0.0.1:9180, or nowhere when that is taken.
        #[arg(long, value_name = "ADDRESS")]
        admin: Option<String>,
    },
    /// A self-contained demonstration with an own CA and an embedded upstream; prints a `curl` line to try.
    Demo {
        /// The HTTPS port; the next free one is taken when it is in use.
        #[arg(long, default_value_t = 8443)]
        port: u16,
    },
    /// Check a configuration, its certificates and its ports. Exit code 1 on an error, 0 otherwise.
    Check {
        /// The configuration; `-` reads standard input.
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
        file: PathBuf,
        /// The same, as `run` has it.
        #[arg(long, short, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
    },
    /// Write a configuration in its canonical layout, comments kept.
    Fmt {
        /// The configuration; `-` reads standard input and writes standard output.
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
        file: PathBuf,
        /// Change nothing; exit code 1 when the layout is not canonical.
        #[arg(long)]
        check: bool,
    },
    /// Print the JSON Schema of the configuration.
    Schema,
    /// Print completions for a shell.
    Completions { shell: Shell },
    /// Print the version and what it was built with.
    Version,
}
