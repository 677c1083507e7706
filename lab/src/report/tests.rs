//! What reports of the fixture look like.
