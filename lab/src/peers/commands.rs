//! `tidegate-lab peers` and `tidegate-lab peers install`: which proxies there are, and getting those that are not.
//! How each is got is in `install`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::check;
use super::find::{Search, default_cache, find};
use super::install;
use super::kind::PeerKind;
use crate::net::Error;

/// Shows which proxies are there, and how to get the others.
#[derive(Debug, Args)]
pub struct PeersOptions {
    #[command(subcommand)]
    command: Option<PeersCommand>,
    #[command(flatten)]
    whereabouts: Whereabouts,
}

/// Where peers are looked for.
#[derive(Debug, Clone, Args)]
pub struct Whereabouts {
    /// The program of a peer, as in `haproxy=/opt/haproxy/sbin/haproxy`; may be repeated.
    #[arg(long = "peer", value_name = "NAME=PATH", value_parser = parse_given, global = true)]
    pub given: Vec<(PeerKind, PathBuf)>,
    /// Where installed peers are kept; by default `tidegate-lab` in the user's cache.
    #[arg(long, value_name = "DIR", global = true)]
    cache: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum PeersCommand {
    /// Gets peers into the cache, without touching the system.
    Install {
        /// Which; without any, all that are not there.
        #[arg(value_name = "NAME", value_parser = PeerKind::from_name)]
        kinds: Vec<PeerKind>,
    },
    /// Fills in every configuration of the peers that are there and has each peer check its own.
    Check {
        /// Which; without any, all that are there.
        #[arg(value_name = "NAME", value_parser = PeerKind::from_name)]
        kinds: Vec<PeerKind>,
        /// Configurations of your own, laid out as `lab/peers` is.
        #[arg(long, value_name = "DIR")]
        templates: Option<PathBuf>,
    },
}

impl Whereabouts {
    pub fn cache(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(default_cache)
    }

    pub fn find(&self, kind: PeerKind) -> Search {
        find(kind, &self.given, &self.cache())
    }
}

pub fn run(options: &PeersOptions) -> Result<(), Error> {
    match &options.command {
        None => {
            print!("{}", list(&PeerKind::ALL.map(|kind| (kind, options.whereabouts.find(kind)))));
            Ok(())
        }
        Some(PeersCommand::Install { kinds }) => install_and_list(kinds, &options.whereabouts),
        Some(PeersCommand::Check { kinds, templates }) => {
            let asked = PeerKind::ALL.into_iter().filter(|kind| kinds.is_empty() || kinds.contains(kind));
            let found = asked.filter_map(|kind| match options.whereabouts.find(kind) {
                Search::Found(program) => Some(program),
                Search::Absent { .. } | Search::Broken { .. } => None,
            });
            check::run(&found.collect::<Vec<_>>(), templates.as_deref())
        }
    }
}

fn install_and_list(asked: &[PeerKind], whereabouts: &Whereabouts) -> Result<(), Error> {
    let is_there = |kind: PeerKind| matches!(whereabouts.find(kind), Search::Found(_));
    let kinds: Vec<PeerKind> =
        if asked.is_empty() { PeerKind::ALL.into_iter().filter(|kind| !is_there(*kind)).collect() } else { asked.to_vec() };
    let failed = install::install(&kinds, &whereabouts.cache());
    println!();
    print!("{}", list(&PeerKind::ALL.map(|kind| (kind, whereabouts.find(kind)))));
    // Without names, what cannot be got at all is no failure: nobody has asked for it.
    let failed: Vec<&str> =
        failed.into_iter().filter(|kind| asked.contains(kind) || install::can_get(*kind)).map(PeerKind::name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("not installed: {}", failed.join(", ")).into()) }
}

/// A table of what was found.
fn list(found: &[(PeerKind, Search)]) -> String {
    let rows: Vec<[String; 4]> = found.iter().map(|(kind, search)| row(*kind, search)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [name, version, library, place] in &rows {
        let [name_width, version_width, library_width] = widths;
        text += &format!("{name:name_width$}  {version:version_width$}  {library:library_width$}  {place}\n");
    }
    text
}

fn row(kind: PeerKind, search: &Search) -> [String; 4] {
    let name = kind.name().to_owned();
    match search {
        Search::Found(program) => {
            [name, program.version.clone(), program.tls_library.clone(), program.path.display().to_string()]
        }
        Search::Absent { how_to_get } => [name, "absent".to_owned(), String::new(), how_to_get.clone()],
        Search::Broken { path, reason } => [name, "broken".to_owned(), String::new(), format!("{}: {reason}", path.display())],
    }
}

fn parse_given(text: &str) -> Result<(PeerKind, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !path.is_empty() => Ok((PeerKind::from_name(name)?, PathBuf::from(path))),
        Some(_) | None => Err("expected NAME=PATH, as in `haproxy=/opt/haproxy/sbin/haproxy`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Program;

    #[test]
    fn a_given_peer_has_a_name_and_a_path() {
        let check = |text: &str, expected: Option<(PeerKind, &str)>| {
            assert_eq!(parse_given(text).ok(), expected.map(|(kind, path)| (kind, path.into())), "{text}");
        };
        check("caddy=/opt/caddy", Some((PeerKind::Caddy, "/opt/caddy")));
        check("caddy=a=b", Some((PeerKind::Caddy, "a=b")));
        check("caddy", None);
        check("caddy=", None);
        check("apache=/usr/sbin/apache2", None);
    }

    #[test]
    fn the_table_says_what_is_there_and_what_to_do() {
        let found = Search::Found(Program {
            kind: PeerKind::Haproxy,
            path: "/usr/sbin/haproxy".into(),
            version: "2.6.12".into(),
            tls_library: "OpenSSL 3.0.19".into(),
        });
        let broken = Search::Broken { path: "/usr/bin/envoy".into(), reason: "not done after 10 s".into() };
        let absent = Search::Absent { how_to_get: "buy it".into() };
        let table = list(&[(PeerKind::Haproxy, found), (PeerKind::Envoy, broken), (PeerKind::Angie, absent)]);
        let expected = "haproxy  2.6.12  OpenSSL 3.0.19  /usr/sbin/haproxy\n\
                        envoy    broken                  /usr/bin/envoy: not done after 10 s\n\
                        angie    absent                  buy it\n";
        assert_eq!(table, expected);
    }
}
