//! Everything that providers and strangers do wrong.
