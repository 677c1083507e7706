//! `tidegate logs`: the lines of an access log, and those that come, as far as they fit. Reads the file that the
//! configuration names, another one, or standard input; lines are those of the JSON form.

use crate::cli::LogsWanted;
use crate::output;
use serde_json::Value;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tidegate_model::{AccessLogFormat, LogTarget};

/// How soon a line is seen.
const POLL: Duration = Duration::from_millis(200);
/// The most of a line that is read; the program writes none that is longer.
const LINE_BYTES_MAX: u64 = 256 << 10;

pub fn run(wanted: &LogsWanted) -> ExitCode {
    let filter = match Filter::new(wanted) {
        Ok(filter) => filter,
        Err(fault) => return super::fail(&fault),
    };
    let file = match &wanted.file {
        Some(file) => Ok(file.clone()),
        None => file_of(&wanted.config),
    };
    let file = match file {
        Ok(file) => file,
        Err(fault) => return super::fail(&fault),
    };
    let outcome = if file == Path::new("-") { filter.pass(&mut io::stdin().lock()) } else { follow(&file, wanted, &filter) };
    match outcome {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => super::fail(&format!("the log cannot be read: {error}")),
        Ok(()) if filter.knew_no_line() => super::fail(&format!(
            "no line of `{}` can be told apart: what is asked for is looked up in lines of JSON\n  help: one more `access-log \"FILE\" format=\"json\"` in the configuration is written beside the other",
            file.display()
        )),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// The first log in a file whose lines can be told apart. Where there are several, which one it is is said.
fn file_of(config: &Path) -> Result<PathBuf, String> {
    let loaded = super::load(config);
    let Some(configuration) = &loaded.configuration else {
        super::report(&loaded);
        return Err("the configuration does not say where the log is\n  help: name it with `--file`".into());
    };
    let files = configuration.access_logs.iter().filter(|log| log.format == AccessLogFormat::Json);
    let mut files = files.filter_map(|log| match &log.target {
        LogTarget::File { path, rotation: _ } => Some(path.clone()),
        LogTarget::Off | LogTarget::Stdout | LogTarget::Stderr | LogTarget::Syslog(_) => None,
    });
    let first = files.next();
    if let (Some(first), more @ 1.., false) = (&first, files.count(), output::is_json()) {
        eprintln!("note: lines are those of `{}`; {more} more of JSON can be named by `--file`", first.display());
    }
    first.ok_or_else(|| {
        "no access log is a file of JSON lines\n  help: name one with `--file`, or read standard input, as in `journalctl -u tidegate -o cat -f | tidegate logs --file -`".into()
    })
}

fn follow(path: &Path, wanted: &LogsWanted, filter: &Filter) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut begun = filter.pass_last(&mut reader, wanted.lines)?;
    if !wanted.follow {
        return filter.pass_rest(&begun);
    }
    if filter.knew_no_line() {
        return Ok(());
    }
    loop {
        filter.pass_on(&mut reader, &mut begun)?;
        std::thread::sleep(POLL);
        let here = reader.get_ref().metadata()?;
        match std::fs::metadata(path) {
            // Rotated: what was written to the old one meanwhile comes first.
            Ok(now) if (now.dev(), now.ino()) != (here.dev(), here.ino()) => {
                // Files in the middle of being renamed are found the next time.
                let Some(next) = files_behind(path, &here) else { continue };
                filter.pass_on(&mut reader, &mut begun)?;
                for file in next {
                    filter.pass_rest(&std::mem::take(&mut begun))?;
                    reader = BufReader::new(file);
                    filter.pass_on(&mut reader, &mut begun)?;
                }
            }
            Ok(now) if now.len() < reader.stream_position()? => {
                begun.clear();
                reader.seek(SeekFrom::Start(0))?;
            }
            // Between two names there is none for a moment.
            Ok(_) | Err(_) => {}
        }
    }
}

/// The most old files that are looked for behind a log, as many as a log may keep.
const OLD_MAX: u32 = 1000;

/// The files that were begun since this one was, up to the log itself. More than one where it was rotated several times
/// at once: `log.1` is the newest of the old ones, as the program and logrotate name them. `None` when they are being
/// renamed now.
fn files_behind(path: &Path, here: &std::fs::Metadata) -> Option<Vec<File>> {
    let old = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let is_here = |found: std::fs::Metadata| (found.dev(), found.ino()) == (here.dev(), here.ino());
    let is_at = |number: u32| std::fs::metadata(old(number)).is_ok_and(is_here);
    let position = (1..=OLD_MAX).take_while(|number| old(*number).exists()).find(|number| is_at(*number));
    let mut files = Vec::new();
    for number in (1..position.unwrap_or(1)).rev() {
        let file = File::open(old(number)).ok()?;
        // Whoever counts upwards has older ones there.
        if file.metadata().ok()?.modified().ok()? >= here.modified().ok()? {
            files.push(file);
        }
    }
    files.push(File::open(path).ok()?);
    position.is_none_or(is_at).then_some(files)
}

/// What a line has to say to be shown. All of it has to hold.
#[derive(Debug, Default)]
struct Filter {
    statuses: Option<(u64, u64)>,
    least_us: Option<u64>,
    /// Key and value.
    equal: Vec<(&'static str, String)>,
    path: Option<String>,
    seen: Seen,
}

/// Lines that were looked at.
#[derive(Debug, Default)]
struct Seen {
    lines: Cell<u64>,
    of_json: Cell<u64>,
}

impl Filter {
    fn new(wanted: &LogsWanted) -> Result<Filter, String> {
        let named = [
            ("site", &wanted.site),
            ("route", &wanted.route),
            ("method", &wanted.method),
            ("pool", &wanted.pool),
            ("client_ip", &wanted.client),
            ("request_id", &wanted.request_id),
            ("reason", &wanted.reason),
        ];
        let equal = named.into_iter().filter_map(|(key, value)| Some((key, value.clone()?))).collect();
        let statuses = wanted.status.as_deref().map(statuses_of).transpose()?;
        let least_us = wanted.slower_than.map(|least| u64::try_from(least.as_micros()).unwrap_or(u64::MAX));
        if let Some(path) = wanted.path.as_deref().filter(|path| path.strip_suffix("/*").unwrap_or(path).contains('*')) {
            return Err(format!(
                "`--path {path}` is no path\n  help: `/cart` is that path, and `/cart/*` all below it; other stars are not understood here"
            ));
        }
        Ok(Filter { statuses, least_us, equal, path: wanted.path.clone(), seen: Seen::default() })
    }

    /// There were lines, and none that what was asked for could be looked up in.
    fn knew_no_line(&self) -> bool {
        self.seen.lines.get() > 0 && self.seen.of_json.get() == 0
    }

    fn is_none(&self) -> bool {
        let Filter { statuses, least_us, equal, path, seen: _ } = self;
        statuses.is_none() && least_us.is_none() && equal.is_empty() && path.is_none()
    }

    fn fits(&self, line: &[u8]) -> bool {
        if self.is_none() {
            return true;
        }
        self.seen.lines.update(|lines| lines + 1);
        let Ok(line) = serde_json::from_slice::<Value>(line) else { return false };
        self.seen.of_json.update(|lines| lines + 1);
        let number = |key: &str| line[key].as_u64();
        self.statuses.is_none_or(|(first, last)| number("status").is_some_and(|status| (first..=last).contains(&status)))
            && self.least_us.is_none_or(|least| number("duration_us").is_some_and(|took| took >= least))
            && self.equal.iter().all(|(key, value)| line[*key].as_str() == Some(value))
            && self.path.as_deref().is_none_or(|wanted| line["path"].as_str().is_some_and(|path| is_path(path, wanted)))
    }

    /// Shows what fits of all that is there.
    fn pass(&self, reader: &mut impl BufRead) -> io::Result<()> {
        let mut begun = Vec::new();
        self.pass_on(reader, &mut begun)?;
        self.pass_rest(&begun)
    }

    /// Shows what fits of the whole lines that are there, the first of which may have begun before.
    fn pass_on(&self, reader: &mut impl BufRead, begun: &mut Vec<u8>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        each_line(reader, begun, |line| if self.fits(line) { out.write_all(line) } else { Ok(()) })?;
        out.flush()
    }

    /// Shows a line without an end, which gets no other, if it fits.
    fn pass_rest(&self, line: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if !line.is_empty() && self.fits(line) {
            out.write_all(line)?;
        }
        out.flush()
    }

    /// Shows the last so many of what fits. Gives the beginning of a line that is not whole.
    fn pass_last(&self, reader: &mut impl BufRead, lines: usize) -> io::Result<Vec<u8>> {
        let (mut last, mut begun): (VecDeque<Vec<u8>>, _) = (VecDeque::new(), Vec::new());
        each_line(reader, &mut begun, |line| {
            if lines > 0 && self.fits(line) {
                if last.len() == lines {
                    last.pop_front();
                }
                last.push_back(line.to_vec());
            }
            Ok(())
        })?;
        let mut out = io::stdout().lock();
        last.iter().try_for_each(|line| out.write_all(line))?;
        out.flush()?;
        Ok(begun)
    }
}

/// Whole lines with their ends. Of one that is not whole the beginning is left in `begun`: the writer may be in the
/// middle of it.
fn each_line(reader: &mut impl BufRead, begun: &mut Vec<u8>, mut see: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    loop {
        let room = LINE_BYTES_MAX.saturating_sub(begun.len() as u64);
        if io::Read::take(&mut *reader, room).read_until(b'\n', begun)? == 0 && room > 0 {
            return Ok(());
        }
        if begun.ends_with(b"\n") || begun.len() as u64 >= LINE_BYTES_MAX {
            see(begun)?;
            begun.clear();
        }
    }
}

/// `/a` is that path, `/a/*` all below it.
fn is_path(path: &str, wanted: &str) -> bool {
    match wanted.strip_suffix("/*") {
        Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        None => path == wanted,
    }
}

/// `404`, `5xx`, `500-599`
fn statuses_of(text: &str) -> Result<(u64, u64), String> {
    let bad = || format!("`{text}` is no status\n  help: for example `404`, `5xx` or `500-599`");
    if let Some(class) = text.strip_suffix("xx") {
        let class: u64 = class.parse().ok().filter(|class| (1..=5).contains(class)).ok_or_else(bad)?;
        return Ok((class * 100, class * 100 + 99));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok().filter(|status| (100..=599).contains(status));
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, LINE_BYTES_MAX, LogsWanted, each_line, is_path, statuses_of};

    #[test]
    fn statuses_are_one_or_many() {
        assert_eq!(statuses_of("404"), Ok((404, 404)));
        assert_eq!(statuses_of("5xx"), Ok((500, 599)));
        assert_eq!(statuses_of("200-204"), Ok((200, 204)));
        for bad in ["", "xx", "6xx", "99", "600", "204-200", "a"] {
            assert!(statuses_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_line_fits_where_all_of_it_holds() {
        let line = br#"{"site":"https://a.example","route":"cart","path":"/cart/1","status":502,"duration_us":1500}"#;
        let check = |filter: Filter, expected: bool| assert_eq!(filter.fits(line), expected, "{filter:?}");
        check(Filter::default(), true);
        check(Filter { statuses: Some((500, 599)), least_us: Some(1500), ..Filter::default() }, true);
        check(Filter { statuses: Some((500, 599)), least_us: Some(1501), ..Filter::default() }, false);
        check(Filter { equal: vec![("route", "cart".into())], path: Some("/cart/*".into()), ..Filter::default() }, true);
        check(Filter { equal: vec![("route", "other".into())], ..Filter::default() }, false);
        check(Filter { equal: vec![("pool", "app".into())], ..Filter::default() }, false);
        assert!(!Filter { least_us: Some(1), ..Filter::default() }.fits(b"no JSON"));
        assert!(Filter::default().fits(b"no JSON"));
        let filter = Filter { least_us: Some(1), ..Filter::default() };
        assert!(!filter.knew_no_line());
        assert!(!filter.fits(b"no JSON") && filter.knew_no_line());
        assert!(filter.fits(line) && !filter.knew_no_line());
    }

    #[test]
    fn paths_are_exact_or_below() {
        assert!(is_path("/a", "/a") && is_path("/a", "/a/*") && is_path("/a/b", "/a/*"));
        assert!(!is_path("/ab", "/a/*") && !is_path("/a/b", "/a"));
        assert!(is_path("/anything", "/*"));
        for path in ["/l*", "*", "/a/*/b", "/a/**"] {
            let wanted = LogsWanted { path: Some(path.to_owned()), ..LogsWanted::default() };
            assert!(Filter::new(&wanted).is_err_and(|why| why.contains("`/cart/*` all below it")), "{path}");
        }
    }

    #[test]
    fn lines_keep_their_ends() {
        let (mut seen, mut begun) = (Vec::new(), Vec::new());
        for part in [&b"a\nbc\nd"[..], b"", b"ef", b"g\nh\n"] {
            each_line(&mut &*part, &mut begun, |line| {
                seen.push(line.to_vec());
                Ok(())
            })
            .expect("memory");
        }
        assert_eq!(seen, [&b"a\n"[..], b"bc\n", b"defg\n", b"h\n"]);
        assert!(begun.is_empty());
        let mut long = Vec::new();
        let line = vec![b'x'; LINE_BYTES_MAX as usize + 5];
        each_line(&mut &*line, &mut long, |line| {
            assert_eq!(line.len() as u64, LINE_BYTES_MAX);
            Ok(())
        })
        .expect("memory");
        assert_eq!(long.len(), 5);
    }
}
