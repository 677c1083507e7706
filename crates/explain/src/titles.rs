//! Titles of routes and shares of pools, as both `plan` and `explain` show them: what a line says in short. Lines and
//! settings themselves are written by `tidegate_config::writing`.

use tidegate_config::writing::{Form, match_line, quoted, shortened, show_path};
use tidegate_model::{ArmEnd, Filled, ListenAddress, PoolName, Route, Split, SplitArm, TcpTarget, Terminal};

/// `route "/api/*" match method="POST" → pool api`, on one line.
pub fn route_title(route: &Route, filled: &Filled) -> String {
    let short = |text: &str| shortened(&filled.shown(text));
    let mut title = "route".to_owned();
    for pattern in &route.paths {
        title.push_str(&format!(" {}", quoted(&short(&show_path(pattern)))));
    }
    for (position, line) in route.matches.iter().enumerate() {
        title.push_str(if position == 0 { " " } else { " or " });
        title.push_str(&match_line(line, Form::Shown(filled)));
    }
    title.push_str(" → ");
    title.push_str(&match &route.terminal {
        Terminal::Respond { status, .. } => format!("respond {status}"),
        Terminal::Redirect { to, .. } => format!("redirect {}", short(&to.to_string())),
        Terminal::Proxy { pool, .. } => format!("pool {pool}"),
        Terminal::Files(files) => format!("files {}", short(&files.root.display().to_string())),
        Terminal::FastCgi(fastcgi) => format!("fastcgi {}", shortened(&fastcgi.pool.0)),
        Terminal::Split(split) => format!("split {}", shares(split)),
    });
    title
}

/// `95% pool web, 4% arm next: pool canary, 1% respond 500`
pub fn shares(split: &Split) -> String {
    let share = |(arm, percent): (&SplitArm, f64)| format!("{} {}", self::percent(percent), shown_arm(arm));
    split.percents().map(share).collect::<Vec<_>>().join(", ")
}

fn shown_arm(arm: &SplitArm) -> String {
    let end = match &arm.end {
        ArmEnd::Proxy { pool, .. } => format!("pool {pool}"),
        ArmEnd::Respond { status, .. } => format!("respond {status}"),
        ArmEnd::Redirect { status, .. } => format!("redirect with {status}"),
    };
    arm.name.as_ref().map_or(end.clone(), |name| format!("arm {name}: {end}"))
}

/// `95% pool web, 5% pool canary`
pub fn shares_of_connections(target: &TcpTarget) -> String {
    let share = |(pool, percent): (&PoolName, f64)| format!("{} pool {pool}", self::percent(percent));
    target.percents().map(share).collect::<Vec<_>>().join(", ")
}

/// `95%`, `33.3%`, and `<0.1%` for what would be shown as nothing.
fn percent(percent: f64) -> String {
    let rounded = (percent * 10.0).round() / 10.0;
    if rounded == 0.0 && percent > 0.0 { "<0.1%".to_owned() } else { format!("{rounded}%") }
}

/// `:443` for every address of the machine, as `listener` has it; else `192.0.2.1:443`, or `unix:/run/x.sock`.
pub fn shown_address(address: &str) -> String {
    address.parse().map_or_else(|_| address.to_owned(), |address| ListenAddress::Tcp(address).shown())
}

#[cfg(test)]
mod tests {
    use super::route_title;
    use std::path::Path;
    use std::time::Duration;
    use tidegate_config::load_text;
    use tidegate_config::writing::{Form, block, condition, show_duration, show_size, terminal};
    use tidegate_model::{Filled, Route};

    fn route(text: &str) -> Route {
        let loaded = load_text("test.kdl", &format!("site \"http://:80\" {{\n{text}\n}}\n"), Path::new("."));
        let configuration = loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics));
        configuration.sites[0].routes[0].clone()
    }

    #[test]
    fn conditions_read_as_they_are_written() {
        let check = |text: &str, expected: &str| {
            let route = route(&format!("route {{ match {text}; respond 200 }}"));
            let seen: Vec<String> = route.matches[0].conditions.iter().map(|one| condition(one, &Filled::default())).collect();
            assert_eq!(seen.join(" "), expected, "for {text}");
        };
        let as_written = |text: &str| check(text, text);
        as_written(r#"method="GET,POST""#);
        as_written(r#"not header="x-channel: beta*""#);
        as_written(r#"header="x-a: ~^b" header="x-c: *d" header="x-e""#);
        as_written(r#"path="/a/*" not path="~^/v[0-9]+""#);
        as_written(r#"query="a=b c" cookie="theme""#);
        as_written(r#"client="10.0.0.0/8,192.0.2.7" not host="*.example.com,a.test" scheme="https""#);
        check(r#"header="X-Api-Key: 12345""#, r#"header="x-api-key: …""#);
        check(r#"cookie="session=12345""#, r#"cookie="session=…""#);
    }

    #[test]
    fn steps_read_as_they_are_written() {
        let check = |text: &str, expected: &str| {
            let route = route(&format!("route {{ {text}; respond 200 }}"));
            assert_eq!(block(&route.options, &route.steps, Form::Shown(&Filled::default()))[0].1, expected, "for {text}");
        };
        let as_written = |text: &str| check(text, text);
        as_written(r#"strip-prefix "/api""#);
        as_written(r#"add-prefix "/v1""#);
        as_written(r#"rewrite "/new{path}""#);
        as_written(r#"rewrite "~^/old/(.*)" "/new/$1""#);
        as_written(r#"body-limit "10MB""#);
        as_written(r#"rate-limit "100/s" by="client-ip""#);
        as_written(
            r#"rate-limit "5/h" burst=10 cost=2 keys=1000 status=503 by="{request.header.x-api-key}" ipv6-prefix=56 name="api" headers=#false dry-run=#true"#,
        );
        as_written(r#"concurrency-limit 10 by="client-ip""#);
        as_written(r#"concurrency-limit 10 by="all""#);
        as_written(r#"concurrency-limit 10 status=429 by="all" ipv6-prefix=48 name="all" dry-run=#true"#);
        as_written(r#"request-header "Host" "a.internal" add="X-B: {client.ip}" default="X-C: d" remove="X-E""#);
        check(r#"header "A" "b""#, r#"response-header "A" "b""#);
        check(r#"request-header "Authorization" "Bearer 12345""#, r#"request-header "Authorization" "…""#);
    }

    #[test]
    fn answers_and_titles() {
        let check = |text: &str, expected_terminal: &str, expected_title: &str| {
            let route = route(text);
            assert_eq!(
                (
                    terminal(&route.terminal, Form::Shown(&Filled::default())).as_str(),
                    route_title(&route, &Filled::default()).as_str()
                ),
                (expected_terminal, expected_title)
            );
        };
        check(r#"respond 200 body="a\"b\n""#, r#"respond 200 body="a\"b\n""#, "route → respond 200");
        check(
            r#"route "/a" "/b/*" { match method="GET"; match client="10.0.0.0/8"; redirect "https://x.test{uri}" }"#,
            r#"redirect "https://x.test{uri}" status=302"#,
            r#"route "/a" "/b/*" match method="GET" or match client="10.0.0.0/8" → redirect https://x.test{uri}"#,
        );
        check(
            r#"fastcgi "php:9000" root="/srv/www""#,
            r#"fastcgi "php:9000#fastcgi" root="/srv/www""#,
            "route → fastcgi php:9000#fastcgi",
        );
        check(
            r#"fastcgi "unix:/run/a" root="/srv" index="a.cgi" fallback="/b.cgi" split=".cgi" static=#true { env "A" "{path}"; env "API_KEY" "x" }"#,
            r#"fastcgi "unix:/run/a#fastcgi" root="/srv" index="a.cgi" fallback="/b.cgi" split=".cgi" static=#true { env "A" "{path}"; env "API_KEY" "…" }"#,
            "route → fastcgi unix:/run/a#fastcgi",
        );
        check(r#"proxy "10.0.0.4:80""#, r#"proxy "10.0.0.4:80""#, "route → pool 10.0.0.4:80");
    }

    #[test]
    fn amounts_have_units_that_can_be_read_again() {
        let check = |milliseconds: u64, expected: &str| assert_eq!(show_duration(Duration::from_millis(milliseconds)), expected);
        check(0, "0s");
        check(250, "250ms");
        check(75_000, "75s");
        check(5_400_000, "90m");
        check(3_600_000, "1h");
        let check = |bytes: u64, expected: &str| assert_eq!(show_size(bytes), expected);
        check(100, "100B");
        check(64 << 10, "64KiB");
        check(10_000_000, "10MB");
    }
}
