//! What a file of Apache httpd asks for: its virtual hosts, by their names, with what they hand on or serve.

use super::outline::{
    Door, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, ServerGroup, Service, addresses, below, upstream,
};

const NO_HOST: &str = "it has no virtual host that hands requests on or serves files";
const GUARDS: [&str; 5] = ["AuthType", "Require", "SSLVerifyClient", "Deny", "Allow"];

pub fn outline(text: &str) -> Outline {
    let mut outline = Outline::default();
    let mut host = HttpdHost::new(Door::HTTP);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches(['"', '>'])).collect();
        let Some((word, arguments)) = words.split_first() else { continue };
        match (word.to_ascii_lowercase().as_str(), arguments) {
            ("<virtualhost", addresses) => {
                host.end(&mut outline);
                let door =
                    addresses.first().and_then(|address| Door::parse(address.trim_start_matches('*'), address.ends_with(":443")));
                host = HttpdHost::new(Door { ip: None, ..door.unwrap_or(Door::HTTP) });
            }
            ("</virtualhost", _) => {
                host.end(&mut outline);
                host = HttpdHost::new(Door::HTTP);
            }
            ("servername" | "serveralias", names) => {
                host.names.extend(names.iter().map(|name| name.split(':').next().unwrap_or(name).to_owned()));
            }
            ("sslengine", ["on" | "On", ..]) => host.door.is_tls = true,
            ("documentroot", [root, ..]) if root.starts_with('/') => host.root = Some((*root).to_owned()),
            ("proxypass", [path, url, ..]) if path.starts_with('/') => host.pass(path, url),
            ("redirect", arguments) => host.redirect(arguments),
            _ => {}
        }
        if let Some(guard) =
            GUARDS.iter().find(|guard| guard.eq_ignore_ascii_case(word)).filter(|_| arguments != ["all", "granted"])
        {
            let guard = (*guard).to_owned();
            if !host.guards.contains(&guard) {
                host.guards.push(guard);
            }
        }
    }
    host.end(&mut outline);
    outline.or_without(NO_HOST)
}

struct HttpdHost {
    door: Door,
    names: Vec<String>,
    root: Option<String>,
    routes: Vec<OutlinedRoute>,
    answer: Option<OutlinedAnswer>,
    guards: Vec<String>,
}

impl HttpdHost {
    fn new(door: Door) -> HttpdHost {
        HttpdHost { door, names: Vec::new(), root: None, routes: Vec::new(), answer: None, guards: Vec::new() }
    }

    fn pass(&mut self, path: &str, url: &str) {
        let Some(address) = upstream(url.split('|').next().unwrap_or_default()) else { return };
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
    }

    fn redirect(&mut self, arguments: &[&str]) {
        let status = match arguments.first() {
            Some(&"permanent") => 301,
            Some(word) => word.parse().unwrap_or(302),
            None => return,
        };
        let [.., path, to] = arguments else { return };
        if *path == "/" && to.contains("://") {
            self.answer.get_or_insert(OutlinedAnswer::Redirect { to: format!("{}{{uri}}", to.trim_end_matches('/')), status });
        }
    }

    fn end(&mut self, outline: &mut Outline) {
        let root = self.root.take();
        let files = || root.map(|root| OutlinedAnswer::Files { root, strip: None, fallback: None, is_listing: false });
        let answer = self.answer.take().or_else(files);
        let is_of_names = |to: &str| self.names.iter().any(|name| to == format!("https://{name}{{uri}}"));
        let is_to_https = matches!(&answer, Some(OutlinedAnswer::Redirect { to, .. }) if !self.door.is_tls && is_of_names(to));
        if is_to_https || (answer.is_none() && self.routes.is_empty()) {
            return;
        }
        if let Some(addresses) = addresses(&self.names, self.door) {
            let (routes, guards) = (std::mem::take(&mut self.routes), std::mem::take(&mut self.guards));
            outline.services.push(Service::Site(OutlinedSite { addresses, routes, answer, guards, ..OutlinedSite::default() }));
        }
    }
}
