//! Certificate store, SNI choice, the internal CA.
