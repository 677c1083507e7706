//! Merge, check, compile, publish, drain.
