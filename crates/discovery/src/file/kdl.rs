//! A list of servers in KDL: `server "10.0.0.1:80" weight=2` on each line. Read line by line, which gives faults their line and keeps what the
//! parser costs in proportion to the text. What an entry means is in `list`.

use super::list::{Entry, List};
use kdl::{KdlDocument, KdlEntry, KdlNode, KdlValue};

/// The longest that means anything has about 400.
const LINE_BYTES_MAX: usize = 2048;
/// What starts parts that nest. The parser recurses, and no entry has a use for them.
const REFUSED: &[&str] = &["{", "(", "/*", "/-"];

const NOT_KDL: &str = "it is not KDL; a line is like `server \"10.0.0.1:80\" weight=2 backup=#true`";

/// Adds the entries to `list`. `Err` begins with the line.
pub fn parse(text: &str, list: &mut List) -> Result<(), String> {
    for (position, line) in text.lines().enumerate() {
        parse_line(line, list).map_err(|message| format!("line {}: {message}", position + 1))?;
    }
    Ok(())
}

fn parse_line(line: &str, list: &mut List) -> Result<(), String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("it has more than {LINE_BYTES_MAX} bytes"));
    }
    let line = without_comment(line);
    if line.trim().is_empty() {
        return Ok(());
    }
    if let Some(refused) = REFUSED.iter().find(|refused| line.contains(**refused)) {
        return Err(format!("`{refused}` has no place in a list of servers"));
    }
    let document = KdlDocument::parse_v2(line).map_err(|_| NOT_KDL)?;
    document.nodes().iter().try_for_each(|node| list.add(read(node)?))
}

/// Up to `//` outside of a text. A text with quotes of its own, which no entry needs, may be cut within and is then no KDL any more.
fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let mut is_text = false;
    let mut position = 0;
    while position < bytes.len() {
        match bytes[position] {
            b'"' => is_text = !is_text,
            b'\\' if is_text => position += 1,
            b'/' if !is_text && bytes.get(position + 1) == Some(&b'/') => return &line[..position],
            _ => {}
        }
        position += 1;
    }
    line
}

fn read(node: &KdlNode) -> Result<Entry, String> {
    let name = node.name().value();
    if name != "server" {
        return Err(format!("`{name}` is not known; each line is a `server`"));
    }
    let mut arguments = node.entries().iter().filter(|entry| entry.name().is_none());
    let address = arguments.next().and_then(|argument| argument.value().as_string());
    let Some(address) = address else { return Err("`server` needs an address, as in `server \"10.0.0.1:80\"`".into()) };
    if arguments.next().is_some() {
        return Err("write each server on a line of its own".into());
    }
    let mut entry = Entry::of_address(address);
    for property in node.entries() {
        if let Some(name) = property.name() {
            set(&mut entry, name.value(), property)?;
        }
    }
    Ok(entry)
}

fn set(entry: &mut Entry, name: &str, property: &KdlEntry) -> Result<(), String> {
    let value = property.value();
    let is_new = match name {
        "weight" => entry.weight.replace(number(name, value)?).is_none(),
        "backup" => entry.backup.replace(switch(name, value)?).is_none(),
        "priority" => entry.priority.replace(number(name, value)?).is_none(),
        "zone" => entry.zone.replace(text(name, value)?).is_none(),
        "leaving" => entry.leaving.replace(switch(name, value)?).is_none(),
        _ => {
            return Err(format!("`{name}` is not known; `weight`, `backup`, `priority`, `zone` and `leaving` are"));
        }
    };
    if is_new { Ok(()) } else { Err(format!("`{name}` is written twice")) }
}

fn number(name: &str, value: &KdlValue) -> Result<i128, String> {
    value.as_integer().ok_or_else(|| format!("`{name}` must be a number"))
}

fn switch(name: &str, value: &KdlValue) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{name}` must be #true or #false"))
}

fn text(name: &str, value: &KdlValue) -> Result<String, String> {
    value.as_string().map(str::to_owned).ok_or_else(|| format!("`{name}` must be a text"))
}
