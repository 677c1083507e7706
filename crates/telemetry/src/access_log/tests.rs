//! The access log from the record to the file.
