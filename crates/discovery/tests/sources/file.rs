//! A list in a real folder: written in place, renamed over, behind links.

use crate::followed::Followed;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;
use tidegate_model::Discover;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn follow(folder: &Path, name: &str) -> Followed {
    Followed::new(Discover::File { path: name.into() }, folder)
}

fn write(path: impl AsRef<Path>, text: &str) {
    fs::write(path, text).expect("written");
}

#[test]
fn a_list_is_read_again_when_it_changes() {
    let folder = folder();
    let path = folder.path().join("servers.json");
    write(&path, r#"["10.0.0.2:80", {"address": "10.0.0.1:80", "weight": 3, "backup": true, "leaving": true}]"#);
    let followed = follow(folder.path(), "servers.json");
    followed.expect("10.0.0.1:80 *3 ^1 leaving, 10.0.0.2:80");
    write(&path, r#"["10.0.0.3:80"]"#);
    followed.expect_at_last("10.0.0.3:80");
    let new = folder.path().join("new");
    write(&new, r#"["10.0.0.4:80"]"#);
    fs::rename(&new, &path).expect("renamed");
    followed.expect_at_last("10.0.0.4:80");
    write(&path, "[]");
    followed.expect_at_last("nobody");
}

#[test]
fn a_list_that_says_the_same_is_no_news() {
    let folder = folder();
    let path = folder.path().join("servers.kdl");
    write(&path, "server \"10.0.0.1:80\"\nserver \"10.0.0.2:80\" zone=\"a\"\n");
    let followed = follow(folder.path(), "servers.kdl");
    followed.expect("10.0.0.1:80, 10.0.0.2:80 in a");
    let new = folder.path().join("new");
    write(&new, "// in another order\nserver \"10.0.0.2:80\" zone=\"a\"\nserver \"10.0.0.1:80\"\n");
    fs::rename(&new, &path).expect("renamed");
    write(&new, "server \"10.0.0.9:80\"\n");
    // Told of after the other, had that been told.
    std::thread::sleep(std::time::Duration::from_millis(200));
    fs::rename(&new, &path).expect("renamed");
    followed.expect("10.0.0.9:80");
}

#[test]
fn a_file_that_is_missing_or_wrong_leaves_the_last_list() {
    let folder = folder();
    let path = folder.path().join("servers.json");
    let followed = follow(folder.path(), "servers.json");
    let fault = |text: &str| format!("fault the file {}: {text}", path.display());
    followed.expect(&fault("it does not exist"));
    let put = |text: &str| {
        let new = folder.path().join("new");
        write(&new, text);
        fs::rename(&new, &path).expect("renamed");
    };
    put(r#"["10.0.0.1:80"]"#);
    followed.expect("10.0.0.1:80");
    followed.expect("recovered");
    put("[\"10.0.0.1:80\",\n");
    followed.expect(&fault("line 2: EOF while parsing a value"));
    put("[\"10.0.0.1:80\",\n{\"address\": \"10.0.0.2:80\", \"weight\": 0}]");
    followed.expect(&fault("line 2: `weight` must be 1 to 256"));
    put(r#"["10.0.0.1:80"]"#);
    followed.expect("recovered");
    fs::remove_file(&path).expect("removed");
    followed.expect(&fault("it does not exist"));
    fs::create_dir(&path).expect("made");
    followed.expect(&fault("it is not a regular file"));
    fs::remove_dir(&path).expect("removed");
    put(&" ".repeat((1 << 20) + 1));
    followed.expect_at_last(&fault("it is larger than 1 MiB"));
}

#[test]
fn a_pipe_is_not_waited_for() {
    let folder = folder();
    let path = folder.path().join("servers.json");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
    assert!(made.success());
    let followed = follow(folder.path(), "servers.json");
    followed.expect(&format!("fault the file {}: it is not a regular file", path.display()));
}

#[test]
fn a_mounted_volume_changes_by_its_link() {
    let folder = folder();
    let root = folder.path();
    let volume = |name: &str, text: &str| {
        fs::create_dir(root.join(name)).expect("made");
        write(root.join(name).join("servers.json"), text);
        symlink(name, root.join("..tmp")).expect("linked");
        fs::rename(root.join("..tmp"), root.join("..data")).expect("swapped");
    };
    volume("..1", r#"["10.0.0.1:80"]"#);
    symlink("..data/servers.json", root.join("servers.json")).expect("linked");
    let followed = follow(root, "servers.json");
    followed.expect("10.0.0.1:80");
    volume("..2", r#"["10.0.0.2:80"]"#);
    followed.expect("10.0.0.2:80");
    fs::remove_dir_all(root.join("..1")).expect("removed");
    volume("..3", r#"["10.0.0.3:80"]"#);
    followed.expect("10.0.0.3:80");
}

#[test]
fn a_folder_that_comes_later_is_found() {
    let folder = folder();
    let followed = follow(folder.path(), "a/b/servers.kdl");
    followed.expect_fault_with("it does not exist");
    fs::create_dir_all(folder.path().join("a/b")).expect("made");
    write(folder.path().join("a/b/servers.kdl"), "server \"10.0.0.1:80\"");
    followed.expect_at_last("10.0.0.1:80");
}
