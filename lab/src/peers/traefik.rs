//! Builds Traefik from its published Go module. `go install` refuses it, because its `go.mod` replaces modules by
//! forks, and the module lacks what its makers build beside it, the pages of its dashboard. So it is built as a main
//! module in a copy of its source, with an empty page in their place. Other peers are got in `install`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::install::{BUILD_TIME_MAX, fresh_folder};
use super::steps::{STEP_TIME_MAX, Steps};

const MODULE: &str = "github.com/traefik/traefik/v3";
/// Some releases need modules that the registry does not give away. Further back than this, it would not be today's
/// Traefik.
const ATTEMPTS_MAX: usize = 5;

/// Builds the newest release that can be built, into `bin`. Returns a remark on newer ones.
pub fn build(cache: &Path, steps: &Steps) -> Result<String, String> {
    let folder = fresh_folder(&cache.join("traefik"))?;
    let mut list = Command::new("go");
    list.args(["list", "-m", "-versions", MODULE]).current_dir(&folder);
    let listed = steps.run(&mut list, "asking for the versions of Traefik", STEP_TIME_MAX).map_err(|reason| {
        format!("{reason}. It takes a recent Go, from go.dev; or get Traefik from traefik.io and name it: `--peer traefik=PATH`.")
    })?;
    let mut refused = Vec::new();
    for version in newest_first(&listed).into_iter().take(ATTEMPTS_MAX) {
        match build_version(&version, &folder, cache, steps) {
            Ok(()) => {
                // The program stands in `bin`; the copy of the source is of no more use.
                fs::remove_dir_all(&folder).ok();
                return Ok(remark(&refused));
            }
            Err(reason) if steps.is_interrupted() => return Err(reason),
            Err(reason) => {
                steps.say(&format!("{version} cannot be built: {reason}"));
                refused.push(version);
            }
        }
    }
    Err(format!("none of {} could be built; get Traefik from traefik.io and name it: `--peer traefik=PATH`.", refused.join(", ")))
}

fn build_version(version: &str, folder: &Path, cache: &Path, steps: &Steps) -> Result<(), String> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", &format!("{MODULE}@{version}")]).current_dir(folder);
    let said = steps.run(&mut download, &format!("downloading the source of {version}"), STEP_TIME_MAX)?;
    let published = source_folder(&said).ok_or("Go does not say where it has put the source")?;
    let own = fs::read_to_string(published.join("go.mod")).map_err(|error| format!("its go.mod: {error}"))?;
    if let Some(missing) = missing_folder(&own, &published) {
        return Err(format!("it needs its own folder {missing}, which is not part of the published module"));
    }
    let source = fresh_folder(&folder.join("source"))?;
    copy_folder(&published, &source)?;
    add_dashboard(&source)?;
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-ldflags"]);
    // Without this it would call itself `dev`.
    build.arg(format!("-s -w -X {MODULE}/pkg/version.Version={}", version.trim_start_matches('v')));
    build.arg("-o").arg(cache.join("bin/traefik")).arg("./cmd/traefik").current_dir(&source);
    steps.run(&mut build, &format!("go build of {version}"), BUILD_TIME_MAX).map(drop)
}

/// Releases only, out of the one line that `go list -m -versions` prints.
fn newest_first(listed: &str) -> Vec<String> {
    let line = listed.lines().find(|line| line.starts_with(MODULE)).unwrap_or_default();
    let versions = line.split_whitespace().skip(1).filter(|version| !version.contains('-')).map(str::to_owned);
    let mut versions: Vec<String> = versions.collect();
    versions.sort_by_key(|version| {
        version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>()
    });
    versions.reverse();
    versions
}

/// A folder beside the module that its `go.mod` has in the place of another module, and that was not published.
fn missing_folder(own: &str, published: &Path) -> Option<String> {
    let lines = own.lines().map(|line| line.split("//").next().unwrap_or(line).trim());
    let places = lines.filter_map(|line| line.split_once(" => ")).map(|(_, to)| to.trim());
    places.filter(|to| to.starts_with('.')).find(|to| !published.join(to).join("go.mod").is_file()).map(str::to_owned)
}

/// Files of a module are read-only where Go keeps them; those of the copy are not.
fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let wrong = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut left: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = left.pop() {
        fs::create_dir_all(&to).map_err(|error| wrong(&to, error))?;
        for entry in fs::read_dir(&from).map_err(|error| wrong(&from, error))? {
            let entry = entry.map_err(|error| wrong(&from, error))?;
            let (path, copy) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type().map_err(|error| wrong(&path, error))?.is_dir() {
                left.push((path, copy));
                continue;
            }
            fs::copy(&path, &copy).map_err(|error| wrong(&path, error))?;
            fs::set_permissions(&copy, Permissions::from_mode(0o644)).map_err(|error| wrong(&copy, error))?;
        }
    }
    Ok(())
}

/// What `webui/embed.go` embeds is made by another tool, and has to be there.
fn add_dashboard(source: &Path) -> Result<(), String> {
    let folder = source.join("webui/static");
    let page = folder.join("index.html");
    if page.exists() {
        return Ok(());
    }
    let write = fs::create_dir_all(&folder).and_then(|()| fs::write(&page, "<p>This build has no dashboard.</p>\n"));
    write.map_err(|error| format!("{}: {error}", page.display()))
}

fn source_folder(said: &str) -> Option<std::path::PathBuf> {
    // Progress lines stand before the object.
    let object = &said[said.find('{')?..];
    let value: serde_json::Value = serde_json::Deserializer::from_str(object).into_iter().next()?.ok()?;
    Some(value.get("Dir")?.as_str()?.into())
}

fn remark(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!("; newer, but could not be built: {}", refused.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_tried_from_the_newest_on() {
        let listed = "go: downloading something\ngithub.com/traefik/traefik/v3 v3.6.12 v3.10.0-rc.1 v3.7.9 v3.7.11\n";
        assert_eq!(newest_first(listed), ["v3.7.11", "v3.7.9", "v3.6.12"]);
        assert!(newest_first("go: not found").is_empty());
    }

    #[test]
    fn a_folder_that_was_not_published_is_named() {
        let published = tempfile::tempdir().unwrap();
        fs::create_dir(published.path().join("here")).unwrap();
        fs::write(published.path().join("here/go.mod"), "").unwrap();
        let check = |own: &str, expected: Option<&str>| {
            assert_eq!(missing_folder(own, published.path()).as_deref(), expected, "{own}");
        };
        check("module m\n\ngo 1.25.0\n\nreplace d => ./here\n\nreplace (\n\te.f/g => h.i/j v0.4.1 // why\n)\n", None);
        check("replace d => ./elsewhere // with the fork\n", Some("./elsewhere"));
        check("replace (\n\td => ./here\n\te => ../beside\n)\n", Some("../beside"));
        check("// replace d => ./elsewhere\n", None);
    }

    #[test]
    fn the_copy_can_be_written_and_has_a_page() {
        let (published, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = published.path().join("webui/embed.go");
        fs::create_dir(published.path().join("webui")).unwrap();
        fs::write(&file, "package webui\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
        copy_folder(published.path(), copy.path()).unwrap();
        add_dashboard(copy.path()).unwrap();
        let copied = copy.path().join("webui/embed.go");
        assert_eq!(fs::read_to_string(&copied).unwrap(), "package webui\n");
        assert_eq!(fs::metadata(&copied).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(copy.path().join("webui/static/index.html").is_file());
    }

    #[test]
    fn the_source_is_where_go_says() {
        let said = "go: downloading x v1\n{\n\t\"Path\": \"x\",\n\t\"Dir\": \"/go/x@v1\"\n}\n";
        assert_eq!(source_folder(said), Some("/go/x@v1".into()));
        assert_eq!(source_folder("nothing"), None);
    }
}
