//! Events in, decisions out: by tables, and by properties under random faults.

mod calls;
mod phases;
mod properties;
mod recovery;
mod sim;
mod table;
mod workers;
