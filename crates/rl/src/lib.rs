//! The nouns of a run and the arithmetic on them.
//!
//! Pure and small: no clocks, no randomness but the counter-based [`seed`], no I/O. Everything a
//! run decides by is defined here once and used under the same name in every crate.
//!
//! Reading order: who is trained ([`weights`]), on what ([`prompt`], [`rollout`]), judged how
//! ([`rubric`], [`check`], [`verdict`], [`score`]), and what that is worth ([`reward`],
//! [`advantage`], [`gap`]); then the life of a group ([`group`]), how the actors take
//! turns ([`schedule`]), what a learner is handed and told ([`train`]) and where random numbers come
//! from ([`seed`]).
//!
//! Invariants: a score is in [0, 1]; a verdict that could not be had is [`Verdict::Abstained`] and
//! never counts as unmet; per-token data of a rollout has the length of its tokens.

pub mod advantage;
pub mod check;
pub mod gap;
pub mod group;
pub mod prompt;
pub mod reward;
pub mod rollout;
pub mod rubric;
pub mod schedule;
pub mod score;
pub mod seed;
pub mod train;
pub mod verdict;
pub mod weights;

pub use check::{Check, Unit};
pub use group::{Attempt, DropReason, GroupId, GroupKind, Phase, Round, StepId};
pub use prompt::{Anchor, Prompt};
pub use rollout::{Finish, Rollout, TokenSet};
pub use rubric::{Polarity, Rubric, RubricItem};
pub use schedule::Schedule;
pub use score::Unscorable;
pub use seed::{Seed, Stream};
pub use train::{Aggregation, RateShape, TrainGroup};
pub use verdict::{Abstention, Verdict};
pub use weights::{Actor, Digest, WeightRef, WeightVersion};
