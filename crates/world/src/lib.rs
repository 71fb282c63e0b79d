//! The controlled world: three small tasks in plain English in which a run can be watched closely.
//!
//! A [`Task`] is written as a prompt and read back from it; an [`Author`] answers it with habits
//! that hold at given rates; criteria about answers are short [`items`] ("greets Mia") that
//! compile to program checks. What an answer is *worth* is not known here: that is the crate
//! `gold`, which no service may name. Everything in this crate may be seen by every service.
//!
//! Prompts are held out by name, noun and category ([`prompts`]): supervised corpora cover all of
//! them, reinforcement learning only the training part.
//!
//! Reading order: [`task`], [`vocabulary`], [`prompts`], [`author`], [`corpus`], [`items`],
//! [`bank`], and [`draws`], where random choices come from.
//!
//! Invariants: `Task::parse(&task.prompt()) == Some(task)`; every phrase of [`items::phrases`]
//! compiles and no other text does; the same seed gives the same text.

pub mod author;
pub mod bank;
pub mod corpus;
pub mod draws;
pub mod items;
pub mod prompts;
pub mod task;
pub mod vocabulary;

pub use author::{Author, Care, Habit};
pub use draws::Draws;
pub use task::{Kind, Task};
