//! The order in which prompts are drawn: each once per epoch, shuffled anew.

use rl::{Actor, Seed, Stream};

/// The order of one set of prompts.
#[derive(Debug, Clone)]
pub(crate) struct PromptOrder {
    seed: Seed,
    len: usize,
    /// The epoch last asked for, and its order.
    epoch: Option<(u64, Vec<usize>)>,
}

impl PromptOrder {
    /// The order of the `len` prompts that the actor is trained on. The sets are numbered: policy
    /// prompts 0, anchors 1.
    pub fn new(run_seed: u64, actor: Actor, len: usize) -> Self {
        let set = match actor {
            Actor::Policy => 0,
            Actor::Generator => 1,
        };
        Self { seed: Seed::new(run_seed, Stream::PromptOrder).child(set), len, epoch: None }
    }

    /// The index of the `cursor`-th draw; the set must not be empty.
    pub fn index(&mut self, cursor: u64) -> usize {
        let (epoch, place) = (cursor / self.len as u64, cursor % self.len as u64);
        let shuffled = || (epoch, self.seed.child(epoch).permutation(self.len));
        match &mut self.epoch {
            Some((known, order)) if *known == epoch => order[place as usize],
            other => other.insert(shuffled()).1[place as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_draws_each_prompt_once_in_another_order() {
        let mut order = PromptOrder::new(1, Actor::Policy, 50);
        let epochs: Vec<Vec<usize>> =
            (0..2).map(|e| (0..50).map(|c| order.index(e * 50 + c)).collect()).collect();
        assert_ne!(epochs[0], epochs[1]);
        for mut epoch in epochs {
            epoch.sort_unstable();
            assert_eq!(epoch, (0..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_draw_depends_on_its_cursor_alone() {
        let mut order = PromptOrder::new(1, Actor::Policy, 7);
        let forward: Vec<usize> = (0..30).map(|c| order.index(c)).collect();
        let backward: Vec<usize> = (0..30).rev().map(|c| order.index(c)).collect();
        assert!(forward.iter().eq(backward.iter().rev()));
        let mut anchors = PromptOrder::new(1, Actor::Generator, 7);
        assert_ne!(forward, (0..30).map(|c| anchors.index(c)).collect::<Vec<_>>());
    }
}
