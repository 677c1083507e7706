//! What a file of Apache httpd asks for: its virtual hosts, by their names, with what they hand on or serve.

use super::accounts::{FileStatement, Origin, StatementKind, Weight};
use super::outline::{
    Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, ServerGroup, Service, Whereabouts, below, upstream, whereabouts,
};

const NO_HOST: &str = "it has no virtual host that hands requests on or serves files";
const GUARDS: [&str; 9] =
    ["authtype", "authname", "authbasicprovider", "require", "sslverifyclient", "deny", "allow", "secrule", "secruleengine"];
const SAME: [&str; 20] = [
    "errorlog",
    "customlog",
    "loglevel",
    "serveradmin",
    "serversignature",
    "servertokens",
    "listen",
    "timeout",
    "keepalive",
    "maxkeepaliverequests",
    "keepalivetimeout",
    "proxypreservehost",
    "proxypassreverse",
    "proxyrequests",
    "authuserfile",
    "hostnamelookups",
    "user",
    "group",
    "pidfile",
    "logformat",
];

pub fn outline(text: &str) -> Outline {
    let mut outline = Outline::default();
    let mut host = HttpdHost::new(Door::HTTP);
    for written in text.lines() {
        let line = written.trim();
        let at = line.as_ptr() as usize - text.as_ptr() as usize;
        let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches(['"', '>'])).collect();
        let Some((word, arguments)) = words.split_first().filter(|_| !line.starts_with('#')) else { continue };
        let word = word.to_ascii_lowercase();
        if !word.starts_with("</") && word != "<virtualhost" {
            outline.statements.push(FileStatement { at, name: shown(words[0]), kind: kind(&word, arguments) });
            host.origin.within.insert(at);
        }
        let is_carried = match (word.as_str(), arguments) {
            ("<virtualhost", addresses) => {
                host.end(&mut outline);
                let door =
                    addresses.first().and_then(|address| Door::parse(address.trim_start_matches('*'), address.ends_with(":443")));
                host = HttpdHost::new(door.unwrap_or(Door::HTTP));
                false
            }
            ("</virtualhost>" | "</virtualhost", _) => {
                host.end(&mut outline);
                host = HttpdHost::new(Door::HTTP);
                false
            }
            ("servername" | "serveralias", names) => {
                host.names.extend(names.iter().map(|name| name.split(':').next().unwrap_or(name).to_owned()));
                true
            }
            ("sslengine", ["on" | "On", ..]) => {
                host.door.is_tls = true;
                true
            }
            ("documentroot", [root, ..]) if root.starts_with('/') => {
                host.root = Some((*root).to_owned());
                true
            }
            ("proxypass", [path, url, ..]) if path.starts_with('/') => host.pass(path, url),
            ("redirect", arguments) => host.redirect(arguments),
            _ => false,
        };
        if is_carried {
            host.origin.carry(at);
        }
    }
    host.end(&mut outline);
    outline.or_without(NO_HOST)
}

fn shown(word: &str) -> String {
    let name = word.trim_start_matches('<');
    if name.chars().all(|c| c.is_ascii_alphanumeric()) { name.to_owned() } else { "…".to_owned() }
}

fn kind(word: &str, arguments: &[&str]) -> StatementKind {
    let is_open = matches!(arguments, ["all", "granted"] | ["from", "all"]) && word != "deny";
    match word {
        // Texts of scripts, and what files in the folders say of who may read them.
        "sethandler" | "addhandler" | "scriptalias" | "wsgiscriptalias" | "<files" | "<filesmatch" => {
            StatementKind::Needed(Weight::Protection)
        }
        "allowoverride" if arguments != ["None"] => StatementKind::Needed(Weight::Protection),
        "allowoverride" => StatementKind::SameByDefault,
        "rewriterule" if arguments.last().is_some_and(|flags| flags.contains('F')) => StatementKind::Needed(Weight::Protection),
        _ if GUARDS.contains(&word) && !is_open => StatementKind::Needed(Weight::Protection),
        _ if GUARDS.contains(&word) || SAME.contains(&word) || word.starts_with("<ifmodule") => StatementKind::SameByDefault,
        _ if word.starts_with("ssl") => StatementKind::Needed(Weight::Tls),
        "servername" | "serveralias" => StatementKind::Needed(Weight::Address),
        "limitrequestbody" => StatementKind::Needed(Weight::Limit),
        _ if ["proxypass", "rewrite", "documentroot", "redirect", "alias", "<location", "<directory", "include"]
            .iter()
            .any(|start| word.starts_with(start)) =>
        {
            StatementKind::Needed(Weight::Answer)
        }
        _ => StatementKind::Needed(Weight::Setting),
    }
}

struct HttpdHost {
    door: Door,
    names: Vec<String>,
    root: Option<String>,
    routes: Vec<OutlinedRoute>,
    answer: Option<OutlinedAnswer>,
    origin: Origin,
}

impl HttpdHost {
    fn new(door: Door) -> HttpdHost {
        HttpdHost { door, names: Vec::new(), root: None, routes: Vec::new(), answer: None, origin: Origin::default() }
    }

    fn pass(&mut self, path: &str, url: &str) -> bool {
        let Some(address) = upstream(url.split('|').next().unwrap_or_default()) else { return false };
        let rest = url.splitn(4, '/').nth(3).unwrap_or_default().trim_end_matches('/');
        let stem = path.trim_end_matches('/');
        let add = Some(format!("/{rest}")).filter(|add| add.len() > 1 && add != stem);
        let strip = Some(stem.to_owned()).filter(|stem| !stem.is_empty() && *stem != format!("/{rest}"));
        let answer = OutlinedAnswer::Proxy { group: ServerGroup::of(address), strip, add };
        if stem.is_empty() {
            self.answer = Some(answer);
        } else {
            self.routes.push(OutlinedRoute::of(vec![below(path)], answer));
        }
        true
    }

    fn redirect(&mut self, arguments: &[&str]) -> bool {
        let status = match arguments.first() {
            Some(&"permanent") => 301,
            Some(word) => word.parse().unwrap_or(302),
            None => return false,
        };
        let [.., path, to] = arguments else { return false };
        let is_all = *path == "/" && to.contains("://");
        if is_all {
            self.answer.get_or_insert(OutlinedAnswer::Redirect { to: format!("{}{{uri}}", to.trim_end_matches('/')), status });
        }
        is_all
    }

    fn end(&mut self, outline: &mut Outline) {
        let root = self.root.take();
        let answer = self.answer.take().or_else(|| root.map(OutlinedAnswer::files));
        let is_of_names = |to: &str| self.names.iter().any(|name| to == format!("https://{name}{{uri}}"));
        let is_to_https = matches!(&answer, Some(OutlinedAnswer::Redirect { to, .. }) if !self.door.is_tls && is_of_names(to));
        let origin = std::mem::take(&mut self.origin);
        if is_to_https || (answer.is_none() && self.routes.is_empty()) {
            if is_to_https {
                outline.done_without.extend(origin.within);
            }
            return;
        }
        if let Some(Whereabouts { addresses, only_hosts, .. }) = whereabouts(&self.names, self.door) {
            let routes = std::mem::take(&mut self.routes);
            let site = OutlinedSite { addresses, only_hosts, routes, answer, origin, ..OutlinedSite::default() };
            outline.services.push(Service::Site(site));
        }
    }
}
