//! The file of requests, line by line. No line is read further than it counts.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use tidegate_compare::{LINE_BYTES_MAX, Read, Reader, Wanted};

pub fn read(path: &Path, wanted: Wanted) -> Result<Read, String> {
    let cannot = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    if path == Path::new("-") {
        return read_lines(&mut std::io::stdin().lock(), wanted).map_err(|fault| fault.said("standard input", cannot));
    }
    let file = File::open(path).map_err(cannot)?;
    read_lines(&mut BufReader::new(file), wanted).map_err(|fault| fault.said(&path.display().to_string(), cannot))
}

enum InputFault {
    Io(std::io::Error),
    Line(tidegate_compare::Fault),
}

impl InputFault {
    fn said(self, name: &str, cannot: impl Fn(std::io::Error) -> String) -> String {
        match self {
            InputFault::Io(error) => cannot(error),
            InputFault::Line(fault) => format!("{name}, {fault}"),
        }
    }
}

fn read_lines(input: &mut impl BufRead, wanted: Wanted) -> Result<Read, InputFault> {
    let mut reader = Reader::new(wanted);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A byte more than a line may have, and its end: enough to see that it is too long.
        let most = LINE_BYTES_MAX as u64 + 2;
        if input.by_ref().take(most).read_until(b'\n', &mut line).map_err(InputFault::Io)? == 0 {
            return Ok(reader.end());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 == most {
            input.skip_until(b'\n').map_err(InputFault::Io)?;
        }
        if !reader.line(&line).map_err(InputFault::Line)? {
            return Ok(reader.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InputFault, read_lines};
    use tidegate_compare::{LeftOut, Wanted};

    #[test]
    fn a_line_without_an_end_costs_no_memory() {
        let wanted = || Wanted { all_methods: false, repeats: true, requests_max: 10 };
        let log = "::1 - - [10/Oct/2025:13:55:36 +0200] \"GET /a HTTP/1.1\" 200 0";
        let text = format!("{log}\n{}\n{log}", "x".repeat(5 << 20));
        let Ok(read) = read_lines(&mut text.as_bytes(), wanted()) else { panic!("a log has no bad lines") };
        assert_eq!((read.requests.len(), read.left_out.get(&LeftOut::TooLong)), (2, Some(&(1, 2))));
        let text = format!("GET /a\n/{}\nGET /b", "x".repeat(5 << 20));
        let Err(InputFault::Line(fault)) = read_lines(&mut text.as_bytes(), wanted()) else { panic!("a line is too long") };
        assert_eq!(fault.line, 2);
    }
}
