//! The admin endpoint: metrics, health, readiness.
