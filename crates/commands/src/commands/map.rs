//! `tidegate map …`: what maps have, and single rows that are changed while the process runs.

use super::reach;
use super::table::{table, uncut_table};
use crate::cli::map::MapCommand;
use crate::output;
use std::collections::BTreeSet;
use std::process::ExitCode;
use tidegate_admin::client::path_segment;
use tidegate_api::{Map, MapRow, MapRowChange, MapRows, Maps, UnusableChange};

pub fn run(command: MapCommand) -> ExitCode {
    match command {
        MapCommand::List { running } => reach::with(reach::running(&running), |client| {
            let maps: Maps = client.fetch("/v1/maps")?;
            output::say(&maps, || list(&maps));
            Ok(())
        }),
        MapCommand::Rows { map, changed, limit, from, running } => reach::with(reach::running(&running), |client| {
            let query = format!("changed={changed}&limit={limit}&from={from}");
            let rows: MapRows = client.fetch(&format!("/v1/maps/{}/rows?{query}", path_segment(&map)))?;
            output::say(&rows, || self::rows(&rows, from));
            Ok(())
        }),
        MapCommand::Get { map, key, running } => reach::with(reach::running(&running), |client| {
            let row: MapRow = client.fetch(&path(&map, &key))?;
            output::say(&row, || shown(&row));
            Ok(())
        }),
        MapCommand::Set { map, key, value, absent, running } => reach::with(reach::running(&running), |client| {
            let change = MapRowChange { value, absent: absent.then_some(true) };
            let row: MapRow = client.put(&path(&map, &key), &change)?;
            output::say(&row, || shown(&row));
            Ok(())
        }),
        MapCommand::Drop { map, key, running } => reach::with(reach::running(&running), |client| {
            let row: MapRow = client.delete(&path(&map, &key))?;
            output::say(&row, || shown(&row));
            Ok(())
        }),
    }
}

fn path(map: &str, key: &str) -> String {
    format!("/v1/maps/{}/rows/{}", path_segment(map), path_segment(key))
}

fn list(maps: &Maps) -> String {
    let row = |map: &Map| {
        let source = map.file.clone().unwrap_or_else(|| "the configuration".into());
        let hiding = match map.hiding_newer.len() {
            0 => String::new(),
            count => format!(", {count} hide newer ones"),
        };
        vec![map.name.clone(), map.rows.to_string(), format!("{}{hiding}", map.changed_rows), map.key.clone(), source]
    };
    let rows: Vec<Vec<String>> = maps.maps.iter().map(row).collect();
    let mut page = table(&["MAP", "ROWS", "CHANGED", "KEY", "FROM"], &rows);
    for map in &maps.maps {
        page.extend(map.fault.iter().map(|fault| format!("{fault}; the rows before stay in use\n")));
    }
    for map in &maps.maps {
        page.extend(map.unusable_changes.iter().map(|change| format!("{}: {}\n", map.name, unusable(change))));
    }
    // The storage of all may be away, or what is there of one map unusable.
    let faults: BTreeSet<&String> = maps.maps.iter().filter_map(|map| map.storage_fault.as_ref()).collect();
    page.extend(faults.into_iter().map(|fault| format!("changed rows: {fault}\n")));
    page
}

fn unusable(UnusableChange { key, fault, help }: &UnusableChange) -> String {
    let key = key.as_deref().map(|key| format!(" of `{key}`")).unwrap_or_default();
    format!("a changed row{key} in the storage does not count: {fault}; {help}")
}

fn rows(listed: &MapRows, from: usize) -> String {
    let row = |row: &MapRow| {
        let changed = match (row.changed, row.hides_newer) {
            (false, _) => "",
            (true, false) => "changed",
            (true, true) => "changed, hides a newer row",
        };
        let value = row.value.clone().unwrap_or_else(|| "(absent)".into());
        let source = row.source_value.clone().filter(|_| row.changed).unwrap_or_default();
        vec![row.key.clone(), value, changed.to_owned(), source]
    };
    let mut page = uncut_table(&["KEY", "VALUE", "", "FILE"], &listed.rows.iter().map(row).collect::<Vec<_>>());
    let last = from.saturating_add(listed.rows.len());
    if last < listed.count {
        page.push_str(&format!("and {} more; `--limit` and `--from` list them\n", listed.count - last));
    }
    page
}

fn shown(row: &MapRow) -> String {
    let value = row.value.as_deref().unwrap_or("(absent)");
    let of_source = match (&row.source_value, row.changed) {
        (Some(source), true) => format!("; the file has {source}"),
        (None, true) => "; the file has no such row".to_owned(),
        (_, false) => String::new(),
    };
    let changed = if row.changed { " (changed)" } else { "" };
    format!("{}: {value}{changed}{of_source}\n", row.key)
}
