//! Development only: scripted client and upstream, tiny CA.
