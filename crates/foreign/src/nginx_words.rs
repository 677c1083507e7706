//! Statements of nginx for who reads a few of them within something else, as snippets of an Ingress: the same lexer,
//! the same parts of texts and the same words for which nothing has to be said as those of whole files.

use crate::{braces, nginx};

pub use crate::braces::Statement;
pub use crate::nginx::{TextPart, bytes, milliseconds, parts};

/// The statements of a part of a file. `Err`: it is no whole part, with where and why.
pub fn statements(text: &str) -> Result<Vec<Statement>, (usize, String)> {
    braces::of_nginx_part(text)
}

/// Why nothing has to be said for a statement of that name, whatever stands behind it.
pub fn why_needless(name: &str) -> Option<&'static str> {
    if nginx::is_same(name) { nginx::why_same(name) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{statements, why_needless};

    #[test]
    fn a_part_is_whole_or_none() {
        let check = |text: &str, expected: Result<usize, &str>| {
            let seen = statements(text).map(|all| all.len()).map_err(|(at, _)| &text[at..]);
            assert_eq!(seen, expected, "{text}");
        };
        check("", Ok(0));
        check("# nothing", Ok(0));
        check("add_header A b; deny all;", Ok(2));
        check("if ($host = a) { return 403; }", Ok(1));
        check("content_by_lua_block { x = '}' }", Ok(1));
        check(r#"content_by_lua_block { x = "a\"}" y = { 1 } } deny all;"#, Ok(2));
        check("set_by_lua_block $x { return '}' } deny all;", Ok(2));
        check("content_by_lua_block { -- it's }\n } deny all;", Ok(2));
        check("content_by_lua_block { --[[ } ' ]] x = [=[ }]] ]=] t[1] = 2 } deny all;", Ok(2));
        check("content_by_lua_block { x = '} }", Err("{ x = '} }"));
        check("add_header A b", Err("add_header A b"));
        check("deny all; add_header A b", Err("add_header A b"));
        check("if ($host = a) { return 403 }", Err("return 403 }"));
        check("if ($host = a) { return 403;", Err("{ return 403;"));
        check("return 403; }", Err("}"));
        check("return 'a;", Err("'a;"));
        check("add_header A a}; return 200;", Err("}; return 200;"));
    }

    #[test]
    fn words_that_tune_are_needless() {
        assert!(why_needless("proxy_buffer_size").is_some());
        assert!(why_needless("add_header").is_none());
        assert!(why_needless("satisfy").is_none());
    }
}
