//! WordPress on PHP-FPM and MariaDB: scripts and files behind one site, pages that only a front controller knows,
//! uploads and an editor that speaks JSON.

use super::Application;
use crate::browser::{Browser, Held};
use crate::cache::{Cache, Root};
use crate::example::Configuration;
use crate::processes::Process;
use crate::stage::{Scheme, Stage, did, free_port, write};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const WORDPRESS: Application = Application {
    name: "wordpress",
    title: "WordPress 6.1 on PHP-FPM 8.2 and MariaDB 10.11 (Debian)",
    story: "install it, log in, set permalinks, upload a picture of 3 MB, write and publish a post, comment, search, read it by its API",
    configuration: Configuration::File(include_str!("../../configurations/wordpress.kdl")),
    program: None,
    install,
    act,
};

const CONFIGURATION: &str = include_str!("../../programs/wp-config.php");
const PASSWORD: &str = "Correct-horse-7-battery";
/// In the order in which they need each other.
const EXTENSIONS: &[&str] = &[
    "mysqlnd",
    "mysqli",
    "ctype",
    "dom",
    "exif",
    "fileinfo",
    "gd",
    "iconv",
    "mbstring",
    "simplexml",
    "tokenizer",
    "xml",
    "xmlreader",
    "xmlwriter",
];
const START_TIME_MAX: Duration = Duration::from_secs(60);

fn install(cache: &Cache) -> Result<(), String> {
    cache.debian(
        "wordpress",
        &[
            "wordpress",
            "wordpress-theme-twentytwentythree",
            "php8.2-fpm",
            "php8.2-mysql",
            "php8.2-gd",
            "php8.2-xml",
            "php8.2-mbstring",
            "mariadb-server-core",
            "mariadb-client-core",
        ],
    )
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let root = stage.cache.root("wordpress");
    let database = stage.folder.join("mysql.sock");
    let _database = start_database(stage, &root, &database)?;
    let folder = stage.folder.join("wordpress");
    stage.run(Command::new("cp").arg("-rL").arg(root.folder.join("usr/share/wordpress")).arg(&folder))?;
    write(&folder.join("wp-config.php"), &CONFIGURATION.replace("SOCKET", &database.display().to_string()))?;
    let socket = stage.folder.join("fpm.sock");
    let _fpm = start_fpm(stage, &root, &socket)?;
    let origin = format!("https://localhost:{}", free_port()?);
    let front = stage.front(&[
        ("https://localhost:8443", &origin),
        ("/run/php/php8.2-fpm.sock", &socket.display().to_string()),
        ("/usr/share/wordpress", &folder.display().to_string()),
    ])?;
    let mut page = stage.browser()?;
    set_up(&mut page, &origin)?;
    did("it was installed, and its owner logged in");
    set_permalinks(&mut page, &origin)?;
    did("addresses are the titles of posts");
    upload(&mut page, stage, &origin, &folder)?;
    did("a picture of three megabytes was uploaded, and made smaller");
    write_post(&mut page, &origin)?;
    did("a post was written in the editor and published");
    read_post(&mut page, stage, &origin)?;
    did("it is read, found, commented and told by the API");
    drop(page);
    front.carried("pages", Scheme::Https, 20, |line| line["upstream_protocol"] == "FastCGI" && line["status"] == 200)?;
    front.check(|_| false)
}

fn start_database(stage: &Stage<'_>, root: &Root, socket: &Path) -> Result<Process, String> {
    let data = stage.folder.join("database");
    // What was unpacked, or the system where it has the server itself.
    let base = if root.folder.join("usr/sbin/mariadbd").is_file() { root.folder.join("usr") } else { PathBuf::from("/usr") };
    let paths = [format!("--basedir={}", base.display()), format!("--datadir={}", data.display())];
    let mut install = root.command("mariadb-install-db")?;
    install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"]);
    stage.run(install.args(&paths))?;
    let mut command = root.command("mariadbd")?;
    command.args(["--no-defaults", "--skip-networking", "--user=root", "--innodb-buffer-pool-size=64M"]).args(&paths);
    command
        .arg(format!("--socket={}", socket.display()))
        .arg(format!("--lc-messages-dir={}", base.join("share/mysql").display()));
    command.arg(format!("--pid-file={}", stage.folder.join("mariadbd.pid").display()));
    let mut database = stage.start("mariadbd", &mut command)?;
    database.wait_until("it listens", START_TIME_MAX, || std::os::unix::net::UnixStream::connect(socket).is_ok())?;
    let mut create = root.command("mariadb")?;
    create.args(["--no-defaults", "--user=root", "-e", "CREATE DATABASE wordpress"]);
    stage.run(create.arg(format!("--socket={}", socket.display())))?;
    Ok(database)
}

fn start_fpm(stage: &Stage<'_>, root: &Root, socket: &Path) -> Result<Process, String> {
    let configuration = format!(
        "[global]\nerror_log = {}\ndaemonize = no\n[www]\nuser = root\ngroup = root\nlisten = {}\npm = static\npm.max_children = 5\n\
         php_admin_value[upload_max_filesize] = 64M\nphp_admin_value[post_max_size] = 64M\nphp_admin_value[memory_limit] = 256M\n\
         php_admin_value[upload_tmp_dir] = {}\n",
        stage.folder.join("fpm-error.log").display(),
        socket.display(),
        stage.folder.display()
    );
    let file = stage.write("fpm.conf", &configuration)?;
    let mut command = root.command("php-fpm8.2")?;
    // Without the php.ini of this machine, and as root where the suite runs as root.
    command.args(["-n", "-F", "-R", "-y"]).arg(file);
    for name in EXTENSIONS {
        command.arg("-d").arg(format!("extension={}", extension(root, name)?.display()));
    }
    let mut fpm = stage.start("php-fpm", &mut command)?;
    fpm.wait_until("it listens", START_TIME_MAX, || std::os::unix::net::UnixStream::connect(socket).is_ok())?;
    Ok(fpm)
}

fn extension(root: &Root, name: &str) -> Result<PathBuf, String> {
    let places = [root.folder.join("usr/lib/php"), PathBuf::from("/usr/lib/php")];
    let folders = places.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten()).map(|entry| entry.path());
    let mut files = folders.map(|folder| folder.join(format!("{name}.so")));
    files.find(|file| file.is_file()).ok_or_else(|| format!("PHP has no {name}.so"))
}

fn set_up(page: &mut Browser, origin: &str) -> Result<(), String> {
    page.open(&format!("{origin}/wp-admin/install.php"))?;
    if page.sees("#language-continue", "") {
        page.click("#language-continue", "")?;
    }
    page.fill("#weblog_title", "A blog of the suite")?;
    page.fill("#user_login", "anna")?;
    page.fill("#pass1", PASSWORD)?;
    page.fill("#admin_email", "anna@example.com")?;
    page.click("#submit", "")?;
    page.see("h1, h2", "Success")?;
    page.open(&format!("{origin}/wp-login.php"))?;
    page.fill("#user_login", "anna")?;
    page.fill("#user_pass", PASSWORD)?;
    page.click("#wp-submit", "")?;
    page.see("#wpadminbar", "anna")
}

fn set_permalinks(page: &mut Browser, origin: &str) -> Result<(), String> {
    page.open(&format!("{origin}/wp-admin/options-permalink.php"))?;
    page.fill("#permalink_structure", "/%postname%/")?;
    page.click("#submit", "")?;
    page.see(".notice, .updated", "ermalink structure updated")?;
    page.open(&format!("{origin}/hello-world/"))?;
    page.see("body", "Welcome to WordPress")
}

/// By the form that works without scripts. The picture is made by the page: noise, which nothing makes smaller.
fn upload(page: &mut Browser, stage: &Stage<'_>, origin: &str, folder: &Path) -> Result<(), String> {
    page.open(&format!("{origin}/wp-admin/media-new.php?browser-uploader"))?;
    let noise = "(() => { const canvas = document.createElement('canvas'); canvas.width = 1200; canvas.height = 900; \
                 const context = canvas.getContext('2d'), image = context.createImageData(1200, 900); \
                 for (let at = 0; at < image.data.length; at++) image.data[at] = at % 4 == 3 ? 255 : Math.random() * 256; \
                 context.putImageData(image, 0, 0); return canvas.toDataURL('image/png').split(',')[1]; })()";
    let picture = page.value(noise)?;
    let picture = BASE64_STANDARD.decode(picture.as_str().unwrap_or_default()).map_err(|error| error.to_string())?;
    let file = stage.folder.join("noise.png");
    fs::write(&file, &picture).map_err(|error| error.to_string())?;
    page.choose_file("#async-upload", "", &file)?;
    page.click("#html-upload", "")?;
    page.see("#the-list, .attachments", "")?;
    page.open(&format!("{origin}/wp-admin/upload.php?mode=list"))?;
    page.see("#the-list", "noise")?;
    let uploads = folder.join("wp-content/uploads");
    let found = stage.run(Command::new("find").arg(&uploads).args(["-name", "noise*.png"]))?;
    let original = found.lines().find(|line| line.ends_with("/noise.png")).ok_or_else(|| format!("it is not there: {found}"))?;
    if found.lines().count() < 3 {
        return Err(format!("it was not made smaller: {found}"));
    }
    let path = original.strip_prefix(&folder.display().to_string()).unwrap_or_default();
    let copy = stage.folder.join("copy.png");
    stage.curl(&["-o", &copy.display().to_string(), &format!("{origin}{path}")])?;
    if fs::read(&copy).is_ok_and(|read| read == picture) { Ok(()) } else { Err(format!("{path} is not what was uploaded")) }
}

fn write_post(page: &mut Browser, origin: &str) -> Result<(), String> {
    page.open(&format!("{origin}/wp-admin/post-new.php"))?;
    page.see(".editor-post-title__input", "")?;
    // It greets everybody who comes the first time, and takes what is typed meanwhile.
    page.see(".components-modal__frame", "")?;
    page.click(".components-modal__header button", "")?;
    page.see_no(".components-modal__frame", "")?;
    page.click(".editor-post-title__input", "")?;
    page.insert("Tides of March")?;
    page.see(".editor-post-title__input", "Tides of March")?;
    page.press("Enter", Held::Nothing)?;
    page.insert("The water comes, and the water goes.")?;
    page.click(".editor-post-publish-panel__toggle", "Publish")?;
    page.click(".editor-post-publish-button", "Publish")?;
    page.see(".post-publish-panel__postpublish-header, .components-snackbar", "")?;
    page.see("body", "is now live")
}

fn read_post(page: &mut Browser, stage: &Stage<'_>, origin: &str) -> Result<(), String> {
    page.open(&format!("{origin}/tides-of-march/"))?;
    page.see("body", "The water comes, and the water goes.")?;
    page.fill("#comment", "And comes again.")?;
    page.click("#commentform #submit", "")?;
    page.see(".wp-block-comments, #comments, .comment-list, body", "And comes again.")?;
    page.open(&format!("{origin}/?s=tides"))?;
    page.see("h1, h2, h3", "Tides of March")?;
    let told = stage.curl(&[&format!("{origin}/wp-json/wp/v2/posts?slug=tides-of-march")])?;
    if !told.contains("Tides of March") {
        return Err(format!("the API tells {told}"));
    }
    let status = stage.curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("{origin}/no-such-page/")])?;
    if status == "404" { Ok(()) } else { Err(format!("a page that is not there is {status}")) }
}
