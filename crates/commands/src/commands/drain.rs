//! `tidegate drain` and `undrain`: servers out of use, and back.

use super::reach;
use crate::cli::Running;
use crate::output;
use std::process::ExitCode;
use tidegate_admin::client::path_segment;
use tidegate_api::{NoOptions, Pools, Server};

/// `word` is `drain` or `undrain`, as the API has it.
pub fn run(server: &str, word: &str, running: &Running) -> ExitCode {
    if !server.contains('/') {
        return super::fail(&format!(
            "`{server}` is not a pool and a server\n  help: write `POOL/SERVER`, as `tidegate status` lists them"
        ));
    }
    reach::with(reach::running(running), |client| {
        let pools: Pools = client.fetch("/v1/pools")?;
        let (pool, address) = split(server, &pools);
        let path = format!("/v1/pools/{}/servers/{}/{word}", path_segment(&pool), path_segment(&address));
        let server: Server = client.post(&path, &NoOptions {}, None)?;
        let in_flight = server.requests_in_flight;
        output::say(&server, || {
            let (address, state) = (&server.address, server.state.as_str());
            format!("{pool}/{address}: {state}, {in_flight} request{} in flight\n", super::plural(in_flight as usize))
        });
        Ok(())
    })
}

/// Names of pools may have slashes, so it is looked up where one ends. What is not found is for the process to refuse.
fn split(word: &str, pools: &Pools) -> (String, String) {
    let known = pools.pools.iter().map(|pool| pool.name.as_str());
    let longest =
        known.filter(|name| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))).max_by_key(|name| name.len());
    let at = longest.map(str::len).or_else(|| word.find('/')).unwrap_or(word.len());
    (word[..at].to_owned(), word[at..].trim_start_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::split;
    use tidegate_api::{Pool, Pools};

    #[test]
    fn the_pool_ends_where_its_name_does() {
        let pool = |name: &str| Pool {
            name: name.to_owned(),
            origin: None,
            balance: "p2c".into(),
            servers: Vec::new(),
            sources: Vec::new(),
            requests: 0,
            retries: 0,
            errors: 0,
            errors_by_reason: Vec::new(),
            connections_opened: 0,
            connections_reused: 0,
            connections_active: 0,
            connections_idle: 0,
        };
        let pools = Pools { generation: 1, pools: vec![pool("app"), pool("https://a.test"), pool("https:")] };
        let check = |word: &str, pool: &str, server: &str| {
            assert_eq!(split(word, &pools), (pool.to_owned(), server.to_owned()), "{word}");
        };
        check("app/10.0.0.1:80", "app", "10.0.0.1:80");
        check("app/https://10.0.0.1", "app", "https://10.0.0.1");
        check("https://a.test/https://a.test:443", "https://a.test", "https://a.test:443");
        check("other/10.0.0.1:80", "other", "10.0.0.1:80");
    }
}
