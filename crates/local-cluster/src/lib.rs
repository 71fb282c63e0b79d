//! local-cluster
