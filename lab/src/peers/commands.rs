//! `tidegate-lab peers` and `tidegate-lab peers install`: which proxies there are, and getting those that are not.
//! How each is got is in `install`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use tidegate_transport::Driver;

use super::check;
use super::find::{Given, Search, by_driver, default_cache, find, names};
use super::install;
use super::kind::{PeerKind, PeerName, Program, parse_driver};
use crate::net::Error;
use crate::stage::interrupt::Interrupt;

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
    /// The program of a peer, as in `haproxy=/opt/haproxy/sbin/haproxy`; may be repeated. With a hyphen and a word
    /// behind its name, as in `haproxy-3.4=PATH`, it is measured beside the usual one.
    #[arg(long = "peer", value_name = "NAME=PATH", value_parser = parse_given, global = true)]
    given: Vec<Given>,
    /// The drivers that Tidegate is measured with, one column each, separated by commas: `epoll`, `io-uring`.
    #[arg(long, value_name = "DRIVER,…", value_delimiter = ',', default_value = "epoll,io-uring", value_parser = parse_driver, global = true)]
    drivers: Vec<Driver>,
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
        #[arg(value_name = "NAME", value_parser = PeerName::parse)]
        peers: Vec<PeerName>,
        /// Configurations of your own, laid out as `lab/peers` is.
        #[arg(long, value_name = "DIR")]
        templates: Option<PathBuf>,
    },
}

impl Whereabouts {
    pub fn cache(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(default_cache)
    }

    /// The usual build of a peer.
    pub fn find(&self, kind: PeerKind) -> Search {
        find(&PeerName::of(kind), &self.given, &self.cache())
    }

    /// Every column of those that are asked for, or of all, in the order of tables.
    pub fn columns(&self, asked: &[PeerName]) -> Result<Vec<(String, Search)>, Error> {
        let names = names(&self.given);
        if let Some(unknown) = asked.iter().find(|asked| !names.iter().any(|name| asked.covers(name))) {
            return Err(format!("nobody has said where `{unknown}` is: `--peer {unknown}=PATH`").into());
        }
        let wanted = names.iter().filter(|name| asked.is_empty() || asked.iter().any(|asked| asked.covers(name)));
        Ok(wanted.flat_map(|name| by_driver(name, find(name, &self.given, &self.cache()), &self.drivers())).collect())
    }

    /// In the order of tables, each once.
    fn drivers(&self) -> Vec<Driver> {
        [Driver::Epoll, Driver::IoUring].into_iter().filter(|driver| self.drivers.contains(driver)).collect()
    }
}

pub fn run(options: &PeersOptions) -> Result<(), Error> {
    match &options.command {
        None => {
            print!("{}", list(&options.whereabouts.columns(&[])?));
            Ok(())
        }
        Some(PeersCommand::Install { kinds }) => install_and_list(kinds, &options.whereabouts),
        Some(PeersCommand::Check { peers, templates }) => {
            let interrupt = Interrupt::watch()?;
            let found = options.whereabouts.columns(peers)?.into_iter().filter_map(|(_, search)| match search {
                Search::Found(program) => Some(program),
                Search::Absent { .. } | Search::Broken { .. } | Search::Forbidden { .. } => None,
            });
            check::run(&found.collect::<Vec<Program>>(), templates.as_deref(), &interrupt)
        }
    }
}

fn install_and_list(asked: &[PeerKind], whereabouts: &Whereabouts) -> Result<(), Error> {
    let interrupt = Interrupt::watch()?;
    let is_there = |kind: PeerKind| matches!(whereabouts.find(kind), Search::Found(_));
    let kinds: Vec<PeerKind> =
        if asked.is_empty() { PeerKind::ALL.into_iter().filter(|kind| !is_there(*kind)).collect() } else { asked.to_vec() };
    let failed = install::install(&kinds, &whereabouts.cache(), &interrupt);
    interrupt.check().map_err(|_| "interrupted; what was being installed is not there, and nothing of it runs any more")?;
    println!();
    print!("{}", list(&whereabouts.columns(&[])?));
    // Without names, what cannot be got at all is no failure: nobody has asked for it.
    let failed: Vec<&str> =
        failed.into_iter().filter(|kind| asked.contains(kind) || install::can_get(*kind)).map(PeerKind::name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("not installed: {}", failed.join(", ")).into()) }
}

/// A table of what was found.
fn list(found: &[(String, Search)]) -> String {
    let rows: Vec<[String; 4]> = found.iter().map(|(name, search)| row(name, search)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [name, version, library, place] in &rows {
        let [name_width, version_width, library_width] = widths;
        text += &format!("{name:name_width$}  {version:version_width$}  {library:library_width$}  {place}\n");
    }
    text
}

fn row(name: &str, search: &Search) -> [String; 4] {
    let name = name.to_owned();
    match search {
        Search::Found(program) => {
            [name, program.version.clone(), program.tls_library.clone(), program.path.display().to_string()]
        }
        Search::Absent { how_to_get } => [name, "absent".to_owned(), String::new(), how_to_get.clone()],
        Search::Broken { path, reason } => [name, "broken".to_owned(), String::new(), format!("{}: {reason}", path.display())],
        Search::Forbidden { program, reason } => {
            [name, "forbidden".to_owned(), String::new(), format!("{}: {reason}", program.path.display())]
        }
    }
}

fn parse_given(text: &str) -> Result<Given, String> {
    match text.split_once('=') {
        Some((name, path)) if !path.is_empty() => Ok(Given { name: PeerName::parse(name)?, path: PathBuf::from(path) }),
        Some(_) | None => {
            Err("expected NAME=PATH, as in `haproxy=/opt/haproxy/sbin/haproxy` or `haproxy-3.4=/opt/haproxy/sbin/haproxy`"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_peer_has_a_name_and_a_path() {
        let check = |text: &str, expected: Option<(&str, PeerKind, &str)>| {
            let read = parse_given(text).ok().map(|given| (given.name.to_string(), given.name.kind, given.path));
            assert_eq!(read, expected.map(|(name, kind, path)| (name.to_owned(), kind, path.into())), "{text}");
        };
        check("caddy=/opt/caddy", Some(("caddy", PeerKind::Caddy, "/opt/caddy")));
        check("caddy=a=b", Some(("caddy", PeerKind::Caddy, "a=b")));
        check("haproxy-3.4=/opt/haproxy", Some(("haproxy-3.4", PeerKind::Haproxy, "/opt/haproxy")));
        check("tidegate-before_it-1=/opt/t", Some(("tidegate-before_it-1", PeerKind::Tidegate, "/opt/t")));
        check("caddy", None);
        check("caddy=", None);
        check("apache=/usr/sbin/apache2", None);
        check("apache-2=/usr/sbin/apache2", None);
        check("haproxy-=/opt/haproxy", None);
        check("haproxy-3 4=/opt/haproxy", None);
        check("haproxy-0123456789012345678901234=/opt/haproxy", None);
        check("haproxy3.4=/opt/haproxy", None);
    }

    #[test]
    fn builds_stand_behind_the_usual_one_and_are_chosen_by_their_name() {
        let script = |folder: &std::path::Path, version: &str| {
            let path = folder.join(version);
            crate::peers::tests::write_script(&path, &format!("#!/bin/sh\necho HAProxy version {version}\n"));
            format!("={}", path.display())
        };
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (script(folder.path(), "2.6.12"), script(folder.path(), "3.4.0"));
        let whereabouts = Whereabouts {
            given: [format!("haproxy-new{new}"), format!("haproxy{new}"), format!("haproxy{old}")]
                .map(|text| parse_given(&text).unwrap())
                .into(),
            drivers: vec![Driver::IoUring, Driver::Epoll],
            cache: Some(folder.path().to_owned()),
        };
        let check = |asked: &[&str], expected: Result<&[&str], &str>| {
            let asked: Vec<PeerName> = asked.iter().map(|name| PeerName::parse(name).unwrap()).collect();
            let version = |(name, search): (String, Search)| match search {
                Search::Found(program) => format!("{name} {}", program.version),
                other => panic!("{name}: {other:?}"),
            };
            let columns = whereabouts.columns(&asked).map(|columns| columns.into_iter().map(version).collect::<Vec<_>>());
            match (columns, expected) {
                (Ok(columns), Ok(expected)) => assert_eq!(columns, expected),
                (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
                (columns, _) => panic!("{asked:?}: {columns:?}"),
            }
        };
        // The last of one name counts.
        check(&["haproxy"], Ok(&["haproxy 2.6.12", "haproxy-new 3.4.0"]));
        check(&["haproxy-new"], Ok(&["haproxy-new 3.4.0"]));
        check(&["haproxy-3.4"], Err("nobody has said where `haproxy-3.4` is: `--peer haproxy-3.4=PATH`"));
    }

    #[test]
    fn the_table_says_what_is_there_and_what_to_do() {
        let program = Program {
            kind: PeerKind::Haproxy,
            name: "haproxy".to_owned(),
            driver: None,
            path: "/usr/sbin/haproxy".into(),
            version: "2.6.12".into(),
            tls_library: "OpenSSL 3.0.19".into(),
        };
        let broken = Search::Broken { path: "/usr/bin/envoy".into(), reason: "not done after 10 s".into() };
        let absent = Search::Absent { how_to_get: "buy it".into() };
        let forbidden = Search::Forbidden { program: program.clone(), reason: "no rings".into() };
        let found = [("haproxy", Search::Found(program)), ("haproxy-x", forbidden), ("envoy", broken), ("angie", absent)];
        let table = list(&found.map(|(name, search)| (name.to_owned(), search)));
        let expected = "haproxy    2.6.12     OpenSSL 3.0.19  /usr/sbin/haproxy\n\
                        haproxy-x  forbidden                  /usr/sbin/haproxy: no rings\n\
                        envoy      broken                     /usr/bin/envoy: not done after 10 s\n\
                        angie      absent                     buy it\n";
        assert_eq!(table, expected);
    }
}
