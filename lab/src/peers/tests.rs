//! What the configurations of all peers have in common, and that those peers that are installed accept theirs.
