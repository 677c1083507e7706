//! The command line, as clap reads it; its help texts are the manual.

pub mod cert;
pub mod compare;
pub mod kubernetes;
pub mod map;

use crate::output::ColourChoice;
use cert::CertCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use compare::CompareWanted;
use kubernetes::KubernetesCommand;
use map::MapCommand;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const DEFAULT_CONFIG: &str = "/etc/tidegate/tidegate.kdl";

#[derive(Parser)]
#[command(name = "tidegate", version, about = "A reverse proxy, load balancer and TLS terminator.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// For programs: reports are JSON on standard output, faults on standard error, the log of a server JSON lines.
    #[arg(long, global = true)]
    pub json: bool,
    /// Colour on standard error: `auto` is on a terminal, unless NO_COLOR is set or TERM is `dumb`.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto)]
    pub color: ColourChoice,
}

/// A configuration by its file.
#[derive(Args)]
pub struct ConfigFile {
    /// The configuration; `-` reads standard input.
    #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
    file: PathBuf,
    /// The configuration, by name.
    #[arg(long, short, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    pub fn path(&self) -> &Path {
        self.config.as_deref().unwrap_or(&self.file)
    }
}

/// With whom ports are shared.
#[derive(Args, Clone, Copy)]
pub struct Sharing {
    /// Listen beside processes of this user with another configuration; the system gives each a part of the
    /// connections. Processes of the same configuration share their ports without it.
    #[arg(long)]
    pub share_port: bool,
}

/// A proxy whose configuration is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportPeer {
    /// nginx and Angie: a file, a folder as /etc/nginx, a file of sites-enabled, or what `nginx -T` prints.
    Nginx,
    /// A file, or a folder of `.cfg` files that are read one behind another.
    Haproxy,
    /// A Caddyfile, or the JSON that Caddy makes of it.
    Caddy,
    /// Static and dynamic files, a folder of them, or a compose file with labels.
    Traefik,
    /// A bootstrap, or a dump of a running one.
    Envoy,
    /// A compose file whose containers have labels for Traefik.
    Compose,
}

impl ImportPeer {
    /// As it stands on the command line.
    pub fn word(self) -> &'static str {
        match self {
            ImportPeer::Nginx => "nginx",
            ImportPeer::Haproxy => "haproxy",
            ImportPeer::Caddy => "caddy",
            ImportPeer::Traefik => "traefik",
            ImportPeer::Envoy => "envoy",
            ImportPeer::Compose => "compose",
        }
    }
}

/// How the report of an import is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportForm {
    Text,
    Json,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run with a configuration file until SIGTERM, then finish the requests in flight.
    Run {
        #[command(flatten)]
        config: ConfigFile,
        /// Apply the configuration whenever its file, or one that it includes, changes. SIGHUP applies it too.
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        sharing: Sharing,
    },
    /// Run a proxy without a file: `tidegate proxy --from :8443 --to 127.0.0.1:9000`.
    Proxy {
        /// The address to answer on, as in `site`: `:8443`, `http://:8080`, `example.com`.
        #[arg(long, value_name = "ADDRESS", required = true)]
        from: Vec<String>,
        /// A server to forward to; may be given several times.
        #[arg(long, value_name = "SERVER", required = true)]
        to: Vec<String>,
        /// Where metrics and health are served: an address, `unix:PATH` or `off`. By default 127.0.0.1:9180, or nowhere
        /// when that is taken.
        #[arg(long, value_name = "ADDRESS")]
        admin: Option<String>,
        #[command(flatten)]
        sharing: Sharing,
    },
    /// Serve the files of a folder, without a configuration: `tidegate serve /srv/www`.
    Serve {
        /// The folder.
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// The address to answer on, as in `site`.
        #[arg(long, value_name = "ADDRESS", default_value = "http://:8080")]
        from: Vec<String>,
        /// Folders without an index file answer with the list of their entries.
        #[arg(long)]
        listing: bool,
        /// What answers where there is no file, as in `/index.html`.
        #[arg(long, value_name = "FILE")]
        fallback: Option<String>,
        /// Where metrics and health are served: an address, `unix:PATH` or `off`. By default 127.0.0.1:9180, or nowhere
        /// when that is taken.
        #[arg(long, value_name = "ADDRESS")]
        admin: Option<String>,
        #[command(flatten)]
        sharing: Sharing,
    },
    /// A self-contained demonstration with an own CA and an embedded upstream; prints a `curl` line to try.
    Demo {
        /// The HTTPS port; the next free one is taken when it is in use.
        #[arg(long, default_value_t = 8443)]
        port: u16,
    },
    /// Check a configuration, its certificates and its ports. Exit code 1 on an error, 0 otherwise.
    Check {
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        sharing: Sharing,
    },
    /// Say where a request would go, and why not elsewhere: `tidegate explain GET https://example.com/api`. Nothing is
    /// sent.
    ///
    /// Exit code 0 when a route answers, 1 for a fault in the configuration or the arguments, 2 when no site or route
    /// takes the request.
    Explain {
        /// The configuration; `-` reads standard input.
        #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// As it is sent: methods are case sensitive.
        #[arg(value_name = "METHOD", required_unless_present = "request")]
        method: Option<String>,
        /// `http[s]://host[:port][/path][?query]`
        #[arg(value_name = "URL", required_unless_present = "request")]
        url: Option<String>,
        /// A header field of the request; may be given several times. `Host: name` asks for another host than that of
        /// the URL; `:protocol: websocket` with CONNECT for a WebSocket over HTTP/2.
        #[arg(long, short = 'H', value_name = "NAME: VALUE")]
        header: Vec<String>,
        /// The client's IP address, as `match client=` sees it. By default 127.0.0.1.
        #[arg(long, value_name = "IP")]
        from: Option<String>,
        /// Ask the running process instead of a file: by what it runs now, with the state of its servers.
        #[arg(long)]
        running: bool,
        /// Ask the running process what became of one of its last requests, by `request_id` of the access log.
        #[arg(long, value_name = "ID", conflicts_with_all = ["method", "url", "header", "from"])]
        request: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Ask two servers the same, and say where their answers differ: before traffic is switched from one to the other.
    ///
    /// Requests come from a file or an access log. Only those are sent that change nothing, unless told otherwise. Exit
    /// code 0 when all answers are alike, 1 when some differ, 2 when it could not be found out.
    Compare(Box<CompareWanted>),
    /// Say what a configuration would change in the running process. Nothing happens.
    Plan {
        #[command(flatten)]
        config: ConfigFile,
        /// Exit with 3 when something would change, and with 0 when nothing would.
        #[arg(long)]
        exit_code: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Have the running process take on a configuration, as a whole or not at all.
    ///
    /// Exit code 0 when it runs, 1 when it was refused and the one before stays, 2 when no process answers.
    Apply {
        #[command(flatten)]
        config: ConfigFile,
        /// Take it back after this time, `60s` or `10m`, unless `tidegate confirm` comes before.
        #[arg(long, value_name = "TIME", value_parser = confirmation_time)]
        confirm: Option<Duration>,
        /// Take it back as soon as errors rise by more percentage points than this, `5%`, until it is confirmed.
        #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "confirm")]
        max_error_rise: Option<f64>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Keep a configuration that was applied with `--confirm`.
    Confirm {
        #[command(flatten)]
        running: RunningOfFile,
    },
    /// Go back to the configuration before, or to an earlier one of `tidegate history`.
    Rollback {
        #[arg(value_name = "GENERATION")]
        to: Option<u64>,
        #[command(flatten)]
        running: Running,
    },
    /// List the configurations that ran; with one or two numbers, what is different between them.
    History {
        #[arg(value_name = "FROM")]
        from: Option<u64>,
        /// By default the one that runs.
        #[arg(value_name = "TO")]
        to: Option<u64>,
        /// Only those that ran within this time: `2h`, `7d`.
        #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "from")]
        since: Option<Duration>,
        #[command(flatten)]
        running: Running,
    },
    /// Say how the running process is: generation, listeners, pools, certificates.
    ///
    /// Of many servers and certificates only those are listed that need a look, and the others are counted.
    Status {
        /// List every server and every certificate.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        running: RunningOfFile,
    },
    /// Watch the running process: rates, connections, servers. Keys: q ends, p pauses, s sorts, the arrows scroll.
    Top {
        #[command(flatten)]
        running: RunningOfFile,
    },
    /// Take a server out of use. Requests that it has go on.
    Drain {
        /// As `tidegate status` lists them: `app/10.0.0.5:8080`
        #[arg(value_name = "POOL/SERVER")]
        server: String,
        #[command(flatten)]
        running: Running,
    },
    /// Take a server back into use.
    Undrain {
        /// As `tidegate status` lists them: `app/10.0.0.5:8080`
        #[arg(value_name = "POOL/SERVER")]
        server: String,
        #[command(flatten)]
        running: Running,
    },
    /// Lines of the access log that fit, from the file of the configuration, another one, or standard input.
    Logs(LogsWanted),
    /// Remove what the cache keeps, or mark it as stale.
    Purge {
        /// URLs, as `https://example.com/news/1`; with a `*` at the end all that begin so.
        #[arg(value_name = "URL")]
        urls: Vec<String>,
        /// Answers with this tag, as their `Surrogate-Key` or `Cache-Tag` had it. Can be repeated.
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// Everything.
        #[arg(long)]
        all: bool,
        /// Answers become stale instead, and the upstream is asked about them when they are wanted again.
        #[arg(long)]
        soft: bool,
        #[command(flatten)]
        running: Running,
    },
    /// Have a new process take over from the running one, which finishes its requests. Says when it has.
    Upgrade {
        /// The new program; by default the file that the running process was started from, as it is now.
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        #[command(flatten)]
        running: RunningOfFile,
    },
    /// Write a configuration in its canonical layout, comments kept.
    ///
    /// `-` reads standard input and writes standard output.
    Fmt {
        #[command(flatten)]
        config: ConfigFile,
        /// Change nothing; exit code 1 when the layout is not canonical.
        #[arg(long)]
        check: bool,
    },
    /// Write a configuration of another proxy in this language, comments kept.
    ///
    /// The configuration goes to standard output, and what became of each line of the file to standard error: carried
    /// over, the same by default, approximated, not carried. Exit code 0 when all of it is carried, 1 when something is
    /// not, 2 when nothing was imported. Nothing in the file is run, and no program of the other proxy is needed.
    #[command(
        after_help = "Examples:\n  tidegate import nginx /etc/nginx > tidegate.kdl\n  tidegate import compose compose.yaml --report json > tidegate.kdl 2> report.json\n  tidegate import nginx /etc/nginx --questions requests.txt > tidegate.kdl"
    )]
    Import {
        /// The proxy that the configuration is for.
        #[arg(value_enum)]
        from: ImportPeer,
        /// The file, or the folder that the proxy reads; `-` reads standard input. Of Compose several files, each put
        /// over the one before it.
        #[arg(value_name = "FILE|DIR", required = true)]
        files: Vec<PathBuf>,
        /// Where files are that are included by relative names, and those of folders such as /etc/nginx.
        #[arg(long, value_name = "DIR")]
        base: Option<PathBuf>,
        /// How the report on standard error is written.
        #[arg(long, value_enum, default_value_t = ReportForm::Text)]
        report: ReportForm,
        /// Write requests around each boundary of what was imported to this file, for `tidegate compare`.
        #[arg(long, value_name = "FILE")]
        questions: Option<PathBuf>,
    },
    /// Certificates: trust the internal CA, move in from other programs, look at servers.
    Cert {
        #[command(subcommand)]
        command: CertCommand,
    },
    /// Kubernetes: the controller of a cluster's Ingresses and their proxy, in one process.
    Kubernetes {
        #[command(subcommand)]
        command: KubernetesCommand,
    },
    /// Maps: what they have, and single rows that are changed while the process runs.
    Map {
        #[command(subcommand)]
        command: MapCommand,
    },
    /// Make the hash of a password, for `basic-auth`: `tidegate hash-password alice >> /etc/tidegate/htpasswd`.
    ///
    /// The password is asked for, or read as the first line of standard input where that is no terminal.
    HashPassword {
        /// Whose it is: then a whole line of a file is printed, `name:hash`.
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// `bcrypt` is what other programs know as well.
        #[arg(long, value_enum, default_value_t = HashAlgorithm::Argon2id)]
        algorithm: HashAlgorithm,
    },
    /// Make a key for `api-key`, and the line of it: `tidegate hash-key ci >> /etc/tidegate/keys`.
    ///
    /// The line goes to standard output. The key goes to standard error, this once: only its hash is kept.
    HashKey {
        /// By which logs, limits and upstreams know the key.
        #[arg(value_name = "NAME")]
        name: String,
        /// The last day, as 2027-01-31, or the moment of the end, as 2027-01-31T12:00:00Z; both in UTC.
        #[arg(long, value_name = "DATE")]
        expires: Option<String>,
        /// Of a key that is there: it is asked for, or read as the first line of standard input, and not printed.
        #[arg(long)]
        stdin: bool,
    },
    /// Print the JSON Schema of the configuration.
    Schema,
    /// Print completions for a shell; names of pools, servers and sites are asked of the running process.
    Completions { shell: Shell },
    /// Write the manual pages, one for each command, into a folder.
    Man {
        /// The folder, made if need be.
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// Names that a shell completes, a line each.
    #[command(hide = true)]
    Names {
        #[arg(value_enum)]
        of: NamesOf,
        #[command(flatten)]
        running: Running,
    },
    /// Print the version and what it was built with.
    Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HashAlgorithm {
    Argon2id,
    Bcrypt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamesOf {
    Pools,
    /// `POOL/SERVER`
    Servers,
    Sites,
    /// Of certificates.
    Certificates,
    /// Numbers of them.
    Generations,
}

/// How the running process is found and persuaded.
#[derive(Args)]
pub struct Reach {
    /// The admin endpoint of the running process: `127.0.0.1:9180` or `unix:/path`. By default that of the
    /// configuration.
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// The file with the endpoint's token. By default `$TIDEGATE_ADMIN_TOKEN`, else `admin-token` in the state folder.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Which running process is asked, for commands that take no configuration of their own.
#[derive(Args)]
pub struct Running {
    /// The configuration whose `admin` is asked. By default the installed one, where there is one.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub reach: Reach,
}

/// Which running process is asked, for commands whose only argument is the configuration.
#[derive(Args)]
pub struct RunningOfFile {
    /// The configuration whose process is asked.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

impl RunningOfFile {
    pub fn running(self) -> Running {
        Running { config: self.running.config.or(self.file), ..self.running }
    }
}

/// `7d`, and whatever a configuration takes as a time.
fn age(text: &str) -> Result<Duration, String> {
    const DAY: u64 = 86_400;
    match text.strip_suffix('d').map(str::parse::<u32>) {
        Some(Ok(days)) => Ok(Duration::from_secs(u64::from(days) * DAY)),
        Some(Err(_)) | None => tidegate_config::parse_duration(text),
    }
}

fn confirmation_time(text: &str) -> Result<Duration, String> {
    let time = tidegate_config::parse_duration(text)?;
    if time < Duration::from_secs(1) || time > Duration::from_secs(86_400) {
        return Err("it is not between 1 second and 24 hours".to_owned());
    }
    Ok(time)
}

/// `5%` as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("write a number and `%`, as in `5%`")?;
    let number: f64 = number.trim().parse().map_err(|_| format!("`{number}` is not a number"))?;
    if (0.0..=100.0).contains(&number) { Ok(number / 100.0) } else { Err("it is not between 0% and 100%".to_owned()) }
}

/// Which lines of an access log, in the JSON form.
#[derive(Debug, Default, Args)]
pub struct LogsWanted {
    /// Go on with those that come, also when the file is rotated.
    #[arg(long, short)]
    pub follow: bool,
    /// The file; `-` reads standard input. By default the one that the configuration names.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The configuration that says where the log is.
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// How many of the lines that are there, the last ones.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
    pub lines: usize,
    /// As in `404`, `5xx` or `500-599`.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Requests that took at least so long, as in `500ms`.
    #[arg(long, value_name = "DURATION", value_parser = tidegate_config::parse_duration)]
    pub slower_than: Option<Duration>,
    /// As it stands in the log, as in `https://example.com`.
    #[arg(long)]
    pub site: Option<String>,
    /// A route's `name=`.
    #[arg(long, value_name = "NAME")]
    pub route: Option<String>,
    /// A path, or all below one, as in `/api/*`.
    #[arg(long)]
    pub path: Option<String>,
    #[arg(long)]
    pub method: Option<String>,
    #[arg(long)]
    pub pool: Option<String>,
    /// A client's address.
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<String>,
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Why the proxy itself answered, as in `no_server`.
    #[arg(long)]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::{Cli, age, confirmation_time, percent};
    use clap::CommandFactory;
    use std::time::Duration;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Who has only the README at hand learns from it what there is.
    #[test]
    fn the_readme_has_every_command() {
        let readme = include_str!("../../../README.md");
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
        let names: Vec<String> = shown.filter(|name| *name != "help").map(|name| format!("`{name}`")).collect();
        let line = format!("| Command line | {} |", names.join(", "));
        assert!(readme.lines().any(|own| own == line), "README.md has to have this line:\n{line}");
    }

    #[test]
    fn values_with_units() {
        let time = |text: &str, seconds: Option<u64>| {
            assert_eq!(confirmation_time(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        time("60s", Some(60));
        time("1h30m", Some(5400));
        time("60", None);
        time("10ms", None);
        time("2d", None);
        let ago = |text: &str, seconds: Option<u64>| assert_eq!(age(text).ok(), seconds.map(Duration::from_secs), "{text}");
        ago("7d", Some(7 * 86_400));
        ago("2h", Some(7200));
        ago("d", None);
        ago("soon", None);
        let share = |text: &str, tenths: Option<u32>| {
            assert_eq!(percent(text).ok().map(|share| (share * 1000.0).round() as u32), tenths, "{text}");
        };
        share("5%", Some(50));
        share("0.5 %", Some(5));
        share("5", None);
        share("101%", None);
        share("NaN%", None);
    }
}
