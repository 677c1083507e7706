//! `log level="info"`: what the process says about itself on stderr.

use crate::diagnostics::Diagnostic;
use crate::lowering::{Line, Lowering, Read};
use crate::table::{Block, Directive, Kind, Lower, Place, Property, Repeat};
use tidegate_model::LogLevel;

pub static LOG: Directive = Directive {
    name: "log",
    places: &[Place::Top],
    repeat: Repeat::Once,
    arguments: &[],
    properties: &[Property {
        name: "level",
        kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        repeat: Repeat::Once,
        summary: "`error`, `warn`, `info`, `debug` or `trace`.",
    }],
    block: Block::None,
    summary: "How much the process says about itself on stderr.",
    details: "Requests are logged by `access-log`.",
    default: "`level=\"info\"`",
    example: "log level=\"warn\"",
    lower: Lower::Top(lower),
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if line.property("level").is_none() {
        let diagnostic = Diagnostic::error("missing-property", line.location(), "`log` needs `level=`")
            .help("for example `log level=\"info\"`");
        lowering.report(diagnostic);
        return;
    }
    let Some(name) = line.read(lowering, "level").map(Read::choice) else { return };
    if let Some((_, level)) = LogLevel::NAMES.iter().find(|(known, _)| *known == name) {
        lowering.configuration.log.level = *level;
    }
}
