//! `tidegate cert …` as clap reads it. The first four ask the running process through its admin endpoint; the others
//! need none.

use super::Running;
use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum CertCommand {
    /// The certificates that the running process serves, and names whose certificates it obtains: when they end, and
    /// what is in the way.
    List {
        #[command(flatten)]
        running: Running,
    },
    /// All that is known of the certificate of a name.
    Show {
        /// A name of the certificate, as `tidegate cert list` shows them.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        running: Running,
    },
    /// Obtain a new certificate for a name now, whatever the times say.
    Renew {
        /// A name of the certificate, as `tidegate cert list` shows them.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        running: Running,
    },
    /// Have the CA revoke the certificate of a name, as when its key was seen by others. Another one is obtained at
    /// once.
    Revoke {
        /// A name of the certificate, as `tidegate cert list` shows them.
        #[arg(value_name = "NAME")]
        name: String,
        /// Why: `unspecified`, `key-compromise`, `superseded` or `cessation-of-operation`.
        #[arg(long, value_name = "REASON", value_parser = ["unspecified", "key-compromise", "superseded", "cessation-of-operation"])]
        reason: Option<String>,
        #[command(flatten)]
        running: Running,
    },
    /// Have this machine and its browsers trust the internal CA, or any other root: `sudo tidegate cert trust`.
    ///
    /// Without FILE it is the root of the internal CA in the state folder, which is made there if there is none yet.
    /// Says what it did and what it could not; doing it twice changes nothing. Exit code 1 when nothing could be done.
    Trust(Trust),
    /// Take over the certificates and accounts of certbot, Caddy or Traefik: `sudo tidegate cert import
    /// /etc/letsencrypt`.
    ///
    /// Says of everything whether it was taken over, and if not, why. Nothing of the other program is changed, and a
    /// certificate that lasts longer than the imported one is kept. They go into the storage of the configuration. Exit
    /// code 1 when nothing could be taken over.
    Import(Import),
    /// Write a certificate of the storage into files for other programs: `chain.pem`, `key.pem` and both in
    /// `combined.pem`.
    Export(Export),
    /// Look at the certificate and the TLS of a server, as a client that refuses nothing: `tidegate cert check
    /// example.com`.
    ///
    /// Exit code 0 when clients have nothing to complain of, 1 when there is a problem or no answer.
    Check(Check),
}

#[derive(Args)]
pub struct Trust {
    /// The root's certificate, PEM.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The state folder of the process whose internal CA is meant. By default as `run` finds it.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub state_dir: Option<PathBuf>,
    /// The system's store, which curl, package managers and most programs read. Needs root.
    #[arg(long)]
    pub system: bool,
    /// The databases of Firefox and Chromium of this user, or of the one who called `sudo`. Needs `certutil`.
    #[arg(long)]
    pub browsers: bool,
    /// Take it out again.
    #[arg(long)]
    pub uninstall: bool,
    /// Only say where the root is, and its fingerprint.
    #[arg(long, conflicts_with_all = ["system", "browsers", "uninstall"])]
    pub print: bool,
    /// Another root folder for the system's store, as of an image that is being built. Programs of the store are not
    /// run there.
    #[arg(long, value_name = "DIR", hide = true)]
    pub prefix: Option<PathBuf>,
}

#[derive(Args)]
pub struct Check {
    /// A host name or an address, and a port when it is not 443: `example.com`, `10.0.0.5:8443`, `[::1]:8443`.
    #[arg(value_name = "HOST[:PORT]")]
    pub host: String,
    /// Connect to this address instead of looking the name up.
    #[arg(long, value_name = "IP")]
    pub resolve: Option<IpAddr>,
    /// Roots that are trusted instead of the system's, PEM.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The state folder whose internal CA is trusted as well. By default as `run` finds it.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Args)]
pub struct Import {
    /// The other program's folder, or Traefik's `acme.json`. By default where the program of `--from` keeps it.
    #[arg(value_name = "PATH", required_unless_present = "from")]
    pub path: Option<PathBuf>,
    /// Whose store it is, where that is not seen by itself.
    #[arg(long, value_enum)]
    pub from: Option<From>,
    /// Take over expired certificates too, and those of test environments and internal CAs.
    #[arg(long)]
    pub all: bool,
    /// Replace certificates that are there, also by ones that end sooner or that clients do not trust.
    #[arg(long)]
    pub replace: bool,
    /// Only say what would be done.
    #[arg(long)]
    pub dry_run: bool,
    /// The ACME directory of accounts for which the store does not say it, as Traefik's does not for CAs that are not
    /// widely known.
    #[arg(long, value_name = "URL")]
    pub directory: Option<String>,
    #[command(flatten)]
    pub kept: Kept,
}

#[derive(Args)]
pub struct Export {
    /// A name as it stands in the configuration: `example.com`, `*.example.com`, `203.0.113.7`.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The folder for the files, made if need be. By default one of the name's own, in the present folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub kept: Kept,
}

/// Where certificates are kept.
#[derive(Args)]
pub struct Kept {
    /// The configuration whose `storage` is meant: a folder, Redis or Kubernetes. By default the installed one, where
    /// there is one and no folder is named.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The state folder of the process that they are for. By default as `run` finds it.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// A folder of `storage`, whatever a configuration says.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["state_dir", "config"])]
    pub storage: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    Certbot,
    Caddy,
    Traefik,
}
