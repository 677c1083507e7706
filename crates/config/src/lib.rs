//! KDL text to `tidegate_model::Configuration`, with diagnostics that point at the text. Also its formatter, JSON
//! Schema and reference. It knows what is written and what it means; what runs is made from the model elsewhere. Start
//! reading at `load`.

mod arguments;
mod checks;
mod diagnostics;
mod directives;
mod document;
mod foreign;
mod format;
mod forms;
mod imports;
mod kept_back;
mod labels;
mod language;
mod load;
mod log_in;
mod lowering;
mod masking;
mod passthrough;
mod patch;
mod patterns;
mod pieces;
mod placeholders;
mod presets;
mod reachability;
mod reading;
mod redirects;
mod reference;
mod regular;
mod remembered;
mod schema;
mod sign_in;
mod slips;
mod spans;
mod step_order;
mod syntax;
mod table;
mod units;
pub mod writing;
mod written_line;

pub use diagnostics::{Diagnostic, FileId, Label, Location, Severity, SourceFile, Sources, render};
pub use document::{ChangedFile, Edit, EditError, EditFault, List, Target, apply_edits, read_target, to_json, to_kdl};
pub use format::format_text;
pub use imports::{refused, said_otherwise};
pub use labels::{LabelFault, LabelMemory, Labelled, read_labels};
pub use load::{
    Loaded, MainFile, Texts, include_matches, load_instead, load_path, load_path_again, load_text, load_text_again, load_with,
    load_with_again, shape,
};
pub use lowering::Environment;
pub use patch::LoadMemory;
pub use pieces::in_common;
pub use presets::{PRESETS, Preset};
pub use reference::reference;
pub use regular::{is_one_of, open_regular, read_regular};
pub use schema::schema;
pub use serde_json::Value as Json;
pub use spans::Spans;
pub use units::{parse_duration, parse_size};
