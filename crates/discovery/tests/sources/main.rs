//! Every source at the wire: a name server, files in real folders, Docker and Consul emulated by the testkit. What
//! single answers mean is tested beside the code that reads them; here is what is asked, when, and what is told.

mod consul;
mod containers;
mod dns;
mod docker;
mod file;
mod followed;
