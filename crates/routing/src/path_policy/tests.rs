//! What each policy makes of a path, and that what was settled stays so.
//! Dots and percent codes, which no policy touches, are tested in `wire::path`.

use super::{NeverFits, PathRefusal, never_fits, path_as_sent, settle_path};
use proptest::prelude::*;
use tidegate_model::{EncodedSlashes, PathCase, PathExpressions, PathParameters, PathPattern, PathPolicy, Slashes};
use tidegate_wire::path::{Normalised, normalise};

fn policy(slashes: Slashes, encoded_slashes: EncodedSlashes, case: PathCase) -> PathPolicy {
    PathPolicy { slashes, encoded_slashes, case, ..PathPolicy::DEFAULT }
}

#[test]
fn what_servers_disagree_about_is_settled() {
    let check = |policy: PathPolicy, path: &str, expected: Result<&str, PathRefusal>| {
        let settled = settle_path(policy, path.as_bytes()).map(|changed| {
            let bytes = changed.unwrap_or_else(|| path.as_bytes().to_vec());
            String::from_utf8(bytes).expect("a path of the test")
        });
        assert_eq!(settled.as_deref().map_err(|refusal| *refusal), expected, "{path} {policy:?}");
    };
    let default = PathPolicy::DEFAULT;
    check(default, "/a/b", Ok("/a/b"));
    check(default, "//a///b//", Ok("/a/b/"));
    check(default, "/a%2Fb%5Cc", Ok("/a%2Fb%5Cc"));
    check(default, "/A", Ok("/A"));
    check(default, "*", Ok("*"));
    check(default, "", Ok(""));
    let keep = policy(Slashes::Keep, EncodedSlashes::Keep, PathCase::Keep);
    check(keep, "//a//%2F", Ok("//a//%2F"));
    let strict = policy(Slashes::Refuse, EncodedSlashes::Refuse, PathCase::Keep);
    check(strict, "/a//b", Err(PathRefusal::Slashes));
    check(strict, "/a%2Fb", Err(PathRefusal::EncodedSlash));
    check(strict, "/a%5Cb", Err(PathRefusal::EncodedSlash));
    check(strict, "/a%25b/%C3", Ok("/a%25b/%C3"));
    let decode = policy(Slashes::Merge, EncodedSlashes::Decode, PathCase::Keep);
    check(decode, "/a%2Fb", Ok("/a/b"));
    check(decode, "/a%2F%2Fb%5C", Ok("/a/b%5C"));
    check(decode, "/a%2F..%2Fadmin", Ok("/admin"));
    check(decode, "/%2F..%2F..", Err(PathRefusal::EscapesRoot));
    // Decoded once: what was hidden twice stays hidden, as it is for the upstream.
    check(decode, "/a%252Fb", Ok("/a%252Fb"));
    check(decode, "/a%2F..;x%2Fadmin", Err(PathRefusal::Parameters));
    let pass = PathPolicy { encoded_slashes: EncodedSlashes::Pass, ..default };
    check(pass, "/a%2Fb%5C", Ok("/a/b%5C"));
    check(pass, "/a%2F%2Fb/", Ok("/a/b/"));
    check(pass, "/%2Fadmin", Ok("/admin"));
    check(pass, "/wiki/Special%3AExport%40%24", Ok("/wiki/Special:Export@$"));
    check(pass, "/a%20b%25%3F%C3%A9%5B", Ok("/a%20b%25%3F%C3%A9%5B"));
    check(pass, "/a%252F%253A", Ok("/a%252F%253A"));
    check(pass, "/x/..%3Ba/admin", Err(PathRefusal::Parameters));
    for path in ["/x/..%2Fadmin", "/x/.%2Fadmin", "/admin%2F..%2Fx", "/x%2F.."] {
        check(pass, path, Err(PathRefusal::EncodedSlash));
    }
    check(pass, "/..%2F..%2Fx", Err(PathRefusal::EscapesRoot));
    check(default, "/a;b=c/d", Ok("/a;b=c/d"));
    let without = PathPolicy { parameters: PathParameters::Refuse, ..default };
    check(without, "/a;b=c/d", Err(PathRefusal::Parameters));
    check(without, "/a%3Bb/d", Err(PathRefusal::Parameters));
    check(without, "/a/;", Err(PathRefusal::Parameters));
    check(without, "/a,b=c/%3A", Ok("/a,b=c/%3A"));
    let lower = policy(Slashes::Merge, EncodedSlashes::Keep, PathCase::Lower);
    check(lower, "/A/%C3%9C/B%2FC", Ok("/a/%C3%9C/b%2Fc"));
}

proptest! {
    #[test]
    fn what_is_settled_stays_so(
        path in "/[a-cA-C./%25-]{0,20}",
        slashes in 0_usize..3,
        encoded in 0_usize..4,
        case in 0_usize..2,
    ) {
        let policy = policy(Slashes::NAMES[slashes].1, EncodedSlashes::NAMES[encoded].1, PathCase::NAMES[case].1);
        let mut normal = Vec::new();
        let path = match normalise(path.as_bytes(), &mut normal) {
            Normalised::Unchanged => path.into_bytes(),
            Normalised::Changed => normal,
            Normalised::EscapesRoot | Normalised::DotsWithParameter | Normalised::Bad => return Ok(()),
        };
        let Ok(settled) = settle_path(policy, &path) else { return Ok(()) };
        let settled = settled.unwrap_or(path);
        prop_assert_eq!(settle_path(policy, &settled), Ok(None));
        let mut again = Vec::new();
        prop_assert_eq!(normalise(&settled, &mut again), Normalised::Unchanged);
    }
}

#[test]
fn what_no_step_changes_goes_on_as_it_was_sent() {
    let check = |policy: PathPolicy, sent: &str, expected: Option<&str>| {
        let spelled = path_as_sent(policy, sent.as_bytes()).map(|path| String::from_utf8(path).expect("a path of the test"));
        assert_eq!(spelled.as_deref(), expected, "{sent} {policy:?}");
    };
    let default = PathPolicy::DEFAULT;
    let pass = PathPolicy { encoded_slashes: EncodedSlashes::Pass, ..default };
    check(default, "/a//b", Some("/a//b"));
    check(default, "//a//b", Some("/a//b"));
    check(default, "/a/b", None);
    check(default, "/a%2Fb", None);
    check(pass, "/a%2Fb", Some("/a%2Fb"));
    check(pass, "//a%2F/b", Some("/a%2F/b"));
    check(pass, "/a//b", Some("/a//b"));
    check(pass, "/a%3Ab", Some("/a%3Ab"));
    let merge = PathPolicy { slashes: Slashes::Merge, ..pass };
    check(merge, "/a//b%2Fc", Some("/a/b%2Fc"));
    check(merge, "/a//b", None);
    let lower = PathPolicy { case: PathCase::Lower, ..pass };
    check(lower, "/A%2FB", Some("/a%2Fb"));
}

#[test]
fn which_patterns_no_request_fits() {
    let check = |pattern: PathPattern, policy: PathPolicy, expected: Option<NeverFits>| {
        assert_eq!(never_fits(&pattern, policy), expected, "{pattern:?} {policy:?}");
    };
    let prefix = |text: &str| PathPattern::Prefix(text.into());
    let exact = |text: &str| PathPattern::Exact(text.into());
    let starts = |text: &str| PathPattern::Beginning(text.into());
    let spelled = |text: &str| Some(NeverFits::Spelled(text.into()));
    let default = PathPolicy::DEFAULT;
    for fits in [prefix("/"), prefix("/Admin/"), exact("/é b"), exact("/a/../b"), exact("/a%2fb")] {
        check(fits, default, None);
    }
    for fits in [starts("/a"), starts("/."), starts("/é"), starts("/a/../b")] {
        check(fits, default, None);
    }
    check(starts("/a//b"), default, spelled("/a/b"));
    check(starts("/../x"), default, Some(NeverFits::NoPath));
    check(starts("/a%2"), default, Some(NeverFits::NoPath));
    check(prefix("//x/"), default, spelled("/x/"));
    check(exact("/a//b"), default, spelled("/a/b"));
    check(exact("/../x"), default, Some(NeverFits::NoPath));
    let lower = PathPolicy { case: PathCase::Lower, ..default };
    check(prefix("/Admin/"), lower, spelled("/admin/"));
    check(starts("/Admin"), lower, spelled("/admin"));
    check(exact("/é"), lower, None);
    let regex = |text: &str| PathPattern::Regex(text.into());
    let contains = |text: &str| Some(NeverFits::Contains(text.into()));
    check(regex("^/Admin"), lower, contains("/Admin"));
    check(regex("^/(?i)Admin"), lower, None);
    check(regex("^/%C3%A9"), lower, None);
    check(regex("^/(Admin|api)/"), lower, None);
    check(regex("^/[A-Z]"), lower, None);
    check(regex("^//x"), default, contains("//x"));
    check(regex(r"^/\{id\}"), default, contains("/{id}"));
    check(exact("/{id}"), default, None);
    let without = PathPolicy { parameters: PathParameters::Refuse, ..default };
    check(exact("/a;b"), without, Some(NeverFits::Refused(PathRefusal::Parameters)));
    check(exact("/a/..;/b"), default, Some(NeverFits::NoPath));
    check(regex("^/+x"), default, None);
    check(regex("^/a%2Fb"), PathPolicy { encoded_slashes: EncodedSlashes::Refuse, ..default }, contains("/a%2Fb"));
    let decoded = PathPolicy { expressions: PathExpressions::Decoded, ..default };
    for fits in [r"^/\{id\}", "^/a b", "^/a%2Fb", "^//x", "^/\n"] {
        check(regex(fits), decoded, None);
    }
    let passed = PathPolicy { encoded_slashes: EncodedSlashes::Pass, ..decoded };
    check(regex("^//x"), passed, contains("//x"));
    check(regex(r"^/a\x00"), passed, contains("/a\0"));
    check(regex("^/Admin"), PathPolicy { case: PathCase::Lower, ..passed }, contains("/Admin"));
    check(regex("^/a;"), PathPolicy { parameters: PathParameters::Refuse, ..passed }, contains("/a;"));
    let refuse = policy(Slashes::Refuse, EncodedSlashes::Refuse, PathCase::Keep);
    check(exact("/a//b"), refuse, Some(NeverFits::Refused(PathRefusal::Slashes)));
    check(exact("/a%2fb"), refuse, Some(NeverFits::Refused(PathRefusal::EncodedSlash)));
    check(exact("/a%2fb"), PathPolicy { encoded_slashes: EncodedSlashes::Decode, ..default }, spelled("/a/b"));
}
