//! git by way of git-http-backend and fcgiwrap: a push whose length git does not say, clones and fetches.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Front, Scheme, Stage, did, free_port, write};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

pub const GIT: Application = Application {
    name: "git",
    title: "git-http-backend by fcgiwrap 1.1 (Debian)",
    story: "refused without a password; clone, push 30 MB in chunks, clone again, push, pull; over HTTP/2 and HTTP/1.1",
    configuration: Configuration::File(include_str!("../../configurations/git.kdl")),
    program: None,
    install,
    act,
};

const FILE_BYTES: u64 = 30 << 20;

fn install(cache: &Cache) -> Result<(), String> {
    cache.debian("git", &["git", "fcgiwrap"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let root = stage.cache.root("git");
    let (socket, projects) = (stage.folder.join("fcgiwrap.socket"), stage.folder.join("srv"));
    let mut command = root.command("fcgiwrap")?;
    command.arg("-c").arg("2").arg("-s").arg(format!("unix:{}", socket.display())).env("HOME", &stage.folder);
    let mut server = stage.start("fcgiwrap", &mut command)?;
    server.wait_until("it listens", std::time::Duration::from_secs(20), || socket.exists())?;
    let core = stage.run(Command::new("git").arg("--exec-path"))?.trim().to_owned();
    for scheme in [Scheme::Https, Scheme::Http] {
        let host = format!("localhost:{}", free_port()?);
        // Over HTTP/1.1 with TLS as well: git speaks the other version only when it is told to.
        let front = stage.front(&[
            ("localhost:8443", &host),
            ("/run/fcgiwrap.socket", &socket.display().to_string()),
            ("/usr/lib/git-core", &core),
            ("/srv/git", &projects.display().to_string()),
        ])?;
        work(stage, &front, &projects, &host, scheme)?;
        front.check(|line| line["status"] == 401)?;
    }
    Ok(())
}

fn work(stage: &Stage<'_>, front: &Front, projects: &Path, host: &str, scheme: Scheme) -> Result<(), String> {
    let (name, version) = (scheme.name(), scheme.version());
    let http = match scheme {
        Scheme::Https => "http.version=HTTP/2",
        Scheme::Http => "http.version=HTTP/1.1",
    };
    let certificate = front.root_certificate();
    let git = |folder: &Path, arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", http, "-c", "user.name=Anna", "-c", "user.email=anna@example.com"]);
        command
            .env("GIT_SSL_CAINFO", &certificate)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("HOME", &stage.folder)
            .env("GIT_CONFIG_NOSYSTEM", "1");
        stage.run(command.args(arguments).current_dir(folder))
    };
    fs::create_dir_all(projects).map_err(|error| error.to_string())?;
    let project = format!("{name}.git");
    git(projects, &["init", "--bare", "--initial-branch=main", &project])?;
    let (open, known) = (format!("https://{host}/{project}"), format!("https://anna:swordfish@{host}/{project}"));
    if git(&stage.folder, &["clone", &open, "nobody"]).is_ok() {
        return Err("it can be cloned without a password".into());
    }
    let [first, second] = ["first", "second"].map(|clone| stage.folder.join(format!("{name}-{clone}")));
    git(&stage.folder, &["clone", &known, &first.display().to_string()])?;
    let mut noise = Vec::new();
    let read = fs::File::open("/dev/urandom").and_then(|file| file.take(FILE_BYTES).read_to_end(&mut noise));
    read.and_then(|_| fs::write(first.join("noise"), noise)).map_err(|error| error.to_string())?;
    git(&first, &["add", "."])?;
    git(&first, &["commit", "--quiet", "-m", "thirty megabytes"])?;
    git(&first, &["push", "origin", "HEAD:main"])?;
    let is_push = |line: &serde_json::Value| {
        line["path"] == format!("/{project}/git-receive-pack") && line["request_bytes"].as_u64() >= Some(FILE_BYTES)
    };
    front.carried("pushes of thirty megabytes", scheme, 1, is_push)?;
    did(&format!("{version}: 30 MB were pushed"));
    git(&stage.folder, &["clone", &known, &second.display().to_string()])?;
    git(&second, &["fsck", "--full"])?;
    for number in 0..20 {
        write(&first.join(format!("file-{number}")), &format!("{number}\n"))?;
    }
    git(&first, &["add", "."])?;
    git(&first, &["commit", "--quiet", "-m", "small ones"])?;
    git(&first, &["push", "origin", "HEAD:main"])?;
    git(&second, &["pull", "--ff-only"])?;
    let heads = [&first, &second].map(|clone| git(clone, &["rev-parse", "HEAD"]));
    if heads[0] != heads[1] {
        return Err(format!("the clones differ: {heads:?}"));
    }
    did(&format!("{version}: cloned, pushed and pulled"));
    Ok(())
}
