//! Threads to compute on: one unit of work per thread, none of them split.
//!
//! The tensor library splits large operations over the rayon pool it is called from. Small models
//! gain little from that, and several callers would fight for the same threads. So each thread
//! here is a rayon pool of one: what runs on it stays on it, and the numbers do not depend on how
//! many threads there are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// A fixed number of threads.
#[derive(Debug)]
pub struct Compute {
    threads: Vec<ThreadPool>,
}

impl Compute {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// The operating system gives no more threads.
    pub fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let start = |i| {
            let name = move |_| format!("compute-{i}");
            ThreadPoolBuilder::new().num_threads(1).thread_name(name).build()
        };
        Ok(Self { threads: (0..threads.max(1)).map(start).collect::<Result<_, _>>()? })
    }

    /// `f` of every item, in the items' order; a free thread takes the next item.
    ///
    /// Blocks until all are done. A panic of `f` is passed on.
    pub fn map<T: Send, R: Send>(&self, items: Vec<T>, f: impl Fn(T) -> R + Sync) -> Vec<R> {
        let slots: Vec<_> = items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut slot = slot.lock().expect("a slot is locked by one thread, once");
                if let Some(item) = slot.0.take() {
                    slot.1 = Some(f(item));
                }
            }
        };
        thread::scope(|scope| {
            for pool in self.threads.iter().take(slots.len()) {
                scope.spawn(|| pool.install(work));
            }
        });
        let done = slots.into_iter().map(|slot| {
            let (_, result) = slot.into_inner().expect("a panic was passed on by the scope");
            result.expect("every slot is visited before the scope ends")
        });
        done.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_and_work_stays_on_its_thread() {
        for threads in [0, 1, 3] {
            let compute = Compute::new(threads).unwrap();
            let squares = compute.map((0..100u64).collect(), |i| {
                assert_eq!(rayon::current_num_threads(), 1);
                i * i
            });
            assert!(squares.into_iter().eq((0..100).map(|i| i * i)));
            assert!(compute.map(Vec::<u8>::new(), |i| i).is_empty());
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_passed_on() {
        Compute::new(2).unwrap().map(vec![1, 2], |i| assert_eq!(i, 1));
    }
}
