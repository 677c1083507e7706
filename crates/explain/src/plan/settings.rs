//! Settings with a name and a value: those of the process here, and how any of them are compared.

use super::HIDDEN_VALUE;
use tidegate_api::{Effect, SettingChange};
use tidegate_config::writing::{self, WrittenSetting};
use tidegate_model::{Configuration, Threads};

/// Settings of the process that differ, in the order in which they are documented.
pub fn changes(before: &Configuration, after: &Configuration) -> Vec<SettingChange> {
    let mut changes = different(&writing::of_process(before), &writing::of_process(after));
    for change in &mut changes {
        match change.name.as_str() {
            "threads" => change.effect = effect_of_threads(before.threads, after.threads),
            // At most: `auto` may be the one that runs.
            "driver" => change.effect = Effect::WorkersLeave,
            _ => {}
        }
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

/// Settings of two lists that have another value, or are in one of them only: their value in the other is empty.
pub fn different(before: &[WrittenSetting], after: &[WrittenSetting]) -> Vec<SettingChange> {
    fn of_name<'s>(list: &'s [WrittenSetting], name: &str) -> Option<&'s WrittenSetting> {
        list.iter().find(|setting| setting.name == name)
    }
    let of_before = before.iter().map(|old| (&old.name, Some(old), of_name(after, &old.name)));
    let new = after.iter().filter(|new| of_name(before, &new.name).is_none());
    let changed = of_before.chain(new.map(|new| (&new.name, None, Some(new)))).filter(|(_, old, new)| old != new);
    let value = |setting: Option<&'_ WrittenSetting>| setting.map_or_else(String::new, |setting| setting.value.clone());
    changed.map(|(name, old, new)| change(name, &value(old), &value(new))).collect()
}

/// A setting that is another one, and touches no connection. Where it reads the same, only a secret of it is.
pub fn change(name: &str, before: &str, after: &str) -> SettingChange {
    let shown = |value: &str| if before == after { HIDDEN_VALUE } else { value }.to_owned();
    SettingChange { name: name.to_owned(), before: shown(before), after: shown(after), effect: Effect::Untouched }
}
