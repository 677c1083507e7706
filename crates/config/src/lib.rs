//! KDL text to `tidegate_model::Configuration`, with diagnostics that point at the text. Also its formatter, JSON Schema and reference.
//! It knows what is written and what it means; what runs is made from the model elsewhere. Start reading at `load`.

mod checks;
mod diagnostics;
mod directives;
mod format;
mod lexer;
mod load;
mod lowering;
mod patterns;
mod placeholders;
mod reachability;
mod reference;
mod schema;
mod slips;
mod syntax;
mod table;
mod units;

pub use diagnostics::{Diagnostic, FileId, Label, Location, Severity, SourceFile, Sources, render};
pub use format::format_text;
pub use load::{Environment, Loaded, Spans, load_path, load_text, load_with};
pub use reference::reference;
pub use schema::schema;
pub use units::{parse_duration, parse_size};
