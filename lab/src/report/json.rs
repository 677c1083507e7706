//! How `report.json` is laid out: a line for each value down to the rounds, and each round on one line.
//! A difference between two runs then shows which round of which cell differs, and the file stays small.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Report, experiments, experiment, cells, cell, rounds: what is deeper stands on one line.
const DEPTH_MAX: usize = 6;

#[derive(Default)]
struct JsonLines {
    depth: usize,
    is_empty: bool,
}

pub fn text(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, JsonLines::default()))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes).expect("serde_json writes UTF-8"))
}

impl JsonLines {
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        writer.write_all(sign)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.is_empty && self.depth < DEPTH_MAX {
            self.new_line(writer)?;
        }
        self.is_empty = false;
        writer.write_all(sign)
    }

    fn item<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.is_empty = false;
        if !is_first {
            writer.write_all(b",")?;
        }
        if self.depth <= DEPTH_MAX { self.new_line(writer) } else { Ok(()) }
    }

    fn new_line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b" "))
    }
}

impl Formatter for JsonLines {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.item(writer, is_first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.item(writer, is_first)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_deep_stands_on_one_line() {
        let value = json!({"a": [], "b": [{"c": [{"d": [{"e": [1, 2], "f": {}}, {}]}]}]});
        let expected = "{\n \"a\":[],\n \"b\":[\n  {\n   \"c\":[\n    {\n     \"d\":[\n      {\"e\":[1,2],\"f\":{}},\n      {}\n     ]\n    }\n   ]\n  }\n ]\n}\n";
        assert_eq!(text(&value).unwrap(), expected);
        assert_eq!(serde_json::from_str::<serde_json::Value>(expected).unwrap(), value);
    }
}
