//! A small run with everything in it that a report must cope with.
