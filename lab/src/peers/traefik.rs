//! Builds Traefik from its published Go module. `go install` refuses it, because its `go.mod` replaces modules by
//! forks; so an empty module stands in front that repeats those lines. Other peers are got in `install`.

use std::fs;
use std::path::Path;
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
    write_module(&folder, "module lab/traefik\n")?;
    let mut list = Command::new("go");
    list.args(["list", "-m", "-versions", MODULE]).current_dir(&folder);
    let listed = steps.run(&mut list, "asking for the versions of Traefik", STEP_TIME_MAX).map_err(|reason| {
        format!("{reason}. It takes a recent Go, from go.dev; or get Traefik from traefik.io and name it: `--peer traefik=PATH`.")
    })?;
    let mut refused = Vec::new();
    for version in newest_first(&listed).into_iter().take(ATTEMPTS_MAX) {
        match build_version(&version, &folder, cache, steps) {
            Ok(()) => return Ok(remark(&refused)),
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
    write_module(folder, "module lab/traefik\n")?;
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", &format!("{MODULE}@{version}")]).current_dir(folder);
    let said = steps.run(&mut download, &format!("downloading the source of {version}"), STEP_TIME_MAX)?;
    let source = source_folder(&said).ok_or("Go does not say where it has put the source")?;
    let own = fs::read_to_string(source.join("go.mod")).map_err(|error| format!("its go.mod: {error}"))?;
    write_module(folder, &module_in_front(&own, version, &source)?)?;
    let mut build = Command::new("go");
    build.args(["build", "-mod=mod", "-buildvcs=false", "-ldflags"]);
    // Without this it would call itself `dev`.
    build.arg(format!("-s -w -X {MODULE}/pkg/version.Version={}", version.trim_start_matches('v')));
    build.arg("-o").arg(cache.join("bin/traefik")).arg(format!("{MODULE}/cmd/traefik")).current_dir(folder);
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

/// The `go.mod` of the empty module: Traefik's own language version and its `replace` lines, which count only in the
/// main module.
fn module_in_front(own: &str, version: &str, source: &Path) -> Result<String, String> {
    let mut lines = vec!["module lab/traefik".to_owned()];
    lines.extend(own.lines().find(|line| line.starts_with("go ")).map(str::to_owned));
    lines.push(format!("require {MODULE} {version}"));
    let mut within = false;
    for line in own.lines().map(|line| line.split("//").next().unwrap_or(line).trim()) {
        let replacement = if within { Some(line) } else { line.strip_prefix("replace ") };
        within = if within { line != ")" } else { line == "replace (" };
        let Some((from, to)) = replacement.and_then(|text| text.split_once(" => ")) else { continue };
        let to = to.trim();
        if !to.starts_with('.') {
            lines.push(format!("replace {from} => {to}"));
            continue;
        }
        let local = source.join(to);
        if !local.join("go.mod").is_file() {
            return Err(format!("it needs its own folder {to}, which is not part of the published module"));
        }
        lines.push(format!("replace {from} => {}", local.display()));
    }
    Ok(lines.join("\n") + "\n")
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

fn write_module(folder: &Path, text: &str) -> Result<(), String> {
    let write = fs::write(folder.join("go.mod"), text).and_then(|()| match fs::remove_file(folder.join("go.sum")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    });
    write.map_err(|error| format!("{}: {error}", folder.display()))
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
    fn the_module_in_front_repeats_what_counts() {
        let source = tempfile::tempdir().unwrap();
        fs::create_dir(source.path().join("here")).unwrap();
        fs::write(source.path().join("here/go.mod"), "").unwrap();
        let own = "module github.com/traefik/traefik/v3\n\ngo 1.25.0\n\nrequire (\n\ta.b/c v1.0.0\n)\n\nreplace d => ./here\n\n\
                   // Forks.\nreplace (\n\te.f/g => h.i/j v0.4.1 // why\n\tk v1.0.0 => l v2.0.0\n)\n\nexclude m
                   // v1.0.0\n";
        let here = source.path().join("./here").display().to_string();
        let expected = format!(
            "module lab/traefik\ngo 1.25.0\nrequire github.com/traefik/traefik/v3 v3.6.12\nreplace d => {here}\n\
             replace e.f/g => h.i/j v0.4.1\nreplace k v1.0.0 => l v2.0.0\n"
        );
        assert_eq!(module_in_front(own, "v3.6.12", source.path()).unwrap(), expected);
        let missing = module_in_front("replace d => ./elsewhere\n", "v3.7.12", source.path()).unwrap_err();
        assert!(missing.contains("./elsewhere"), "{missing}");
    }

    #[test]
    fn the_source_is_where_go_says() {
        let said = "go: downloading x v1\n{\n\t\"Path\": \"x\",\n\t\"Dir\": \"/go/x@v1\"\n}\n";
        assert_eq!(source_folder(said), Some("/go/x@v1".into()));
        assert_eq!(source_folder("nothing"), None);
    }
}
