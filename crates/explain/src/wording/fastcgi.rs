//! A `fastcgi` step in the words of its file.

use super::{HIDDEN, duration, is_secret, quoted, template};
use tidegate_model::{FastCgi, FastCgiKeepAlive, Timeouts};

/// `fastcgi "php:9000" root="/srv/www" { env "APP_ENV" "production" }`
pub fn fastcgi(fastcgi: &FastCgi) -> String {
    let FastCgi { address, root, index, fallback, split, env, serves_files, timeouts, keep } = fastcgi;
    let defaults = FastCgi::new(address.clone(), root);
    let mut text = format!("fastcgi {} root={}", quoted(&address.to_string()), quoted(&root.display().to_string()));
    if *index != defaults.index {
        text.push_str(&format!(" index={}", quoted(index)));
    }
    if let Some(fallback) = fallback {
        text.push_str(&format!(" fallback={}", quoted(fallback)));
    }
    if *split != defaults.split {
        text.push_str(&format!(" split={}", quoted(split)));
    }
    if *serves_files {
        text.push_str(" static=#true");
    }
    let mut lines: Vec<String> = env
        .iter()
        .map(|(name, value)| {
            let value = if is_secret(name) { quoted(HIDDEN) } else { template(value) };
            format!("env {} {value}", quoted(name))
        })
        .collect();
    if *timeouts != defaults.timeouts {
        let of = |name, value| format!("{name}={}", quoted(&duration(value)));
        let Timeouts { connect, first_byte, idle } = *timeouts;
        lines.push(format!("timeout {} {} {}", of("connect", connect), of("first-byte", first_byte), of("idle", idle)));
    }
    let FastCgiKeepAlive { connections, idle } = *keep;
    if *keep != defaults.keep {
        lines.push(format!("keep-alive connections={connections} idle={}", quoted(&duration(idle))));
    }
    if !lines.is_empty() {
        text.push_str(&format!(" {{ {} }}", lines.join("; ")));
    }
    text
}
