//! Whatever a request says, no file outside the root is opened and nothing panics.

use super::{Answer, Ask, Method, Root, Settings, Symlinks, body, get, headers, now};
use proptest::prelude::{Strategy, prop_assert, prop_oneof, proptest};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::LazyLock;
use tempfile::TempDir;

static TREE: LazyLock<TempDir> = LazyLock::new(|| {
    let tree = TempDir::new().expect("a folder");
    let served = tree.path().join("served");
    fs::create_dir_all(served.join("sub/deep")).expect("folders");
    for file in ["secret", "served/a", "served/a.gz", "served/index.html", "served/sub/b", "served/sub/deep/c", "served/.hidden"]
    {
        fs::write(tree.path().join(file), file).expect("a file");
    }
    for (target, link) in
        [("../secret", "out"), ("..", "up"), ("../..", "sub/up"), ("/", "absolute"), ("sub", "link"), ("../a", "sub/a")]
    {
        symlink(target, served.join(link)).expect("a symlink");
    }
    tree
});

fn roots() -> Vec<Root> {
    let mut roots = Vec::new();
    for symlinks in [Symlinks::Within, Symlinks::Refuse] {
        let settings = Settings {
            fallback: Some("/index.html".into()),
            listing: true,
            hidden: true,
            precompressed: true,
            symlinks,
            ..Settings::new(TREE.path().join("served"))
        };
        roots.push(Root::open(&settings).expect("a root"));
        roots.push(Root::open(&settings).expect("a root").walking());
    }
    roots
}

static ROOTS: LazyLock<Vec<Root>> = LazyLock::new(roots);
static SERVED: LazyLock<PathBuf> = LazyLock::new(|| fs::canonicalize(TREE.path().join("served")).expect("a folder"));

/// Answers, and looks where the opened file really is.
fn check(ask: &Ask) {
    let answers = ROOTS.iter().flat_map(|root| [root.answer(ask, now()), root.send(ask.path, None, ask, now())]);
    for answer in answers {
        if let Answer::File(file) = &answer {
            let place = fs::read_link(format!("/proc/self/fd/{}", file.file.as_raw_fd())).expect("the path of a descriptor");
            assert!(place.starts_with(&*SERVED), "{ask:?} opened {place:?}");
        }
        if let Answer::Redirect { location } = &answer {
            assert!(location.starts_with("./") && location.bytes().all(|byte| byte.is_ascii_graphic()), "{location}");
        }
        let is_clean = |value: &str| value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        assert!(headers(&answer).iter().all(|(_, value)| is_clean(value)), "{ask:?}");
        body(&answer);
    }
}

/// Paths made of what attacks are made of.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => proptest::sample::select(vec![
            "a", "sub", "deep", "b", "c", "out", "up", "absolute", "link", "secret", "served", "etc", "passwd", ".hidden", "index.html",
            "..", ".", "%2e%2e", "%2E", "..%2f", "%2f", "%5c", "\\", "%00", "%252e%252e", "%c0%ae", "\u{ff0e}", "?", "#", ";", "//",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(proptest::num::u8::ANY, 0..4),
    ];
    (proptest::collection::vec(piece, 0..7), proptest::bool::ANY).prop_map(|(pieces, is_absolute)| {
        let joined = pieces.join(&b'/');
        if is_absolute { [b"/", joined.as_slice()].concat() } else { joined }
    })
}

proptest! {
    #[test]
    fn no_path_opens_a_file_outside(path in path(), request_path in path(), query in proptest::option::of(".{0,9}")) {
        let ask = Ask { request_path: &request_path, query: query.as_ref().map(String::as_bytes), ..Ask::new(Method::Get, &path) };
        check(&ask);
        prop_assert!(ROOTS.iter().all(|root| !body(&root.answer(&ask, now())).starts_with("secret")));
    }
}

#[test]
fn no_bytes_open_a_file_outside() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|path: &Vec<u8>| {
        check(&Ask::new(Method::Get, path));
        check(&Ask { request_path: path, query: Some(path), ..get("/sub") });
    });
}

#[test]
fn no_header_panics() {
    bolero::check!().with_type::<[Vec<u8>; 4]>().for_each(|[one, two, three, four]: &[Vec<u8>; 4]| {
        let range = [b"bytes=", three.as_slice()].concat();
        let ask =
            Ask { if_none_match: Some(one), if_range: Some(two), range: Some(&range), accept_encoding: Some(four), ..get("/a") };
        check(&ask);
        check(&Ask { accept: Some(one), ..get("/sub/") });
        check(&Ask { if_match: Some(one), if_unmodified_since: Some(two), if_modified_since: Some(four), ..get("/a") });
    });
}
