//! Settings with a name and a value: those of the process here, and how any of them are compared.

use super::HIDDEN_VALUE;
use crate::wording;
use tidegate_api::{Effect, Setting, SettingChange};
use tidegate_config::writing::{is_secret, show_duration};
use tidegate_model::{Configuration, Log, Threads};

/// Settings of the process that differ, in the order in which they are documented.
pub fn changes(before: &Configuration, after: &Configuration) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    if before.edition != after.edition {
        changes.push(change("edition", before.edition.as_str(), after.edition.as_str()));
    }
    if before.admin != after.admin {
        changes.push(change("admin", &wording::admin(&before.admin), &wording::admin(&after.admin)));
    }
    if before.admin_token != after.admin_token {
        changes.push(change("admin token", "", ""));
    }
    if before.access_log != after.access_log {
        changes.extend(different(wording::access_log(&before.access_log), wording::access_log(&after.access_log)));
    }
    let (Log { level: old_level }, Log { level: new_level }) = (&before.log, &after.log);
    if old_level != new_level {
        changes.push(change("log level", wording::log_level(*old_level), wording::log_level(*new_level)));
    }
    if before.threads != after.threads {
        let threads = change("threads", &wording::threads(before.threads), &wording::threads(after.threads));
        changes.push(SettingChange { effect: effect_of_threads(before.threads, after.threads), ..threads });
    }
    if before.memory != after.memory {
        changes.push(change("memory", &wording::memory(before.memory), &wording::memory(after.memory)));
    }
    if before.cache != after.cache {
        changes.push(change("cache", &wording::cache_store(&before.cache), &wording::cache_store(&after.cache)));
    }
    if before.acme != after.acme {
        changes.push(change_or_hidden("acme", &wording::acme(before.acme.as_ref()), &wording::acme(after.acme.as_ref())));
    }
    if before.storage != after.storage {
        changes.push(change_or_hidden("storage", &wording::storage(&before.storage), &wording::storage(&after.storage)));
    }
    if before.ticket_keys != after.ticket_keys {
        changes.push(change(
            "ticket-keys",
            &wording::ticket_keys(&before.ticket_keys),
            &wording::ticket_keys(&after.ticket_keys),
        ));
    }
    if before.drain != after.drain {
        changes.push(change("drain", &show_duration(before.drain), &show_duration(after.drain)));
    }
    if before.limits != after.limits {
        let limits = different(wording::limits(&before.limits), wording::limits(&after.limits));
        changes.extend(limits.into_iter().map(|limit| SettingChange { name: format!("limits {}", limit.name), ..limit }));
    }
    changes
}

fn effect_of_threads(before: Threads, after: Threads) -> Effect {
    match (before, after) {
        (Threads::Count(before), Threads::Count(after)) if after >= before => Effect::Untouched,
        (Threads::Auto, Threads::Auto) => Effect::Untouched,
        (Threads::Count(_) | Threads::Auto, Threads::Count(_) | Threads::Auto) => Effect::WorkersLeave,
    }
}

/// Settings of two lists of the same names that have another value.
pub fn different<const N: usize>(before: [Setting; N], after: [Setting; N]) -> Vec<SettingChange> {
    let pairs = before.into_iter().zip(after).filter(|(old, new)| old.value != new.value);
    pairs.map(|(old, new)| change(&new.name, &old.value, &new.value)).collect()
}

/// Settings of two lists that have another value, or are in one of them only: their value in the other is empty.
pub fn different_lists(before: &[Setting], after: &[Setting]) -> Vec<SettingChange> {
    fn value_in<'s>(list: &'s [Setting], name: &str) -> Option<&'s str> {
        list.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
    }
    let of_before = before.iter().map(|old| (&*old.name, old.value.as_str(), value_in(after, &old.name).unwrap_or_default()));
    let is_new = |setting: &&Setting| value_in(before, &setting.name).is_none();
    let of_after = after.iter().filter(is_new).map(|new| (&*new.name, "", new.value.as_str()));
    let changed = of_before.chain(of_after).filter(|(_, old, new)| old != new);
    changed.map(|(name, old, new)| change(name, old, new)).collect()
}

/// A setting that is another one; where it reads the same, only a secret of it is.
pub fn change_or_hidden(name: &str, before: &str, after: &str) -> SettingChange {
    if before == after { hidden(name) } else { change(name, before, after) }
}

/// A setting that is another one, and is not shown.
pub fn hidden(name: &str) -> SettingChange {
    let shown = || HIDDEN_VALUE.to_owned();
    SettingChange { name: name.to_owned(), before: shown(), after: shown(), effect: Effect::Untouched }
}

/// A setting that touches no connection. The one place where values enter a plan, and so where secret ones stay out.
pub fn change(name: &str, before: &str, after: &str) -> SettingChange {
    let shown = |value: &str| if is_secret(name) { HIDDEN_VALUE.to_owned() } else { value.to_owned() };
    SettingChange { name: name.to_owned(), before: shown(before), after: shown(after), effect: Effect::Untouched }
}
