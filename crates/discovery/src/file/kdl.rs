//! A list of servers in KDL: `server "10.0.0.1:80" weight=2` on each line. Read line by line, which gives faults their
//! line. What an entry means is in `list`.

use super::list::{Entry, List};
use tidegate_kdl::{FileId, Literal, Node, TokenKind, Tokens};

const NOT_KDL: &str = "it is not KDL; a line is like `server \"10.0.0.1:80\" weight=2 backup=#true`";

/// Adds the entries to `list`. `Err` begins with the line.
pub fn parse(text: &str, list: &mut List) -> Result<(), String> {
    for (position, line) in text.lines().enumerate() {
        parse_line(line, list).map_err(|message| format!("line {}: {message}", position + 1))?;
    }
    Ok(())
}

fn parse_line(line: &str, list: &mut List) -> Result<(), String> {
    // No entry has a use for parts that nest, or that reach over several lines.
    let is_refused =
        |kind| matches!(kind, TokenKind::Open | TokenKind::ParenOpen | TokenKind::BlockComment | TokenKind::Slashdash);
    if let Some(token) = Tokens::of(line).find(|token| is_refused(token.kind)) {
        let written = &line[token.span];
        let refused = if token.kind == TokenKind::BlockComment { "/*" } else { written };
        return Err(format!("`{refused}` has no place in a list of servers"));
    }
    let nodes = tidegate_kdl::parse(line, FileId(0)).map_err(|_| NOT_KDL)?;
    nodes.iter().try_for_each(|node| list.add(read(node)?))
}

fn read(node: &Node) -> Result<Entry, String> {
    let name = &node.name.text;
    if name != "server" {
        return Err(format!("`{name}` is not known; each line is a `server`"));
    }
    let mut arguments = node.entries.iter().filter(|entry| entry.name.is_none());
    let Some(Literal::Text(address)) = arguments.next().map(|argument| &argument.value.literal) else {
        return Err("`server` needs an address, as in `server \"10.0.0.1:80\"`".into());
    };
    if arguments.next().is_some() {
        return Err("write each server on a line of its own".into());
    }
    let mut entry = Entry::of_address(address);
    for property in &node.entries {
        if let Some(name) = &property.name {
            set(&mut entry, &name.text, &property.value.literal)?;
        }
    }
    Ok(entry)
}

fn set(entry: &mut Entry, name: &str, value: &Literal) -> Result<(), String> {
    let is_new = match name {
        "weight" => entry.weight.replace(number(name, value)?).is_none(),
        "backup" => entry.backup.replace(switch(name, value)?).is_none(),
        "priority" => entry.priority.replace(number(name, value)?).is_none(),
        "zone" => entry.zone.replace(text(name, value)?).is_none(),
        "max-connections" => entry.max_connections.replace(number(name, value)?).is_none(),
        "max-requests" => entry.max_requests.replace(number(name, value)?).is_none(),
        "leaving" => entry.leaving.replace(switch(name, value)?).is_none(),
        _ => {
            return Err(format!(
                "`{name}` is not known; `weight`, `backup`, `priority`, `zone`, `max-connections`, `max-requests` and `leaving` are"
            ));
        }
    };
    if is_new { Ok(()) } else { Err(format!("`{name}` is written twice")) }
}

fn number(name: &str, value: &Literal) -> Result<i128, String> {
    match value {
        Literal::Integer(number) => Ok(*number),
        Literal::Text(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => Err(format!("`{name}` must be a number")),
    }
}

fn switch(name: &str, value: &Literal) -> Result<bool, String> {
    match value {
        Literal::Switch(switch) => Ok(*switch),
        Literal::Text(_) | Literal::Integer(_) | Literal::Float(_) | Literal::Null => {
            Err(format!("`{name}` must be #true or #false"))
        }
    }
}

fn text(name: &str, value: &Literal) -> Result<String, String> {
    match value {
        Literal::Text(text) => Ok(text.clone()),
        Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => Err(format!("`{name}` must be a text")),
    }
}
