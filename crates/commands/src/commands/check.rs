//! `tidegate check`: everything that is wrong with a configuration, on paper and on this machine.

mod rights;

use self::rights::UnitUser;
use super::diagnostics::json_of;
use super::{load, reach, report};
use crate::cli::{Reach, Sharing};
use crate::output;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_certs::default_state_dir;
use tidegate_config::{Diagnostic, Loaded, Location, Preset, Severity};
use tidegate_control::{Answering, Checked, Circumstances, Finding, HeldByRunning, NOT_SERVED, Place, Source, check};
use tidegate_model::Configuration;

pub fn run(file: &Path, sharing: Sharing) -> ExitCode {
    let mut loaded = load(file);
    let mut held_by_running = Vec::new();
    if let Some(configuration) = &loaded.configuration {
        let answering = || answering(configuration);
        let circumstances =
            Circumstances { source: &source_of(file, &loaded), share_port: sharing.share_port, answering: &answering };
        let Checked { findings, held } = check(configuration, circumstances, default_state_dir(), Timestamp::now());
        held_by_running = held;
        let diagnostics: Vec<_> = findings.into_iter().map(|finding| diagnostic(&loaded, finding)).collect();
        loaded.diagnostics.extend(
            diagnostics
                .into_iter()
                .filter(|new| !loaded.diagnostics.iter().any(|known| says_the_same(known, new)))
                .collect::<Vec<_>>(),
        );
    }
    let closed = closed_files(&loaded);
    loaded.diagnostics.extend(closed);
    let is_valid = !loaded.has_errors();
    if output::is_json() {
        let mut found = json_of(&loaded.diagnostics, &loaded.files);
        found["valid"] = is_valid.into();
        found["running"] = held_by_running.iter().map(json_of_running).collect();
        let preset = |preset: &Preset| json!({ "name": preset.name, "date": preset.date(), "source": preset.source() });
        found["presets"] = loaded.presets().into_iter().map(preset).collect();
        println!("{found}");
    } else {
        report(&loaded);
        for held in &held_by_running {
            eprintln!("{}", note(held, file, &loaded));
        }
        if is_valid {
            println!("{}: the configuration is valid{}", file.display(), not_served(&loaded.diagnostics));
            loaded.presets().into_iter().for_each(|preset| println!("{}", told(preset, Timestamp::now())));
        }
    }
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(super::FAILED) }
}

/// What root may read, and the user of the unit may not: each file once, where it is named first.
fn closed_files(loaded: &Loaded) -> Vec<Diagnostic> {
    const CHECKED_MAX: usize = 10_000;
    let Some(user) = UnitUser::of_this_machine() else { return Vec::new() };
    let Some(first) = loaded.files.first() else { return Vec::new() };
    let written = loaded.files.iter().map(|file| (PathBuf::from(&file.name), Location { file: first, span: 0..0 }));
    let named = loaded.spans.files.iter().cloned();
    let mut seen = BTreeSet::new();
    let files = written.chain(named).filter(|(path, _)| seen.insert(path.clone())).take(CHECKED_MAX);
    let told = files.filter_map(|(path, location)| {
        let obstacle = user.obstacle(&path)?;
        Some(Diagnostic::warning("closed-file", location, obstacle.message).help(obstacle.help))
    });
    told.collect()
}

/// What does not go with a file that is valid: labels are no part of it.
fn not_served(diagnostics: &[Diagnostic]) -> String {
    let count = diagnostics.iter().filter(|diagnostic| diagnostic.code == NOT_SERVED).count();
    match count {
        0 => String::new(),
        1 => ", and one label is NOT SERVED as it says: the warning above names it".to_owned(),
        count => format!(", and {count} labels are NOT SERVED as they say: the warnings above name them"),
    }
}

/// The processes that answer where this configuration, or none, has the API.
fn answering(configuration: &Configuration) -> Vec<Answering> {
    let clients = reach::candidates(configuration);
    let asked = clients.into_iter().filter_map(|client| {
        let status = client.fetch_soon("/v1/status").ok()?;
        Some(Answering { admin: client.endpoint.to_string(), status })
    });
    asked.collect()
}

/// Nothing is wrong: the process listens there for the configuration that it takes on.
fn note(held: &HeldByRunning, file: &Path, loaded: &Loaded) -> String {
    const SHOWN_MAX: usize = 3;
    let HeldByRunning { process_id, admin, addresses } = held;
    let shown = addresses.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = match addresses.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let is = if addresses.len() == 1 { "is" } else { "are" };
    let reach = Reach { admin: None, token_file: None };
    let is_found = reach::configured(&reach, loaded, file).is_ok_and(|client| client.endpoint.to_string() == *admin);
    let option = if is_found { String::new() } else { format!(" --admin {admin}") };
    format!(
        "note: {shown}{more} {is} held by the running tidegate (pid {process_id}), which takes this on with `tidegate apply {}{option}`",
        file.display()
    )
}

fn json_of_running(HeldByRunning { process_id, admin, addresses }: &HeldByRunning) -> Value {
    json!({ "process_id": process_id, "admin": admin, "addresses": addresses })
}

/// Of when a list of networks is that ships, and where newer ones are.
fn told(preset: &Preset, now: Timestamp) -> String {
    let date = preset.date();
    let made = format!("{date}T00:00:00Z").parse::<Timestamp>().unwrap_or(now);
    let days = now.duration_since(made).as_hours() / 24;
    let days = if days == 1 { "a day".to_owned() } else { format!("{} days", days.max(0)) };
    format!("preset:{}: the list that ships is of {date}, {days} old; newer ones are at {}", preset.name, preset.source())
}

/// As a process has it that was started with the same file.
fn source_of(file: &Path, loaded: &Loaded) -> Source {
    match loaded.files.iter().next() {
        Some(main) if file == Path::new("-") => {
            Source::Text { name: main.name.clone(), text: main.text.to_string(), directory: main.directory.clone() }
        }
        Some(_) | None => Source::file(file),
    }
}

/// The configuration's own checks have said some things already, with the words at hand there.
fn says_the_same(known: &Diagnostic, new: &Diagnostic) -> bool {
    known.message == new.message
        || (known.primary.location.span == new.primary.location.span
            && known.severity == new.severity
            && new.code == "certificate")
}

fn diagnostic(loaded: &Loaded, finding: Finding) -> Diagnostic {
    let location = match &finding.place {
        Place::Address(address) => loaded.spans.of_address(address).cloned(),
        Place::Tcp(position) => loaded.spans.tcp.get(*position).cloned(),
        Place::File(path, Some(site)) => loaded.spans.of_file_in_site(path, site).cloned(),
        Place::File(path, None) => loaded.spans.of_file(path).cloned(),
        Place::Server(address) => loaded.spans.of_server(address).cloned(),
        Place::Source(source) => loaded.spans.of_source(source).cloned(),
        Place::Admin(position) => loaded.spans.admin.get(*position).map(|(_, location)| location.clone()),
        Place::AccessLog => loaded.spans.access_log.clone(),
        Place::Driver => loaded.spans.driver.clone(),
        Place::Storage => loaded.spans.storage.clone(),
        Place::Containers => loaded.spans.docker.clone(),
        Place::Whole => None,
    };
    let start = || loaded.files.first().map(|file| Location { file, span: 0..0 });
    let Some(location) = location.or_else(start) else { unreachable!("a configuration comes from at least one file") };
    let diagnostic = match finding.severity {
        tidegate_certs::Severity::Error => Diagnostic::error(finding.code, location, finding.message),
        tidegate_certs::Severity::Warning => Diagnostic::warning(finding.code, location, finding.message),
    };
    debug_assert!(matches!(diagnostic.severity, Severity::Error | Severity::Warning));
    match finding.help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

#[cfg(test)]
mod tests {
    use super::told;
    use tidegate_config::PRESETS;

    #[test]
    fn a_list_that_ships_says_how_old_it_is() {
        let fastly = PRESETS.iter().find(|preset| preset.name == "fastly").expect("it ships");
        let day = |day: &str| told(fastly, format!("{day}T12:00:00Z").parse().expect("a day"));
        let date = fastly.date();
        let end = "newer ones are at https://api.fastly.com/public-ip-list";
        assert_eq!(day(date), format!("preset:fastly: the list that ships is of {date}, 0 days old; {end}"));
        let later = format!("{}{}", date[..4].parse::<u32>().expect("a year") + 1, &date[4..]);
        assert!(day(&later).contains(" 365 days old") || day(&later).contains(" 366 days old"), "{}", day(&later));
    }
}
