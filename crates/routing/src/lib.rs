//! Compiled matchers: host, path, predicates.
