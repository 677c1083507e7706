//! Any text is read as a file of nginx without a panic, in bounded time, and every statement of it begins where its
//! word stands.

use super::outline;
use crate::braces;

/// Pieces that texts are made of, so that more than single bytes is met.
const PIECES: [&str; 48] = [
    "http {",
    "server {",
    "location / {",
    "location ~ ^/a(.*)$ {",
    "location @b {",
    "location = /c {",
    "location /d/ {",
    "if ($host = a) {",
    "if (!-e $request_filename) {",
    "map $uri $v {",
    "geo $g {",
    "split_clients $uri $s {",
    "upstream app {",
    "stream {",
    "}",
    "}",
    "}",
    ";",
    "{",
    "\"",
    "'",
    "\\",
    "#",
    "\n",
    " ",
    "${",
    "$1",
    "proxy_pass http://app/x/;",
    "proxy_pass http://$v$request_uri;",
    "rewrite ^/a(.*)$ /b$1 last;",
    "rewrite ^ /c? permanent;",
    "return 301 https://$host$request_uri;",
    "return 200 \"{x}\";",
    "try_files $uri $uri/ @b;",
    "try_files $uri /index.php?$args;",
    "error_page 404 = @b;",
    "fastcgi_pass 127.0.0.1:9000;",
    "root /srv;",
    "alias /srv/$1;",
    "internal;",
    "auth_request /c;",
    "listen 443 ssl default_server;",
    "server_name a.example.com;",
    "limit_req zone=z burst=5;",
    "allow 10.0.0.0/8; deny all;",
    "set $x $y; set $y $x;",
    "default a;",
    "content_by_lua_block { x }",
];

#[test]
fn any_pieces_are_read_without_a_panic() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| {
        let text: String = bytes.iter().take(200).map(|byte| PIECES[usize::from(*byte) % PIECES.len()]).collect();
        check(&text);
    });
}

#[test]
fn any_text_is_read_without_a_panic() {
    bolero::check!().with_type::<String>().for_each(|text: &String| check(text));
}

fn check(text: &str) {
    let _ = braces::fault_of_nginx(text);
    let outline = outline(text);
    for statement in &outline.statements {
        assert!(text.is_char_boundary(statement.at), "a statement begins within a character of {text:?}");
    }
}

#[test]
fn words_end_as_nginx_ends_them() {
    let check = |text: &str, expected: &[&str]| {
        let statements = braces::of_nginx(text);
        let words: Vec<&str> = statements.iter().flat_map(|statement| &statement.words).map(String::as_str).collect();
        assert_eq!(words, expected, "for {text}");
    };
    check(r#"return 200 "a\n\"b\"";"#, &["return", "200", "a\n\"b\""]);
    check(r"location ~ \.php$ { }", &["location", "~", r"\.php$"]);
    check(r#"rewrite "^/a{2}$" /b;"#, &["rewrite", "^/a{2}$", "/b"]);
    check(r"return 200 a\ b;", &["return", "200", r"a\ b"]);
    check("set $a ${b}c;", &["set", "$a", "${b}c"]);
    check("add_header X 'it''s';", &["add_header", "X", "it", "s"]);
    check("root /srv/é;", &["root", "/srv/é"]);
}
