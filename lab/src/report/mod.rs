//! What people read of a run: one HTML page, the same as Markdown, the table of the README. Figures come from `results`
//! and are not changed here. `section` says which experiment has which layout, `document` what both templates are
//! given, `page` renders them.

mod change;
mod chart;
mod document;
mod equalised;
#[cfg(test)]
pub mod fixture;
mod grid;
mod head;
mod json;
mod ladder;
pub mod number;
mod page;
mod picture;
pub mod published;
mod readme;
mod section;
mod standing;
mod tables;
mod targets;
#[cfg(test)]
mod tests;
mod under_change;

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::net::Error;
use crate::procfs::Machine;
use crate::report::document::Block;
use crate::results::Report;

/// Prints the README's table of a run.
#[derive(Debug, Args)]
pub struct ReadmeOptions {
    /// The `report.json` of a run.
    pub report: PathBuf,
    /// The picture beside the table, as SVG, in the place of it.
    #[arg(long)]
    pub picture: bool,
}

/// Writes report.md and report.html of a run again, beside its report.json.
#[derive(Debug, Args)]
pub struct RenderOptions {
    /// The `report.json` of a run.
    pub report: PathBuf,
}

/// One page that loads nothing.
pub fn html(report: &Report) -> String {
    page::html(&title(report), &document(report))
}

/// The same without charts, configurations and commands.
pub fn markdown(report: &Report) -> String {
    page::markdown(&title(report), &document(report))
}

/// `<base>/<date>-<short name of the machine>`, with the time of day where that day has a report already: a run
/// overwrites no other.
pub fn default_folder(report: &Report, base: &Path) -> PathBuf {
    let mut words = report.began.split(' ');
    let (date, time) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let machine = short_machine_name(&report.machine);
    let folder = base.join(format!("{date}-{machine}"));
    if folder.join(JSON).exists() { base.join(format!("{date}-{}-{machine}", time.replace(':', ""))) } else { folder }
}

/// `report.json`, `report.md` and `report.html`. An interruption leaves each of them old or new, never torn.
pub fn write(folder: &Path, report: &Report) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    replace(folder, JSON, &json::text(report)?)?;
    write_pages(folder, report)
}

pub fn readme(options: &ReadmeOptions) -> Result<(), Error> {
    let report = Report::read(&options.report)?;
    print!("{}", if options.picture { picture::picture(&report) } else { readme::readme(&report) });
    Ok(())
}

pub fn rerender(options: &RenderOptions) -> Result<(), Error> {
    let report = Report::read(&options.report)?;
    let folder = options.report.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write_pages(folder, &report)?;
    for name in [MARKDOWN, HTML] {
        println!("{}", folder.join(name).display());
    }
    Ok(())
}

const JSON: &str = "report.json";
const MARKDOWN: &str = "report.md";
const HTML: &str = "report.html";

fn write_pages(folder: &Path, report: &Report) -> Result<(), Error> {
    replace(folder, MARKDOWN, &markdown(report))?;
    replace(folder, HTML, &html(report))
}

fn replace(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = folder.join(name);
    let written = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        // Temporary files are for their owner only; a report is for everybody.
        file.as_file().set_permissions(Permissions::from_mode(0o644))?;
        file.persist(&path)?;
        Ok(())
    };
    written().map_err(|error| format!("{}: {error}", path.display()).into())
}

fn title(report: &Report) -> String {
    format!("Reverse proxies side by side, {}", report.began)
}

fn document(report: &Report) -> Vec<Block> {
    let standings = standing::standings(report);
    let mut blocks = head::blocks(report, &standings);
    for experiment in &report.experiments {
        blocks.extend(section::of(report, experiment));
    }
    blocks
}

/// Letters and digits of the processor's name, and the number of cores: short, and good for a folder's name.
fn short_machine_name(machine: &Machine) -> String {
    let name = machine.cpu.split(['(', '@']).next().unwrap_or_default().to_lowercase();
    let mut words: Vec<_> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(4).collect();
    let cores = format!("{}c", machine.cores);
    words.push(&cores);
    words.join("-")
}
