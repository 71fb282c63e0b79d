//! Texts for supervised learning and for the tokenizer.

use rl::Seed;

use crate::author::{Author, Care};
use crate::draws::Draws;
use crate::items::phrases;
use crate::prompts::all_tasks;
use crate::task::Kind;

/// A prompt and an answer to imitate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What is asked.
    pub prompt: String,
    /// The answer.
    pub answer: String,
}

/// Answers by the starting author to prompts of both splits: every name, noun and category of the
/// world occurs. Sums, the hardest task, get 30 % more documents than each of the others.
#[must_use]
pub fn documents(count: usize, seed: Seed) -> Vec<Document> {
    let pools = Kind::ALL.map(all_tasks);
    let author = Author::new(Care::STARTING);
    (0..count)
        .map(|i| {
            let mut draws = Draws::new(seed.child(i as u64));
            // Shares 1 : 1 : 1.3.
            let kind = match draws.below(33) {
                0..10 => Kind::Note,
                10..20 => Kind::List,
                _ => Kind::Sum,
            };
            let task = draws.choose(&pools[kind as usize]);
            Document { prompt: task.prompt(), answer: author.answer(&task, &mut draws) }
        })
        .collect()
}

/// Texts to train a tokenizer on: `count` documents in random order of quality, every phrase of the
/// item grammar, and the numbers to 20.
#[must_use]
pub fn tokenizer_texts(count: usize, seed: Seed) -> Vec<String> {
    let pools = Kind::ALL.map(all_tasks);
    let documents = (0..count).flat_map(|i| {
        let mut draws = Draws::new(seed.child(i as u64));
        let task = draws.choose(&pools[i % pools.len()]);
        [task.prompt(), Author::wild(&mut draws).answer(&task, &mut draws)]
    });
    let numbers = (0..=20).map(|number| number.to_string());
    documents.chain(phrases().map(str::to_owned)).chain(numbers).collect()
}

#[cfg(test)]
mod tests {
    use rl::Stream;

    use super::*;
    use crate::task::Task;
    use crate::vocabulary::{CATEGORIES, NAMES, NOUNS};

    #[test]
    fn documents_cover_the_vocabulary_in_the_stated_shares() {
        let documents = documents(6600, Seed::new(0, Stream::Data));
        let of = |kind| {
            documents.iter().filter(move |d| Task::parse(&d.prompt).map(|t| t.kind()) == Some(kind))
        };
        let counts = Kind::ALL.map(|kind| of(kind).count() as f64);
        assert!(counts.iter().sum::<f64>() == 6600.0);
        assert!((counts[2] / counts[0] - 1.3).abs() < 0.1, "{counts:?}");
        assert!((counts[2] / counts[1] - 1.3).abs() < 0.1, "{counts:?}");
        let prompts: String = documents.iter().map(|d| d.prompt.as_str()).collect();
        for words in [&NAMES[..], &NOUNS, &CATEGORIES.map(|(name, _)| name)] {
            assert!(words.iter().all(|word| prompts.contains(word)));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_corpus() {
        let seed = Seed::new(5, Stream::Data);
        assert_eq!(documents(50, seed), documents(50, seed));
        assert_ne!(documents(50, seed), documents(50, seed.child(1)));
        assert!(tokenizer_texts(10, seed).contains(&"greets Mia".to_owned()));
    }
}
