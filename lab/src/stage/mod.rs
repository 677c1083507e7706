//! The processes of a run.
pub mod child;
pub mod interrupt;
pub mod syscalls;
