//! A pair of things, one for each actor.

use rl::Actor;
use serde::{Deserialize, Serialize};

/// One value for the policy and one for the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PerActor<T> {
    /// The policy's.
    pub policy: T,
    /// The generator's.
    pub generator: T,
}

impl<T> PerActor<T> {
    /// The actor's value.
    #[must_use]
    pub fn of(&self, actor: Actor) -> &T {
        match actor {
            Actor::Policy => &self.policy,
            Actor::Generator => &self.generator,
        }
    }

    /// The actor's value, to change it.
    pub fn of_mut(&mut self, actor: Actor) -> &mut T {
        match actor {
            Actor::Policy => &mut self.policy,
            Actor::Generator => &mut self.generator,
        }
    }
}
