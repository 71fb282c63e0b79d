//! gold
