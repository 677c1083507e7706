//! The data plane: connections, requests, upstream pools.
