//! The latest commits, kept for watchers: bounded memory, no queue per watcher.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{StreamExt, try_unfold};
use tokio::sync::watch;

use crate::{Committed, Revision, StoreError, Watch};

/// How many commits a watcher may fall behind.
const REMEMBERED: usize = 1024;

/// What was committed since the store was opened, or the last [`REMEMBERED`] of it.
pub(super) struct History {
    recent: Arc<Mutex<Recent>>,
    /// Wakes the watchers; dropped with the store, which ends them.
    head: watch::Sender<Revision>,
}

struct Recent {
    /// Every commit after this one is remembered.
    oldest: Revision,
    commits: VecDeque<Committed>,
}

impl History {
    /// Remembers nothing before `revision`.
    pub(super) fn starting_at(revision: Revision) -> Self {
        let recent = Recent { oldest: revision, commits: VecDeque::new() };
        Self { recent: Arc::new(Mutex::new(recent)), head: watch::Sender::new(revision) }
    }

    /// Tells all watchers; to be called in the order of the commits.
    pub(super) fn announce(&self, committed: Committed) {
        let revision = committed.revision;
        {
            let mut recent = lock(&self.recent);
            recent.commits.push_back(committed);
            if recent.commits.len() > REMEMBERED
                && let Some(forgotten) = recent.commits.pop_front()
            {
                recent.oldest = forgotten.revision;
            }
        }
        self.head.send_replace(revision);
    }

    /// The commits after `since` that touch `prefix`.
    pub(super) fn watch(&self, prefix: &str, since: Revision) -> Watch {
        let watcher = Watcher {
            recent: Arc::clone(&self.recent),
            head: self.head.subscribe(),
            prefix: prefix.into(),
            since,
        };
        try_unfold(watcher, |mut watcher| async move {
            let next = watcher.next().await?;
            Ok(next.map(|committed| (committed, watcher)))
        })
        .boxed()
    }
}

struct Watcher {
    recent: Arc<Mutex<Recent>>,
    head: watch::Receiver<Revision>,
    prefix: String,
    since: Revision,
}

impl Watcher {
    async fn next(&mut self) -> Result<Option<Committed>, StoreError> {
        loop {
            // Marked as seen before looking: a commit in between wakes us again.
            self.head.borrow_and_update();
            if let Some(committed) = self.remembered()? {
                return Ok(Some(committed));
            }
            if self.head.changed().await.is_err() {
                return self.remembered();
            }
        }
    }

    /// The first commit after `since` that touches the prefix; moves `since` past what was looked at.
    fn remembered(&mut self) -> Result<Option<Committed>, StoreError> {
        let recent = lock(&self.recent);
        if self.since < recent.oldest {
            let (prefix, since, oldest) = (self.prefix.clone(), self.since, recent.oldest);
            return Err(StoreError::Lagged { prefix, since, oldest });
        }
        let new = recent.commits.partition_point(|committed| committed.revision <= self.since);
        for committed in recent.commits.range(new..) {
            self.since = committed.revision;
            let touched = |key: &str| key.starts_with(&self.prefix);
            let changes = committed.changes.iter().filter(|change| touched(&change.key));
            let changes: Vec<_> = changes.cloned().collect();
            if !changes.is_empty() {
                return Ok(Some(Committed { revision: committed.revision, changes }));
            }
        }
        Ok(None)
    }
}

fn lock(recent: &Mutex<Recent>) -> MutexGuard<'_, Recent> {
    recent.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;

    fn commit(revision: u64, key: &str) -> Committed {
        let changes = vec![Change { key: key.into(), value: None }];
        Committed { revision: Revision(revision), changes }
    }

    #[tokio::test]
    async fn a_watcher_may_fall_behind_by_so_much_and_no_more() {
        let history = History::starting_at(Revision(7));
        let (mut slow, mut slower) =
            (history.watch("", Revision(8)), history.watch("", Revision(7)));
        for i in 1..=REMEMBERED as u64 + 1 {
            history.announce(commit(7 + i, "k"));
        }
        let first = slow.next().await.expect("not ended").expect("still remembered");
        assert_eq!(first.revision, Revision(9));
        let lagged = slower.next().await.expect("not ended").expect_err("one too many");
        assert_eq!(
            lagged.to_string(),
            "changes of \"\" after revision 7 are forgotten (remembered after revision 8)"
        );
        assert!(slower.next().await.is_none(), "the stream ends after an error");
    }

    #[tokio::test]
    async fn a_watch_hands_out_what_is_left_and_ends_with_the_store() {
        let history = History::starting_at(Revision(0));
        let mut watch = history.watch("a", Revision(0));
        history.announce(commit(1, "b"));
        history.announce(commit(2, "a"));
        drop(history);
        assert_eq!(watch.next().await.expect("one").expect("remembered"), commit(2, "a"));
        assert!(watch.next().await.is_none());
    }
}
