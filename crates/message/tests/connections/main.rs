//! Connections of HTTP/2 with their drivers, over sockets made of memory: what is asked for before somebody sleeps, two
//! ends that speak with each other in random order, and one bad stream among many. The protocol alone is tested in
//! `wire`.

mod memory;
mod poisoned;
mod simulation;
mod sleeping;
mod tasks;
