//! The qualities of each task and their weights.
//!
//! Weights are distinct and small, so that answers of a good policy seldom tie exactly but often
//! nearly. *Early* qualities are common at the start, *late* ones rare and light; *bad* ones hold
//! where a bad habit is absent, so only an item of negative polarity rewards them.

use std::collections::HashSet;

use rubric::text;
use world::Task;
use world::author::Stage;
use world::items::PLACES;
use world::vocabulary::things;

use crate::junk;

/// A quality of a task, and whether one answer has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quality {
    /// Unique in its task.
    pub name: &'static str,
    /// In thousandths of the score; a task's weights sum to 1000.
    pub weight: u32,
    /// Whether the quality is the absence of a bad habit, and when it is learned if not.
    pub stage: Stage,
    /// The phrase of the item grammar whose check agrees with it: met where the quality holds,
    /// unmet for a bad one. Exact on answers of authors but for "clean", which [`junk`] defines
    /// more widely than any one check.
    pub item: String,
    /// Whether the answer has it.
    pub holds: bool,
}

/// The qualities of a task, judged on an answer.
#[must_use]
pub fn qualities(task: &Task, answer: &str) -> Vec<Quality> {
    match *task {
        Task::Note { name, adjective, noun, word } => {
            let mut qualities = note(answer);
            let t = Tokens::of(answer);
            qualities.extend([
                early("greet", 211, format!("greets {name}"), t.start_with(&["Dear", name, ","])),
                early(
                    "topic",
                    167,
                    format!("about {adjective} {noun}"),
                    t.hold(&[adjective, noun]),
                ),
                early("word", 129, format!("has {word}"), t.hold(&[word])),
                bad("clean", 62, "stutters", junk::is_clean(task, answer)),
            ]);
            qualities
        }
        Task::List { count, category, descending } => {
            let items: Vec<&str> = text::items(answer).collect();
            let all_of = items.iter().all(|item| things(category).contains(item));
            let order = if descending { "reversed" } else { "sorted" };
            let ordered = items.is_sorted_by(|a, b| if descending { a >= b } else { a <= b });
            let total = text::number_after(answer, "Total") == Some(count as i64);
            let t = Tokens::of(answer);
            let some = !items.is_empty();
            let mut qualities = list(answer, &items);
            qualities.extend([
                early("count", 233, format!("items {count}"), items.len() == count),
                early("category", 181, format!("all {category}"), some && all_of),
                early("order", 139, order.to_owned(), some && ordered),
                late("title", 59, format!("has {category}"), t.hold(&[category])),
                late("total", 47, format!("totals {count}"), total),
                bad("clean", 64, "stutters", junk::is_clean(task, answer)),
            ]);
            qualities
        }
        Task::Sum { name, a, b, noun } => {
            let (left, right, sum) = (a.to_string(), b.to_string(), (a + b).to_string());
            let things = format!("{noun}s");
            let answered = text::number_after(answer, "has") == Some((a + b) as i64);
            let t = Tokens::of(answer);
            let equation = t.hold(&[&left, "+", &right, "=", &sum]);
            let mut qualities = sum_qualities(answer);
            qualities.extend([
                early("answer", 229, format!("answers {sum}"), answered),
                early("equation", 173, format!("adds {a} {b}"), equation),
                early("person", 127, format!("has {name}"), t.hold(&[name, "has"])),
                early("unit", 103, format!("has {things}"), t.hold(&[&things])),
                bad("clean", 63, "stutters", junk::is_clean(task, answer)),
            ]);
            qualities
        }
    }
}

/// What every note should show.
fn note(answer: &str) -> Vec<Quality> {
    let t = Tokens::of(answer);
    let mut sentences = HashSet::new();
    let all_differ = text::sentences(answer).all(|sentence| sentences.insert(sentence));
    vec![
        early("place", 101, "place".into(), t.hold_any(&PLACES)),
        early("thanks", 83, "has Thank".into(), t.hold(&["Thank", "you"])),
        late("asks", 61, "asks".into(), t.hold(&["?"])),
        late("please", 47, "has Please".into(), t.hold(&["Please"])),
        late("misses", 37, "has miss".into(), t.hold(&["miss", "you"])),
        late("friend", 29, "ends friend".into(), t.end_with(&["friend", "."])),
        bad("plain", 37, "filler", !t.hold_any(&["very", "really", "stuff"])),
        bad("once", 23, "repeats sentence", all_differ),
        bad("calm", 13, "shouts", !t.hold(&["!"])),
    ]
}

/// What every list should show.
fn list(answer: &str, items: &[&str]) -> Vec<Quality> {
    let t = Tokens::of(answer);
    let dashed = text::item_lines(answer).all(|line| line.starts_with("- "));
    let all_differ = items.iter().collect::<HashSet<_>>().len() == items.len();
    vec![
        early("dashes", 97, "dashes".into(), !items.is_empty() && dashed),
        late("heading", 67, "starts Here".into(), t.start_with(&["Here"])),
        late("end", 31, "ends end".into(), t.end_with(&["end", "."])),
        bad("once", 53, "repeats item", all_differ),
        bad("whole", 29, "has etc", !t.hold(&["etc"])),
    ]
}

/// What every sum should show.
fn sum_qualities(answer: &str) -> Vec<Quality> {
    let t = Tokens::of(answer);
    vec![
        early("stop", 41, "stops".into(), t.end_with(&["."])),
        late("check", 71, "has Check".into(), t.hold(&["Check", ":"])),
        late("so", 53, "has So".into(), t.hold(&["So"])),
        late("first", 43, "starts First".into(), t.start_with(&["First"])),
        late("now", 31, "has now".into(), t.hold(&["now"])),
        bad("short", 37, "has together", !t.hold(&["together"])),
        bad("certain", 29, "hedges", !t.hold_any(&["maybe", "perhaps", "guess"])),
    ]
}

fn early(name: &'static str, weight: u32, item: String, holds: bool) -> Quality {
    Quality { name, weight, stage: Stage::Early, item, holds }
}

fn late(name: &'static str, weight: u32, item: String, holds: bool) -> Quality {
    Quality { name, weight, stage: Stage::Late, item, holds }
}

fn bad(name: &'static str, weight: u32, item: &str, holds: bool) -> Quality {
    Quality { name, weight, stage: Stage::Bad, item: item.to_owned(), holds }
}

/// The tokens of an answer, asked for runs of tokens.
struct Tokens<'a>(Vec<&'a str>);

impl<'a> Tokens<'a> {
    fn of(answer: &'a str) -> Self {
        Self(text::tokens(answer).collect())
    }

    fn hold(&self, run: &[&str]) -> bool {
        self.0.windows(run.len()).any(|window| window == run)
    }

    fn hold_any(&self, tokens: &[&str]) -> bool {
        self.0.iter().any(|token| tokens.contains(token))
    }

    fn start_with(&self, run: &[&str]) -> bool {
        self.0.starts_with(run)
    }

    fn end_with(&self, run: &[&str]) -> bool {
        self.0.ends_with(run)
    }
}
