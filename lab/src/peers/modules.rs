//! Which module a build of nginx or Angie lacks for a configuration, out of what it says when it refuses it: whoever
//! reads that has to install something, and not to correct the configuration. Pure.

use super::kind::PeerKind;

/// A module, by which of its words a build that lacks it is known, and where it is got.
struct Module {
    name: &'static str,
    /// Directives of it that the lab's configurations have, by their beginning.
    directives: &'static [&'static str],
    nginx: &'static str,
    angie: &'static str,
}

/// For modules that only a template of the user's own names.
const OF_ITS_MAKERS: &str = "take the package of its makers, or build it";

const MODULES: [Module; 7] = [
    Module {
        name: "ngx_http_brotli_filter_module",
        directives: &["brotli"],
        nginx: "install `libnginx-mod-http-brotli-filter`, or build ngx_brotli for this version",
        angie: "install `angie-module-brotli` from Angie's repository",
    },
    Module {
        name: "ngx_http_zstd_filter_module",
        directives: &["zstd"],
        nginx: "build zstd-nginx-module for this version",
        angie: "install `angie-module-zstd` from Angie's repository",
    },
    Module {
        name: "ngx_http_v3_module",
        directives: &["http3", "quic"],
        nginx: "take nginx.org's package, or build it `--with-http_v3_module`",
        angie: "take Angie's own package, or build it `--with-http_v3_module`",
    },
    Module {
        name: "ngx_http_v2_module",
        directives: &["http2"],
        nginx: "take a package, or build it `--with-http_v2_module`",
        angie: "take Angie's own package, or build it `--with-http_v2_module`",
    },
    Module {
        name: "ngx_http_ssl_module",
        directives: &["ssl"],
        nginx: "take a package, or build it `--with-http_ssl_module`",
        angie: "take Angie's own package, or build it `--with-http_ssl_module`",
    },
    Module {
        name: "ngx_http_rewrite_module",
        directives: &["rewrite", "return"],
        nginx: "take a package, or build it without `--without-http_rewrite_module`, which needs the headers of PCRE",
        angie: "take Angie's own package, or build it without `--without-http_rewrite_module`",
    },
    Module {
        name: "ngx_http_gzip_filter_module",
        directives: &["gzip"],
        nginx: "take a package, or build it without `--without-http_gzip_module`",
        angie: "take Angie's own package, or build it without `--without-http_gzip_module`",
    },
];

/// A sentence with what to install, if what this peer `said` means that a module is not there; `None` where the
/// configuration is what is wrong.
pub fn missing_module(kind: PeerKind, said: &str) -> Option<String> {
    let is_angie = match kind {
        PeerKind::Angie => true,
        PeerKind::Nginx => false,
        PeerKind::Tidegate | PeerKind::Haproxy | PeerKind::Envoy | PeerKind::Caddy | PeerKind::Traefik => return None,
    };
    let file = file_not_loaded(said);
    let named = || {
        let directive = between(said, "unknown directive \"", "\"");
        let of_directive =
            |directive: &str| MODULES.iter().find(|module| module.directives.iter().any(|start| is_word_of(directive, start)));
        let required = MODULES.iter().find(|module| said.contains(&format!("requires {}", module.name)));
        directive.and_then(of_directive).or(required)
    };
    let module = match file {
        Some(file) => MODULES.iter().find(|module| file.contains(module.name)),
        None => Some(named()?),
    };
    let (name, advice) = match (module, file) {
        (Some(module), _) => (module.name, if is_angie { module.angie } else { module.nginx }),
        (None, file) => (file.unwrap_or_default(), OF_ITS_MAKERS),
    };
    Some(format!("the module `{name}` is missing or does not fit this version: {advice}"))
}

/// The module whose file there is not, or is one for another version.
fn file_not_loaded(said: &str) -> Option<&str> {
    let opened = || between(said, "dlopen() \"", "\" failed");
    let version = || between(said, "module \"", "\" version ");
    let binary = || between(said, "module \"", "\" is not binary compatible");
    let path = opened().or_else(version).or_else(binary)?;
    let file = path.rsplit('/').next().unwrap_or(path);
    Some(file.strip_suffix(".so").unwrap_or(file))
}

/// `brotli` and `brotli_comp_level` are words of `brotli`, `gzipped` is none of `gzip`.
fn is_word_of(directive: &str, start: &str) -> bool {
    directive.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    let (found, _) = rest.split_once(after)?;
    (!found.contains('\n')).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_is_told_from_a_wrong_configuration() {
        use PeerKind::{Angie, Haproxy, Nginx};
        let check = |kind: PeerKind, said: &str, expected: Option<&[&str]>| {
            let told = missing_module(kind, said);
            match (&told, expected) {
                (None, None) => {}
                (Some(told), Some(parts)) => assert!(parts.iter().all(|part| told.contains(part)), "{said}: {told}"),
                _ => panic!("{said}: {told:?}"),
            }
        };
        let unknown =
            |directive: &str| format!("exit status: 1: nginx: [emerg] unknown directive \"{directive}\" in /t/x.conf:24");
        check(Angie, &unknown("brotli"), Some(&["`ngx_http_brotli_filter_module`", "`angie-module-brotli`"]));
        check(Angie, &unknown("zstd_comp_level"), Some(&["`ngx_http_zstd_filter_module`", "`angie-module-zstd`"]));
        check(Nginx, &unknown("brotli_types"), Some(&["libnginx-mod-http-brotli-filter"]));
        check(Nginx, &unknown("http3"), Some(&["--with-http_v3_module"]));
        check(Nginx, &unknown("rewrite"), Some(&["--without-http_rewrite_module"]));
        check(Angie, "[emerg] the \"quic\" parameter requires ngx_http_v3_module in /t/x:1", Some(&["`ngx_http_v3_module`"]));
        let unopened =
            "[emerg] dlopen() \"/usr/lib/angie/modules/ngx_http_zstd_filter_module.so\" failed (cannot open shared object file)";
        check(Angie, unopened, Some(&["`ngx_http_zstd_filter_module`", "`angie-module-zstd`"]));
        let other = "[emerg] module \"/m/ngx_http_brotli_filter_module.so\" version 1022001 instead of 1031004 in /t/x:1";
        check(Nginx, other, Some(&["brotli", "does not fit this version"]));
        check(Nginx, "[emerg] dlopen() \"/m/ngx_lua.so\" failed (x)", Some(&["`ngx_lua`", "the package of its makers"]));
        check(Nginx, &unknown("gzipped"), None);
        check(Nginx, &unknown("bortli"), None);
        check(Angie, "[emerg] invalid number of arguments in \"brotli\" directive in /t/x:3", None);
        check(Haproxy, &unknown("brotli"), None);
    }
}
