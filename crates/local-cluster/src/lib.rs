//! Development only: a cluster of Kubernetes as processes of this machine. etcd, the API server and the controllers are
//! the real ones, which `cargo xtask kubernetes build` has built; the node is a thread of whoever asks for a cluster,
//! and pods are processes in network namespaces. Tests and the lab stand on it. It uses nothing of the proxy: what is
//! in front of pods is a program to it, as every other one.
//!
//! The control plane is `plane`, who asks its API `api`, what an account may do `account`; what runs pods is `node`,
//! with `container` and `network`, and what leads to them `service`.

pub mod account;
pub mod admin;
pub mod api;
pub mod authority;
mod container;
pub mod network;
mod node;
mod plane;
pub mod ports;
pub mod program;
mod programs;
mod service;
pub mod tls;

pub use account::{Account, TIDEGATE_RULES};
pub use api::{Api, ApiAnswer, ApiWatch, Fields};
pub use container::Image;
pub use node::Node;
pub use plane::{Audited, ControlPlane};
pub use programs::helm;
pub use service::ServiceAddress;
