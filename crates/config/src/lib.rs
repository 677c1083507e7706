//! KDL text to model, with diagnostics.
