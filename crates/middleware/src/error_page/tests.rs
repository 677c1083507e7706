//! Which page counts, what stays of the error, and that nothing a client sends becomes script.

use super::{ErrorFacts, ErrorPages, Origin};
use crate::context::{Context, View};
use crate::fixtures::{context, lines, push_lines, request, template};
use tidegate_model::{ErrorBody, ErrorFormat, ErrorPage, ErrorSource, PageBytes, RouteOptions, StatusRange};
use tidegate_wire::head::ResponseHead;

fn page(first: u16, last: u16, from: ErrorSource, body: ErrorBody) -> ErrorPage {
    ErrorPage { statuses: vec![StatusRange { first, last }], body, from, status: None }
}

fn text(text: &str) -> ErrorBody {
    ErrorBody::Template { text: template(text), content_type: "text/html".into(), file: None }
}

const NO_ROUTE: ErrorFacts =
    ErrorFacts { status: 404, reason: "no_route", sentence: "no route of this site matches the request" };

/// The answer to a request with these fields, out of an answer with those.
fn answer(
    pages: &ErrorPages,
    origin: Origin,
    error: ErrorFacts,
    asked: &[&str],
    answered: &[&str],
) -> Option<(u16, Vec<String>, String)> {
    let head = request("/<script>?\"&", "example.com", asked);
    let mut response = ResponseHead { status: error.status, ..ResponseHead::default() };
    push_lines(&mut response.fields, answered);
    let page = pages.find(error.status, origin, &head, Some(&response))?;
    let context = Context { error: Some((page.status(error.status), error.reason)), ..context() };
    let view = View { context: &context, request: &head, response: None };
    let mut buffer = b"left over".to_vec();
    let body = page.answer(&error, view, &mut response, &mut buffer).to_vec();
    Some((response.status, lines(&response.fields), String::from_utf8(body).expect("text")))
}

#[test]
fn the_first_that_fits_counts_the_routes_before_the_sites() {
    let site = [page(400, 599, ErrorSource::All, text("site")), page(404, 404, ErrorSource::All, text("never"))];
    let route = [page(404, 404, ErrorSource::Proxy, text("route")), page(500, 599, ErrorSource::Upstream, text("theirs"))];
    let options = |error_pages: &[ErrorPage]| RouteOptions { error_pages: error_pages.to_vec(), ..RouteOptions::default() };
    let pages = ErrorPages::new(&options(&site).and(&options(&route)).error_pages);
    let check = |status: u16, origin: Origin, expected: Option<&str>| {
        let error = ErrorFacts { status, reason: "", sentence: "" };
        assert_eq!(answer(&pages, origin, error, &[], &[]).map(|(_, _, body)| body).as_deref(), expected, "{status} {origin:?}");
    };
    check(404, Origin::Proxy, Some("route"));
    check(404, Origin::Upstream, Some("site"));
    check(503, Origin::Upstream, Some("theirs"));
    check(503, Origin::Proxy, Some("site"));
    check(403, Origin::Proxy, Some("site"));
    check(200, Origin::Upstream, None);
    check(302, Origin::Upstream, None);
    assert!(pages.has_upstreams() && !ErrorPages::new(&route[..1]).has_upstreams());
    assert!(answer(&ErrorPages::default(), Origin::Proxy, NO_ROUTE, &[], &[]).is_none());
}

#[test]
fn grpc_is_left_alone() {
    let pages = ErrorPages::new(&[page(400, 599, ErrorSource::All, text("page"))]);
    let check = |asked: &[&str], answered: &[&str], expected: bool| {
        assert_eq!(answer(&pages, Origin::Upstream, NO_ROUTE, asked, answered).is_some(), expected, "{asked:?} {answered:?}");
    };
    check(&[], &[], true);
    check(&["Content-Type: application/grpc"], &[], false);
    check(&["Content-Type: Application/GRPC-web+proto"], &[], false);
    check(&[], &["Content-Type: application/grpc+json"], false);
    check(&["Content-Type: application/json"], &["Content-Type: application/gr"], true);
}

#[test]
fn what_a_client_sends_is_shown_and_not_run() {
    let pages = ErrorPages::new(&[page(
        404,
        404,
        ErrorSource::Proxy,
        text("<p>{status} {status_text} {reason} {path} {query} {auth.user}</p>"),
    )]);
    let (_, _, body) = answer(&pages, Origin::Proxy, NO_ROUTE, &[], &[]).expect("a page");
    assert_eq!(body, "<p>404 Not Found no_route /&lt;script&gt; &quot;&amp; alice &lt;a&gt;</p>");
}

#[test]
fn fields_of_the_error_stay_and_those_of_its_body_go() {
    let bytes = ErrorBody::File {
        path: "x".into(),
        bytes: PageBytes(b"\xffpage".as_slice().into()),
        content_type: "text/x\r\ny: z".into(),
    };
    let site = [page(400, 599, ErrorSource::All, bytes)];
    let pages = ErrorPages::new(&site);
    let answered = [
        "WWW-Authenticate: Basic",
        "Content-Type: application/json",
        "Content-Encoding: gzip",
        "Retry-After: 5",
        "ETag: \"1\"",
        "Set-Cookie: a=b",
        "Content-Length: 9",
        "Last-Modified: x",
        "RateLimit: 1",
        "Allow: GET",
    ];
    let head = request("/", "example.com", &[]);
    let mut response = ResponseHead { status: 401, ..ResponseHead::default() };
    push_lines(&mut response.fields, &answered);
    let page = pages.find(401, Origin::Upstream, &head, Some(&response)).expect("a page");
    let context = context();
    let view = View { context: &context, request: &head, response: None };
    let mut buffer = Vec::new();
    let body = page.answer(&ErrorFacts { status: 401, reason: "", sentence: "" }, view, &mut response, &mut buffer);
    assert_eq!(body, b"\xffpage");
    let stays = [
        "WWW-Authenticate: Basic",
        "Retry-After: 5",
        "Set-Cookie: a=b",
        "RateLimit: 1",
        "Allow: GET",
        "content-type: text/x  y: z",
    ];
    assert_eq!(lines(&response.fields), stays);
    assert_eq!((response.status, response.reason()), (401, b"Unauthorized".as_slice()));
}

#[test]
fn a_page_is_made_in_the_form_that_is_wanted() {
    let made = |format: ErrorFormat, error: ErrorFacts, asked: &[&str]| {
        let pages = ErrorPages::new(&[page(400, 599, ErrorSource::All, ErrorBody::Made(format))]);
        answer(&pages, Origin::Proxy, error, asked, &[]).expect("a page")
    };
    let (_, fields, body) = made(ErrorFormat::Text, NO_ROUTE, &[]);
    assert_eq!(fields, ["content-type: text/plain; charset=utf-8"]);
    assert_eq!(body, "404 Not Found\nno route of this site matches the request (no_route)\n");
    let (_, fields, body) = made(ErrorFormat::Auto, NO_ROUTE, &["Accept: application/json"]);
    assert_eq!(fields, ["vary: Accept", "content-type: application/problem+json"]);
    assert_eq!(
        body,
        "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\"detail\":\"no route of this site matches the request\",\
         \"reason\":\"no_route\",\"request_id\":\"00000000000000000000000000000abc\"}\n"
    );
    let unknown = ErrorFacts { status: 599, reason: "", sentence: "" };
    assert_eq!(made(ErrorFormat::Text, unknown, &[]).2, "599\n");
    assert!(
        made(ErrorFormat::Json, unknown, &[])
            .2
            .starts_with("{\"type\":\"about:blank\",\"title\":\"Error\",\"status\":599,\"request_id\"")
    );
    let (_, _, body) = made(ErrorFormat::Html, NO_ROUTE, &[]);
    assert!(body.contains("<h1>404 Not Found</h1>\n<p>no route of this site matches the request (no_route)</p>"), "{body}");
}
