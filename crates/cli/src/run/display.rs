//! What is seen of a run under way: a bar for each phase, and `summary.json` after each round.

use std::convert::Infallible;
use std::path::PathBuf;

use proto::pb::WatchRunResponse;
use tokio::sync::watch;

use crate::progress::{Progress, Screen};
use crate::{oracle, report};

/// Follows the state of a run to its end.
///
/// # Errors
/// Never: what cannot be shown is logged.
pub async fn follow(
    mut state: watch::Receiver<WatchRunResponse>,
    dir: PathBuf,
    screen: Screen,
) -> Result<(), Infallible> {
    let mut shown: Option<Shown> = None;
    loop {
        let now = state.borrow_and_update().clone();
        if now.finished {
            break;
        }
        if shown.as_ref().is_some_and(|shown| shown.round < now.round) {
            summarise(dir.clone()).await;
        }
        if now.round > 0 {
            show(&mut shown, &now, &screen);
        }
        if state.changed().await.is_err() {
            break;
        }
    }
    if let Some(shown) = shown {
        shown.bar.finish();
    }
    Ok(())
}

/// The phase on display.
struct Shown {
    round: u32,
    phase: String,
    bar: Progress,
}

fn show(shown: &mut Option<Shown>, now: &WatchRunResponse, screen: &Screen) {
    let is_new = shown.as_ref().is_none_or(|s| (s.round, &s.phase) != (now.round, &now.phase));
    if is_new {
        if let Some(before) = shown.take() {
            before.bar.finish();
        }
        let what = format!("round {}/{} {}", now.round, now.rounds, now.phase);
        let bar = screen.progress(&what, u64::from(now.steps));
        *shown = Some(Shown { round: now.round, phase: now.phase.clone(), bar });
    }
    if let Some(shown) = shown {
        shown.bar.at(u64::from(now.step), &note(now));
    }
}

/// What the last step came to, in a few words.
fn note(now: &WatchRunResponse) -> String {
    if now.waiting.iter().any(|waiting| waiting.starts_with("audit")) {
        return "audit".to_owned();
    }
    let shown: &[(&str, &str)] = if now.phase == "policy" {
        &[("score", "reward/mean"), ("ties", "group/tie_fraction"), ("kl", "policy/kl")]
    } else {
        &[("disc", "reward/r_disc"), ("anchor", "reward/r_anchor"), ("kl", "generator/kl")]
    };
    let parts = shown
        .iter()
        .filter_map(|(name, metric)| Some(format!("{name} {:.3}", now.metrics.get(*metric)?)));
    parts.collect::<Vec<_>>().join("  ")
}

async fn summarise(dir: PathBuf) {
    let written =
        tokio::task::spawn_blocking(move || report::write_summary(&dir, &oracle::judge)).await;
    match written {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(error = %format!("{error:#}"), "summary not written"),
        Err(error) => tracing::warn!(%error, "summary not written"),
    }
}
