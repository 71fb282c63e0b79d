//! Prompts and ranked anchors from JSONL files, one record a line.
//!
//! A file is split on the byte 0x0A and nothing else (U+2028 inside a string is text), each line is
//! one JSON object. A row that cannot be used is *quarantined* with file, line and reason and the
//! run goes on; a file that gives no row at all is an error. Odd but usable rows are accepted and
//! flagged.
//!
//! Invariants: ids of accepted rows are unique and non-empty; prompts are never blank; the answers
//! of an anchor are ordered best first and no answer stands before a better one; rows keep the
//! order of the file; nothing is dropped without an entry in the quarantine.
//!
//! Reading order: [`dataset`] (what a load gives), [`prompts`], [`anchors`], [`quarantine`],
//! [`filter`] (which anchors are worth training on), [`identity`] (fingerprints and overlap).

pub mod anchors;
pub mod dataset;
pub mod filter;
pub mod identity;
pub mod prompts;
pub mod quarantine;

pub use anchors::load_anchors;
pub use dataset::{DataError, DataSet, Flag, Row};
pub use filter::{Exclusion, exclusion};
pub use identity::{fingerprint, overlap};
pub use prompts::load_prompts;
pub use quarantine::{Quarantined, write_quarantine};
