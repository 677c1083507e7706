//! The real program under load, or for long: it is replaced, reloaded, shares its ports, loses its servers, and its
//! clients notice nothing. These tests put the machine under load, or stop a process that others ask; so each says
//! whether it can stand others beside it.

mod endpoints;
mod ingresses;
mod instances;
mod memory;
mod reload;
mod reuse_race;
mod rollout;
mod soak;
mod unix_sockets;
mod upgrade;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// For a test that needs the machine for itself, as far as this binary can help: it measures, or it loads all cores.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that may run beside others of its kind.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}
