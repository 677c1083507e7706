//! From the boundaries of a file, which a case lists, to the requests around them. The same requests each time: what is
//! drawn at random begins with a fixed number.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// How many requests a case has, where its boundaries give that many.
const REQUESTS_MAX: usize = 2000;
const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "OPTIONS", "DELETE"];

#[derive(Debug, Default)]
pub struct Seeds {
    hosts: Vec<String>,
    /// Paths at which something changes.
    paths: Vec<String>,
    queries: Vec<String>,
    headers: Vec<String>,
    methods: Vec<String>,
    /// Fields that upstreams show, beside those that neither side makes up.
    pub shown: Vec<String>,
}

impl Seeds {
    /// Lines of a word and a value: `host`, `path`, `query`, `header`, `method`, `show`.
    pub fn read(file: &Path) -> Result<Seeds, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut seeds = Seeds::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (word, value) = line.split_once(' ').ok_or_else(|| format!("{line} is no seed"))?;
            let list = match word {
                "host" => &mut seeds.hosts,
                "path" => &mut seeds.paths,
                "query" => &mut seeds.queries,
                "header" => &mut seeds.headers,
                "method" => &mut seeds.methods,
                "show" => &mut seeds.shown,
                _ => return Err(format!("{line} is no seed")),
            };
            list.push(value.to_owned());
        }
        if seeds.hosts.is_empty() || seeds.paths.is_empty() {
            return Err(format!("{} names no host or no path", file.display()));
        }
        seeds.methods.extend(METHODS.map(str::to_owned));
        Ok(seeds)
    }

    /// Boundaries that end with a slash, without it, as a regular expression of any of them.
    pub fn folders(&self) -> String {
        let folders = self.paths.iter().filter_map(|path| path.strip_suffix('/')).filter(|path| !path.is_empty());
        let all: Vec<String> =
            folders.flat_map(|path| [path.to_owned(), encoded_last_letter(path)]).map(|path| spelled(&path)).collect();
        if all.is_empty() { "(no folder)".to_owned() } else { format!("({})", all.join("|")) }
    }

    /// The first path for the first host, on the wire.
    pub fn first(&self) -> String {
        format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.paths[0], self.hosts[0])
    }

    /// As a file for `tidegate compare`.
    pub fn requests(&self) -> String {
        let mut paths: Vec<String> = self.paths.clone();
        paths.push("/".to_owned());
        let mut all: Vec<String> = paths.iter().flat_map(|path| around(path)).collect::<BTreeSet<_>>().into_iter().collect();
        // First those that stand in the file, so that none of them is left out.
        all.sort_by_key(|path| (!paths.contains(path), path.len()));
        let mut written = Written::default();
        let main = &self.hosts[0];
        for path in &all {
            written.add("GET", main, path, &[]);
        }
        for path in &paths {
            for host in self.hosts.iter().flat_map(|host| spellings(host)) {
                written.add("GET", &host, path, &[]);
            }
            for method in &self.methods {
                written.add(method, main, path, &[]);
            }
            for query in &self.queries {
                written.add("GET", main, &format!("{path}?{query}"), &[]);
            }
            for header in &self.headers {
                written.add("GET", main, path, &[header]);
            }
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        // Draws repeat each other; where there is little to draw from, that ends it.
        for _ in 0..REQUESTS_MAX * 4 {
            if written.count == REQUESTS_MAX {
                break;
            }
            let path = random.one_of(&all).clone();
            // Half of them twice as odd.
            let path = if random.one_in(2) { random.one_of(&around(&path)).clone() } else { path };
            let query = if !self.queries.is_empty() && random.one_in(3) {
                format!("?{}", random.one_of(&self.queries))
            } else {
                String::new()
            };
            let header = (!self.headers.is_empty() && random.one_in(2)).then(|| random.one_of(&self.headers).as_str());
            let method = if random.one_in(3) { random.one_of(&self.methods).clone() } else { "GET".to_owned() };
            let host = random.one_of(&self.hosts).clone();
            let joined = if path.contains('?') { path } else { format!("{path}{query}") };
            written.add(&method, &host, &joined, header.as_slice());
        }
        written.text
    }
}

#[derive(Default)]
struct Written {
    text: String,
    seen: BTreeSet<String>,
    count: usize,
}

impl Written {
    fn add(&mut self, method: &str, host: &str, target: &str, headers: &[&str]) {
        let mut request = format!("{method} {target}\n    Host: {host}\n");
        for header in headers {
            writeln!(request, "    {header}").expect("a text takes all");
        }
        if method == "POST" {
            request.push_str("\n    body\n");
        }
        if self.count < REQUESTS_MAX && self.seen.insert(request.clone()) {
            self.text.push_str(&request);
            self.count += 1;
        }
    }
}

/// A path as a regular expression, with any number of slashes for each of its own.
fn spelled(path: &str) -> String {
    regex::escape(path).replace('/', "/+")
}

/// A path and what lies just beside it.
fn around(path: &str) -> Vec<String> {
    let bare = path.trim_end_matches('/');
    let mut all = vec![
        path.to_owned(),
        format!("{bare}/"),
        format!("{bare}/x"),
        format!("{bare}x"),
        format!("{bare}/x/y.html"),
        format!("{bare}//x"),
        format!("/{path}"),
        format!("{bare}/./x"),
        format!("{bare}/../x"),
        format!("{bare}/x/.."),
        format!("{bare}/x/../y"),
        format!("{bare}/.."),
        format!("{bare}/%2e%2e/x"),
        format!("{bare}%2Fx"),
        format!("{bare}/x%20y"),
        format!("{bare}/x%3Fy"),
        format!("{bare}/%C3%A4"),
        format!("{bare};a=b"),
        format!("{bare}.php"),
        format!("{bare}/x.PNG"),
        format!("{bare}/.hidden"),
        format!("{bare}?a=1"),
        format!("{bare}/?"),
        format!("{bare}/x?a=/b/../c&d=%2F"),
        path.to_ascii_uppercase(),
        path.replacen('/', "//", 2),
    ];
    if !bare.is_empty() {
        all.push(bare.to_owned());
        all.push(bare[..bare.len() - 1].to_owned());
        all.push(encoded_last_letter(bare));
    }
    all.retain(|path| path.starts_with('/') && path.bytes().all(|byte| byte > b' ' && byte < 0x7f));
    all
}

/// `/api` is `/ap%69`.
fn encoded_last_letter(path: &str) -> String {
    let (rest, last) = path.split_at(path.len() - 1);
    format!("{rest}%{:02X}", last.as_bytes()[0])
}

/// A host as clients write it.
fn spellings(host: &str) -> Vec<String> {
    let mut all = vec![host.to_owned()];
    if host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)) {
        all.extend([
            host.to_ascii_uppercase(),
            format!("{host}:8080"),
            format!("{host}."),
            format!("x.{host}"),
            format!("x{host}"),
        ]);
    }
    all
}

/// Xorshift; the seed is not zero.
pub struct Random(u64);

impl Random {
    /// Numbers beside each other begin far apart.
    pub fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_in(&mut self, count: u64) -> bool {
        (self.next() >> 20).is_multiple_of(count)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + (self.next() >> 20) as usize % (most - least + 1)
    }

    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[(self.next() >> 20) as usize % list.len()]
    }
}
