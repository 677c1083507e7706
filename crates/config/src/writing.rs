//! Parts of the model as the lines that they are read from, each on one line: what `lower` of a directive reads, its
//! `write` writes. Start at `block` and `terminal`. Whole files are laid out by `document`, which works on what was
//! written and not on the model.

use crate::directives::{
    allow, basic_auth, body_limit, cache, client_auth, compress, concurrency_limit, cors, decompress, error_page, fastcgi, files,
    header, log, matching, mirror, path_policy, pool, proxy, rate_limit, redirect, respond, rewrite, split, timeout,
};
use std::fmt::Debug;
use tidegate_model::{Condition, Discover, MatchLine, PoolName, RouteOptions, RouteRetry, Step, Terminal};

pub use crate::directives::pool::retry::show_retry_on;
pub use crate::forms::{show_network, show_status_range};
pub use crate::patterns::{show_path, show_text};
pub use crate::units::{show_duration, show_size};
pub use crate::written_line::{Form, HIDDEN, Writer, is_secret, joined, name_of, quoted, shortened};

/// The lines of a site or a route, each with what it says, but for what is matched and what answers: the options that
/// are set, in the order of the reference, and its steps.
pub fn block<'m>(options: &'m RouteOptions, steps: &'m [Step], form: Form) -> Vec<(&'m dyn Debug, String)> {
    let RouteOptions { path_policy, error_pages, compress, decompress, cache, timeouts, mirrors, log } = options;
    let mut written = Vec::new();
    let mut add = |part: &'m dyn Debug, write: &dyn Fn(&mut Writer)| {
        let line = &mut Writer::new(form);
        write(line);
        written.extend(Some((part, line.take())).filter(|(_, text)| !text.is_empty()));
    };
    if let Some(policy) = path_policy {
        add(policy, &|line| path_policy::write(line, policy));
    }
    for page in error_pages {
        add(page, &|line| error_page::write(line, page));
    }
    add(compress, &|line| line.switched("compress", compress, compress::write));
    add(decompress, &|line| line.switched("decompress", decompress, decompress::write));
    add(cache, &|line| line.switched("cache", cache, cache::write));
    add(timeouts, &|line| timeout::write(line, timeouts));
    if mirrors.are_off_before {
        add(&mirrors.are_off_before, &|line| line.off("mirror"));
    }
    for mirror in &mirrors.named {
        add(mirror, &|line| mirror::write(line, mirror));
    }
    add(log, &|line| log::write(line, log));
    for step in steps {
        add(step, &|line| write_step(line, step));
    }
    written
}

/// `strip-prefix "/api"`
fn write_step(line: &mut Writer, step: &Step) {
    match step {
        Step::RequestHeader(changes) => header::write(line.name("request-header"), changes),
        Step::ResponseHeader(changes) => header::write(line.name("response-header"), changes),
        Step::Rewrite { pattern, to } => rewrite::write(line, pattern.as_ref(), to),
        Step::StripPrefix(prefix) => rewrite::write_prefix(line, "strip-prefix", prefix),
        Step::AddPrefix(prefix) => rewrite::write_prefix(line, "add-prefix", prefix),
        Step::BodyLimit { bytes_max } => body_limit::write(line, *bytes_max),
        Step::Allow(networks) => allow::write(line.name("allow"), networks),
        Step::Deny(networks) => allow::write(line.name("deny"), networks),
        Step::Cors(cors) => cors::write(line, cors),
        Step::BasicAuth(None) => line.off("basic-auth"),
        Step::BasicAuth(Some(auth)) => basic_auth::write(line, auth),
        Step::ClientAuth(demand) => client_auth::write_step(line, *demand),
        Step::RateLimit(limit) => rate_limit::write(line, limit),
        Step::ConcurrencyLimit(limit) => concurrency_limit::write(line, limit),
    }
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
    use super::{Form, block, match_line, terminal};
    use crate::diagnostics::{Diagnostic, Location, SourceFile, Sources};
    use crate::directives::tests::loaded_examples;
    use crate::directives::{LANGUAGE, matching};
    use crate::language::{Lower, Seen};
    use crate::load::load_path;
    use crate::lowering::{Environment, Lowering};
    use crate::syntax;
    use crate::table::Place;
    use std::path::Path;
    use std::sync::Arc;
    use tidegate_model::{Configuration, MatchLine, PoolName, Route, RouteOptions, Step, Terminal};

    /// What stands in a block.
    #[derive(Debug, Default, PartialEq)]
    struct Block {
        matches: Vec<MatchLine>,
        options: RouteOptions,
        steps: Vec<Step>,
        terminal: Option<Terminal>,
    }

    fn lowered(text: &str, configuration: &Configuration) -> Result<Block, String> {
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
        let (mut block, mut seen) = (Block::default(), Seen::new());
        for node in &nodes {
            let Some(line) = LANGUAGE.line(&mut lowering, node, Place::Route, &mut seen) else { continue };
            match line.directive.lower {
                Lower::Step(lower) => block.steps.extend(lower(&mut lowering, &line)),
                Lower::Option(lower) => lower(&mut lowering, &mut block.options, &line),
                Lower::Terminal(lower) => block.terminal = lower(&mut lowering, &line),
                _ => block.matches.extend(matching::read_line(&mut lowering, &line)),
            }
        }
        let is_faulty = lowering.diagnostics.iter().any(Diagnostic::is_error);
        if is_faulty { Err(format!("{:?}", lowering.diagnostics)) } else { Ok(block) }
    }

    /// What is written is lowered to what it was written from; how many lines there were.
    fn check_round_trip(configuration: &Configuration) -> usize {
        // A pool written in place has a name that is made of its servers and a digest of its settings, and that nobody
        // writes.
        let is_made = |pool: &PoolName| pool.0.contains(['#', ',']);
        let mut blocks = Vec::new();
        for site in &configuration.sites {
            blocks.push(Block { options: site.options.clone(), steps: site.steps.clone(), ..Block::default() });
            for Route { paths: _, matches, options, steps, terminal } in site.routes.iter().cloned() {
                blocks.push(Block { matches, options, steps, terminal: Some(terminal) });
            }
        }
        let mut count = 0;
        for mut expected in blocks {
            expected.options.mirrors.named.retain(|mirror| !is_made(&mirror.pool));
            expected.terminal = expected.terminal.filter(|terminal| match terminal {
                Terminal::Proxy { pool, .. } => !is_made(pool),
                Terminal::FastCgi(fastcgi) => !is_made(&fastcgi.pool),
                Terminal::Split(split) => !split.arms.iter().any(|arm| is_made(&arm.pool)),
                Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_) => true,
            });
            let Block { matches, options, steps, terminal: end } = &expected;
            let mut lines: Vec<String> = matches.iter().map(|line| match_line(line, Form::Whole)).collect();
            lines.extend(block(options, steps, Form::Whole).into_iter().map(|(_, text)| text));
            lines.extend(end.as_ref().map(|end| terminal(end, Form::Whole)));
            let text = lines.join("\n");
            assert_eq!(lowered(&text, configuration).as_ref(), Ok(&expected), "for {text}");
            count += lines.len();
        }
        count
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
