//! One folder per step of a route.
