//! Whole answers from real folders: which file, which headers, which bytes. Parsers are tested beside their code.

mod hostile;
mod listings;
mod named;
mod variants;

use super::Root;
use crate::answer::{Answer, Piece};
use crate::ask::{Ask, Method};
use crate::refused::{Headers, Refused};
use crate::{Settings, Symlinks};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// When all files of a site were written: `Sun, 06 Nov 1994 08:49:37 GMT` and half a second.
const MODIFIED: Duration = Duration::from_millis(784_111_777_500);
const ETAG_OF_HELLO: &str = "\"2ebc98a1.1dcd6500-5\"";

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(800_000_000)
}

fn get(path: &str) -> Ask<'_> {
    Ask::new(Method::Get, path.as_bytes())
}

struct Site {
    folder: TempDir,
    settings: Settings,
}

impl Site {
    fn new(files: &[(&str, &str)]) -> Site {
        let folder = TempDir::new().expect("a folder");
        let settings = Settings::new(folder.path().join("served"));
        let site = Site { folder, settings };
        fs::create_dir(&site.settings.root).expect("a folder");
        for (path, content) in files {
            site.write(path, content, MODIFIED);
        }
        site
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Site {
        change(&mut self.settings);
        self
    }

    fn write(&self, path: &str, content: &str, modified: Duration) {
        let path = self.settings.root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, content).expect("a file");
        File::options().write(true).open(path).expect("a file").set_modified(UNIX_EPOCH + modified).expect("a date");
    }

    /// Both ways of opening files have to give the same answer.
    fn answer(&self, ask: &Ask) -> Answer {
        let whole = |root: Root| match root.answer(ask, now()) {
            Answer::Folder(listing) => root.list(&listing).map_or_else(Answer::Refused, Answer::Page),
            answer => answer,
        };
        let kernel = whole(Root::open(&self.settings).expect("a root"));
        let walk = whole(Root::open(&self.settings).expect("a root").walking());
        let text = String::from_utf8_lossy(ask.path);
        if !told(&kernel).contains("multipart") {
            assert_eq!(told(&kernel), told(&walk), "{text}");
        }
        kernel
    }

    fn check(&self, ask: Ask, expected: &str) {
        assert_eq!(short(&self.answer(&ask)), expected, "{}", String::from_utf8_lossy(ask.path));
    }
}

/// The bytes that the proxy would send.
fn body(answer: &Answer) -> String {
    let mut body = Vec::new();
    match answer {
        Answer::File(answer) => {
            for piece in &answer.pieces {
                match piece {
                    Piece::Bytes(bytes) => body.extend(bytes),
                    Piece::Range { offset, length } => {
                        let mut bytes = vec![0; *length as usize];
                        answer.file.read_exact_at(&mut bytes, *offset).expect("bytes of the file");
                        body.extend(bytes);
                    }
                }
            }
            assert!(body.is_empty() || body.len() as u64 == answer.content_length);
        }
        Answer::Page(page) => body.extend(&page.body),
        Answer::Folder(_) | Answer::Redirect { .. } | Answer::NotModified { .. } | Answer::Refused(_) => {}
    }
    String::from_utf8(body).expect("text")
}

/// Status, and body or location.
fn short(answer: &Answer) -> String {
    match answer {
        Answer::Redirect { location } => format!("301 {location}"),
        Answer::Refused(refused) => format!("{} {refused:?}", answer.status()),
        answer => format!("{} {}", answer.status(), body(answer)).trim_end().to_owned(),
    }
}

fn headers(answer: &Answer) -> Headers {
    match answer {
        Answer::File(answer) => answer.headers.clone(),
        Answer::Page(page) => page.headers.clone(),
        Answer::NotModified { headers } => headers.clone(),
        Answer::Folder(_) | Answer::Redirect { .. } => Vec::new(),
        Answer::Refused(refused) => refused.headers(),
    }
}

fn told(answer: &Answer) -> String {
    format!("{} {:?}", short(answer), headers(answer))
}

fn header(answer: &Answer, name: &str) -> String {
    headers(answer).into_iter().find(|(known, _)| *known == name).map_or_else(String::new, |(_, value)| value.into_owned())
}

#[test]
fn a_file_comes_with_its_headers() {
    let site = Site::new(&[("a.txt", "hello")]);
    let answer = site.answer(&get("/a.txt"));
    let expected = [
        ("etag", ETAG_OF_HELLO),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("content-type", "text/plain; charset=utf-8"),
    ];
    assert_eq!(headers(&answer), expected.map(|(name, value)| (name, value.into())));
    assert_eq!(short(&answer), "200 hello");
}

#[test]
fn head_is_get_without_its_body() {
    let site = Site::new(&[("a.txt", "hello"), ("empty", "")]);
    for path in ["/a.txt", "/empty"] {
        let (head, whole) = (site.answer(&Ask { method: Method::Head, ..get(path) }), site.answer(&get(path)));
        assert_eq!(headers(&head), headers(&whole));
        let (Answer::File(head), Answer::File(whole)) = (head, whole) else { panic!("files") };
        assert_eq!((head.pieces.len(), head.content_length), (0, whole.content_length));
    }
}

#[test]
fn paths_name_files() {
    let site =
        Site::new(&[("a.txt", "hello"), ("sub/b c.txt", "below"), ("100%.txt", "percent"), ("ü", "umlaut"), ("empty", "")]);
    site.check(get("/a.txt"), "200 hello");
    site.check(get("a.txt"), "200 hello");
    site.check(get("/%61.txt"), "200 hello");
    site.check(get("/sub/b%20c.txt"), "200 below");
    site.check(get("/100%25.txt"), "200 percent");
    site.check(get("/%C3%BC"), "200 umlaut");
    site.check(get("/empty"), "200");
    site.check(get("/none"), "404 NotFound");
    site.check(get("/A.txt"), "404 NotFound");
    site.check(get("/a.txt/"), "404 NotFound");
    site.check(get("/a.txt/b"), "404 NotFound");
    site.check(get("//a.txt"), "404 NotFound");
    site.check(get("/sub//b%20c.txt"), "404 NotFound");
    site.check(get(&"/x".repeat(60)), "404 NotFound");
    site.check(get(&format!("/{}", "x".repeat(8000))), "404 NotFound");
    site.check(get("/sub/../a.txt"), "400 BadPath");
    site.check(get("/..%2fa.txt"), "400 BadPath");
    site.check(get("/a.txt%00"), "400 BadPath");
}

#[test]
fn other_methods_are_refused() {
    let site = Site::new(&[("a.txt", "hello")]);
    site.check(Ask { method: Method::Other, ..get("/a.txt") }, "405 MethodNotAllowed");
    site.check(Ask { method: Method::Other, ..get("/none") }, "405 MethodNotAllowed");
}

#[test]
fn a_folder_answers_with_its_index() {
    let site =
        Site::new(&[("index.html", "top"), ("sub/default.htm", "second"), ("both/index.html", "1"), ("both/default.htm", "2")]);
    fs::create_dir_all(site.settings.root.join("folder/index.html")).expect("a folder");
    fs::create_dir(site.settings.root.join("empty")).expect("a folder");
    let site = site.set(|settings| settings.index.push("default.htm".into()));
    site.check(get("/"), "200 top");
    site.check(get("/sub/"), "200 second");
    site.check(get("/both/"), "200 1");
    site.check(get("/empty/"), "404 NotFound");
    site.check(get("/folder/"), "404 NotFound");
    site.check(get("/empty"), "404 NotFound");
    assert_eq!(header(&site.answer(&get("/sub/")), "content-type"), "text/html; charset=utf-8");
    site.set(|settings| settings.index.clear()).check(get("/"), "404 NotFound");
}

#[test]
fn a_folder_without_its_slash_is_redirected_on_the_same_host() {
    let site = Site::new(&[("sub/index.html", "below"), ("index.html", "top"), ("x:y/index.html", "colon")]);
    site.check(get("/sub"), "301 ./sub/");
    site.check(get("/x:y"), "301 ./x:y/");
    site.check(get("/%73ub"), "301 ./%73ub/");
    let check = |path: &str, request_path: &str, query: Option<&str>, expected: &str| {
        let query = query.map(str::as_bytes);
        site.check(Ask { request_path: request_path.as_bytes(), query, ..get(path) }, expected);
    };
    check("/sub", "/sub", Some("a=b&c=/%20"), "301 ./sub/?a=b&c=/%20");
    check("/sub", "/sub", Some(""), "301 ./sub/?");
    check("/sub", "/sub", Some("a\r\nx: y#\"<ü"), "301 ./sub/?a%0D%0Ax:%20y%23%22%3C%C3%BC");
    check("/sub", "/prefix/old", None, "301 ./old/");
    check("", "/static", None, "301 ./static/");
    check("", "//evil.example", None, "301 ./evil.example/");
    check("/sub", "//evil.example/\\evil.example", None, "301 ./%5Cevil.example/");
    check("/sub", "/a?b\r\n", None, "301 ./a%3Fb%0D%0A/");
    check("/sub", "/prefix/", None, "200 below");
    check("/", "/app", None, "200 top");
    check("", "", None, "200 top");
}

#[test]
fn the_fallback_answers_where_nothing_is() {
    let site = Site::new(&[("app/index.html", "app"), ("a.txt", "hello"), ("sub/x", ""), (".env", "secret")]);
    let site = site.set(|settings| settings.fallback = Some("/app/index.html".into()));
    site.check(get("/none"), "200 app");
    site.check(get("/none/deep/er"), "200 app");
    site.check(get("/sub/"), "200 app");
    site.check(get("/sub"), "200 app");
    site.check(get("/a.txt/x"), "200 app");
    site.check(get("//none"), "404 NotFound");
    site.check(get("/a.txt"), "200 hello");
    site.check(get("/.env"), "404 NotFound");
    site.check(get("/.git/config"), "404 NotFound");
    site.check(get("/../x"), "400 BadPath");
    site.check(Ask { method: Method::Other, ..get("/none") }, "405 MethodNotAllowed");
    let answer = site.answer(&get("/none"));
    assert_eq!(header(&answer, "content-type"), "text/html; charset=utf-8");
    let etag = header(&answer, "etag");
    site.check(Ask { if_none_match: Some(etag.as_bytes()), ..get("/none") }, "304");
    site.set(|settings| settings.fallback = Some("gone.html".into())).check(get("/none"), "404 NotFound");
}

#[test]
fn hidden_names_are_served_on_request_only() {
    let site = Site::new(&[(".env", "secret"), (".git/config", "secret"), (".well-known/acme", "token"), ("a/.b", "secret")]);
    for path in ["/.env", "/.git/config", "/.git", "/%2eenv", "/a/.b"] {
        site.check(get(path), "404 NotFound");
    }
    site.check(get("/.well-known/acme"), "200 token");
    let site = site.set(|settings| settings.hidden = true);
    site.check(get("/.env"), "200 secret");
    site.check(get("/.git/config"), "200 secret");
}

#[test]
fn only_regular_files_are_served_and_nothing_blocks() {
    let site = Site::new(&[("a", "")]);
    let root = &site.settings.root;
    rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0).expect("a FIFO");
    let _listener = UnixListener::bind(root.join("socket")).expect("a socket");
    symlink("/dev/null", root.join("null")).expect("a symlink");
    let site = site.set(|settings| settings.symlinks = Symlinks::Follow);
    for path in ["/fifo", "/socket", "/null"] {
        site.check(get(path), "404 NotFound");
    }
}

#[test]
fn symlinks_are_followed_as_far_as_the_setting_says() {
    let site = Site::new(&[("a.txt", "hello"), ("sub/index.html", "below")]);
    fs::write(site.folder.path().join("secret"), "secret").expect("a file");
    for (target, link) in
        [("a.txt", "to_file"), ("sub", "to_folder"), ("../secret", "out"), ("..", "sub/up"), ("/etc", "etc"), ("loop", "loop")]
    {
        symlink(target, site.settings.root.join(link)).expect("a symlink");
    }
    let mut site = site;
    let mut check = |path: &str, within: &str, follow: &str| {
        for (symlinks, expected) in [(Symlinks::Within, within), (Symlinks::Follow, follow), (Symlinks::Refuse, "404 NotFound")] {
            site.settings.symlinks = symlinks;
            site.check(get(path), expected);
        }
    };
    check("/to_file", "200 hello", "200 hello");
    check("/to_folder/", "200 below", "200 below");
    check("/to_folder", "301 ./to_folder/", "301 ./to_folder/");
    check("/sub/up/a.txt", "200 hello", "200 hello");
    check("/out", "404 NotFound", "200 secret");
    check("/loop", "404 NotFound", "404 NotFound");
    check("/etc/nothing", "404 NotFound", "404 NotFound");
}

#[test]
fn what_the_system_does_not_let_us_read_is_forbidden() {
    let site = Site::new(&[("a.txt", "hello"), ("shut/index.html", "inside")]);
    let close = |path: &str, mode| {
        fs::set_permissions(site.settings.root.join(path), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    close("a.txt", 0o000);
    close("shut", 0o111);
    if File::open(site.settings.root.join("a.txt")).is_ok() {
        // The superuser reads everything.
        return;
    }
    site.check(get("/a.txt"), "403 Forbidden");
    site.check(get("/shut/"), "200 inside");
    site.check(get("/shut"), "301 ./shut/");
    close("shut", 0o000);
    site.check(get("/shut/"), "403 Forbidden");
    close("shut", 0o755);
}

#[test]
fn settings_that_can_never_work_are_refused() {
    let check = |change: fn(&mut Settings), expected: io::ErrorKind| {
        let site = Site::new(&[]).set(change);
        assert_eq!(Root::open(&site.settings).map(drop).map_err(|error| error.kind()), Err(expected));
    };
    check(|settings| settings.root.push("none"), io::ErrorKind::NotFound);
    check(|settings| settings.root = Path::new("/dev/null").into(), io::ErrorKind::NotADirectory);
    check(|settings| settings.index.push("a/b".into()), io::ErrorKind::InvalidInput);
    check(|settings| settings.index.push("..".into()), io::ErrorKind::InvalidInput);
    check(|settings| settings.index.push(String::new()), io::ErrorKind::InvalidInput);
    check(|settings| settings.fallback = Some("/../x".into()), io::ErrorKind::InvalidInput);
    check(|settings| settings.fallback = Some("/".into()), io::ErrorKind::InvalidInput);
    check(|settings| settings.mime.push(("x".into(), "a\r\nb".into())), io::ErrorKind::InvalidInput);
}

#[test]
fn the_root_stays_the_folder_that_was_opened() {
    let site = Site::new(&[("a.txt", "hello")]);
    let root = Root::open(&site.settings).expect("a root");
    fs::rename(&site.settings.root, site.folder.path().join("moved")).expect("a move");
    fs::create_dir(&site.settings.root).expect("a folder");
    assert_eq!(short(&root.answer(&get("/a.txt"), now())), "200 hello");
}

#[test]
fn errors_of_the_system_are_not_called_missing() {
    let check = |error: rustix::io::Errno, expected: Refused| assert_eq!(super::refusal(error), expected);
    check(rustix::io::Errno::MFILE, Refused::Unreadable { os_error: rustix::io::Errno::MFILE.raw_os_error() });
    check(rustix::io::Errno::IO, Refused::Unreadable { os_error: rustix::io::Errno::IO.raw_os_error() });
    check(rustix::io::Errno::PERM, Refused::Forbidden);
    check(rustix::io::Errno::XDEV, Refused::NotFound);
}
