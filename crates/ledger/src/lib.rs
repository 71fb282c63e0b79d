//! What happens next in a run: events in, decisions out.
//!
//! [`Ledger::apply`] is the one function that decides. It is pure: no clocks (the time comes with
//! the event), no randomness but [`rl::Seed`], no I/O. Its driver, the coordinator, waits for an
//! event, applies it, persists the decision's [`Transaction`], and only then carries out its
//! [`Action`]s. After a crash [`Ledger::recover`] goes on from what was persisted: tokens are not,
//! so each open group starts again.
//!
//! ```text
//! Pending -> Rolling -> Rolled -> Evaluating -> Queued -> Training -> Trained | Dropped(reason)
//! ```
//!
//! Reading order: [`ledger`] (apply), `settle` (what follows from an event: phases, draws,
//! steps, dispatch), [`event`], [`action`], `group` (the stages of a group), `pool`
//! (workers and leases), [`record`] (what is persisted), [`settings`], [`schedule`], `prompts`,
//! [`explain`] (why the run waits, and how much of what there is).
//!
//! Invariants, each a property test in `tests/`:
//! * groups drawn = trained + dropped + open, for each kind, in every transaction;
//! * a group has at most one lease, ends exactly once, and is trained on at most once and whole;
//! * an answer without a lease (late, double, made up) changes nothing;
//! * no group is trained on that is staler than `max_staleness`; versions rise one by one;
//! * open groups never exceed `(max_staleness + 1) x groups_per_step`;
//! * the run ends once faults stop;
//! * with `max_staleness` 0 the groups of each step, their order and their advantages do not
//!   depend on timing, the number of workers, or what died on the way.

pub mod action;
pub mod event;
pub mod explain;
mod group;
pub mod ledger;
mod per_actor;
mod pool;
mod prompts;
pub mod record;
pub mod schedule;
pub mod settings;
mod settle;

pub use action::{Action, Decision, Refusal};
pub use event::{Event, Failure, Rewards, StepDone};
pub use explain::{Awaited, Obstacle, Snapshot, Waiting};
pub use ledger::Ledger;
pub use per_actor::PerActor;
pub use pool::{Call, Lease, LeaseId, Millis, Role, Work, WorkerId};
pub use record::{
    AuditMoment, AuditPoint, End, OpenGroup, Outcome, Record, RecoverError, Tally, Transaction,
};
pub use schedule::{Conditioning, PhasePlan, PolicySource};
pub use settings::{LeaseTimes, Problem, Settings};
