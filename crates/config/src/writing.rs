//! Parts of the model as the lines that they are read from, each on one line: what `lower` of a directive reads, its
//! `write` writes. Start at `step` and `terminal`. Whole files are laid out by `document`, which works on what was
//! written and not on the model.

use crate::directives::{
    allow, basic_auth, body_limit, cache, client_auth, compress, concurrency_limit, cors, decompress, error_page, fastcgi, files,
    header, log, matching, mirror, path_policy, pool, proxy, rate_limit, redirect, respond, rewrite, split, timeout,
};
use tidegate_model::{Condition, Discover, MatchLine, PoolName, RouteRetry, Step, Terminal};

pub use crate::directives::pool::retry::show_retry_on;
pub use crate::forms::{show_network, show_status_range};
pub use crate::patterns::{show_path, show_text};
pub use crate::units::{show_duration, show_size};
pub use crate::written_line::{Form, HIDDEN, Writer, is_secret, joined, name_of, quoted, shortened};

/// `strip-prefix "/api"`
pub fn step(step: &Step, form: Form) -> String {
    let line = &mut Writer::new(form);
    match step {
        Step::RequestHeader(changes) => header::write(line.name("request-header"), changes),
        Step::ResponseHeader(changes) => header::write(line.name("response-header"), changes),
        Step::Rewrite { pattern, to } => rewrite::write(line, pattern.as_ref(), to),
        Step::StripPrefix(prefix) => rewrite::write_prefix(line, "strip-prefix", prefix),
        Step::AddPrefix(prefix) => rewrite::write_prefix(line, "add-prefix", prefix),
        Step::BodyLimit { bytes_max } => body_limit::write(line, *bytes_max),
        Step::PathPolicy(policy) => path_policy::write(line, *policy),
        Step::Allow(networks) => allow::write(line.name("allow"), networks),
        Step::Deny(networks) => allow::write(line.name("deny"), networks),
        Step::Cors(cors) => cors::write(line, cors),
        Step::BasicAuth(None) => line.off("basic-auth"),
        Step::BasicAuth(Some(auth)) => basic_auth::write(line, auth),
        Step::ClientAuth(demand) => client_auth::write_step(line, *demand),
        Step::ErrorPage(page) => error_page::write(line, page),
        Step::RateLimit(limit) => rate_limit::write(line, limit),
        Step::ConcurrencyLimit(limit) => concurrency_limit::write(line, limit),
        Step::Compress(None) => line.off("compress"),
        Step::Compress(Some(compress)) => compress::write(line, compress),
        Step::Decompress(None) => line.off("decompress"),
        Step::Decompress(Some(decompress)) => decompress::write(line, decompress),
        Step::Cache(None) => line.off("cache"),
        Step::Cache(Some(cache)) => cache::write(line, cache),
        Step::Mirror(None) => line.off("mirror"),
        Step::Mirror(Some(mirror)) => mirror::write(line, mirror),
        Step::Log(log) => log::write(line, log),
        Step::Timeout(timeouts) => timeout::write(line, timeouts),
    }
    line.take()
}

/// `respond 200 body="ok"`
pub fn terminal(terminal: &Terminal, form: Form) -> String {
    let line = &mut Writer::new(form);
    match terminal {
        Terminal::Respond { status, body, content_type } => respond::write(line, *status, body, content_type.as_deref()),
        Terminal::Redirect { to, status } => redirect::write(line, to, *status),
        Terminal::Proxy { pool, retry } => proxy::write(line, pool, retry),
        Terminal::Files(files) => files::write(line, files),
        Terminal::FastCgi(fastcgi) => fastcgi::write(line, fastcgi),
        Terminal::Split(split) => split::write(line, split),
    }
    line.take()
}

/// `proxy "api" { retry attempts=2 }`
pub fn proxy(pool: &PoolName, retry: &RouteRetry) -> String {
    let line = &mut Writer::new(Form::Shown);
    proxy::write(line, pool, retry);
    line.take()
}

/// `dns="api.internal:8080" ttl-min="1s" ttl-max="5m"`: what stands behind the word `discover`.
pub fn discover(discover: &Discover, form: Form) -> String {
    let line = &mut Writer::new(form);
    pool::discover::write(line, discover);
    line.take()
}

/// `match method="GET,POST" not client="10.0.0.0/8"`
pub fn match_line(line: &MatchLine, form: Form) -> String {
    let written = &mut Writer::new(form);
    matching::write(written, line);
    written.take()
}

/// `not header="x-channel: beta*"`
pub fn condition(condition: &Condition) -> String {
    let line = &mut Writer::new(Form::Shown);
    matching::write_condition(line, condition);
    line.take()
}

#[cfg(test)]
mod tests {
    use super::{Form, match_line, step, terminal};
    use crate::diagnostics::{Location, SourceFile, Sources};
    use crate::directives::tests::loaded_examples;
    use crate::directives::{LANGUAGE, matching};
    use crate::language::{Lower, Seen};
    use crate::load::load_path;
    use crate::lowering::{Environment, Lowering};
    use crate::syntax;
    use crate::table::Place;
    use std::path::Path;
    use std::sync::Arc;
    use tidegate_model::{Configuration, MatchLine, PoolName, Route, Step, Terminal};

    #[derive(Debug, PartialEq)]
    enum Part {
        Match(MatchLine),
        Step(Step),
        Terminal(Terminal),
    }

    fn lowered(text: &str, configuration: &Configuration) -> Result<Part, String> {
        let mut sources = Sources::default();
        let file = SourceFile { name: "written".into(), text: text.into(), directory: "/".into() };
        let file = sources.add(file);
        let nodes = syntax::parse(&sources, file).map_err(|errors| format!("{errors:?}"))?;
        let environment = Environment::Given([].into());
        let mut lowering = Lowering::new(&sources, &environment);
        let somewhere = |pool: &Arc<tidegate_model::Pool>| {
            let at = Location { file, span: 0..0 };
            (
                pool.name.to_string(),
                crate::lowering::WrittenPool { at, is_fastcgi: pool.protocol == tidegate_model::Protocol::FastCgi },
            )
        };
        lowering.pools_written = Arc::new(configuration.pools.iter().map(somewhere).collect());
        let line = LANGUAGE.line(&mut lowering, &nodes[0], Place::Route, &mut Seen::new());
        let part = line.and_then(|line| match line.directive.lower {
            Lower::Step(lower) => lower(&mut lowering, &line).map(Part::Step),
            Lower::Terminal(lower) => lower(&mut lowering, &line).map(Part::Terminal),
            _ => matching::read_line(&mut lowering, &line).map(Part::Match),
        });
        part.ok_or_else(|| format!("{:?}", lowering.diagnostics))
    }

    /// What is written is lowered to what it was written from; how many parts there were.
    fn check_round_trip(configuration: &Configuration) -> usize {
        // A pool written in place has a name that is made of its servers and a digest of its settings, and that nobody
        // writes.
        let is_made = |pool: &PoolName| pool.0.contains(['#', ',']);
        let mut parts = Vec::new();
        for site in &configuration.sites {
            parts.extend(site.steps.iter().cloned().map(Part::Step));
            for Route { paths: _, matches, steps, terminal } in &site.routes {
                parts.extend(matches.iter().cloned().map(Part::Match));
                parts.extend(steps.iter().cloned().map(Part::Step));
                parts.push(Part::Terminal(terminal.clone()));
            }
        }
        parts.retain(|part| match part {
            Part::Step(Step::Mirror(Some(mirror))) => !is_made(&mirror.pool),
            Part::Terminal(Terminal::Proxy { pool, .. }) => !is_made(pool),
            Part::Terminal(Terminal::FastCgi(fastcgi)) => !is_made(&fastcgi.pool),
            Part::Terminal(Terminal::Split(split)) => !split.arms.iter().any(|arm| is_made(&arm.pool)),
            Part::Match(_) | Part::Step(_) | Part::Terminal(_) => true,
        });
        for part in &parts {
            let text = match part {
                Part::Match(line) => match_line(line, Form::Whole),
                Part::Step(one) => step(one, Form::Whole),
                Part::Terminal(one) => terminal(one, Form::Whole),
            };
            assert_eq!(lowered(&text, configuration).as_ref(), Ok(part), "for {text}");
        }
        parts.len()
    }

    #[test]
    fn what_is_written_is_lowered_to_what_it_was_written_from() {
        let of_directives: usize = loaded_examples().iter().map(check_round_trip).sum();
        assert!(of_directives > 100, "{of_directives}");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let examples = std::fs::read_dir(root.join("examples")).expect("there are examples");
        let files = examples.map(|entry| entry.expect("it can be listed").path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "kdl"));
        let of_examples: usize = files.filter_map(|path| load_path(&path).configuration.as_ref().map(check_round_trip)).sum();
        assert!(of_examples > 50, "{of_examples}");
    }
}
