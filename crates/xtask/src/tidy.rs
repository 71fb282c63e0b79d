//! What no compiler checks: sizes, module docs, leftovers, absolute paths, dead links.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The most lines of a file of code.
const MOST_LINES: usize = 500;

/// Endings of files that are read; everything else is data.
const TEXT: [&str; 9] = ["rs", "toml", "md", "proto", "py", "sh", "yaml", "yml", "css"];

/// Names that say nothing about what a module is for.
const DRAWERS: [&str; 4] = ["util", "common", "types", "helpers"];

/// Complains about every file in the repository that is not tidy.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    for path in files(root)? {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if !TEXT.contains(&ending) {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path))
            .with_context(|| format!("read {}", path.display()))?;
        complaints.extend(of_text(&path, &text));
        if ending == "md" {
            let dead = links(&text).filter(|(_, link)| !leads_somewhere(root, &path, link));
            let say = |(line, link)| format!("{}:{line}: {link} leads nowhere", path.display());
            complaints.extend(dead.map(say));
        }
    }
    crate::settle("tidy", &complaints)
}

/// The files of the repository, those not committed yet included.
fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("run git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("read the names of files")?;
    let mut files: Vec<PathBuf> =
        names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| root.join(file).is_file());
    Ok(files)
}

fn of_text(path: &Path, text: &str) -> Vec<String> {
    let shown = path.display();
    let mut complaints = Vec::new();
    let lines = text.lines().count();
    if path.extension().is_some_and(|ending| ending == "rs") {
        if lines > MOST_LINES {
            complaints.push(format!("{shown}: {lines} lines (expected at most {MOST_LINES})"));
        }
        if !text.starts_with("//!") {
            complaints.push(format!("{shown}:1: no module docs (expected \"//!\")"));
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if DRAWERS.contains(&stem) {
            complaints.push(format!("{shown}: a module named \"{stem}\" says nothing"));
        }
    }
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(word) = leftover(line) {
            complaints.push(format!("{shown}:{number}: \"{word}\" was left over"));
        }
        if let Some(start) = machine_path(line) {
            complaints.push(format!("{shown}:{number}: an absolute path ({start}..)"));
        }
    }
    complaints
}

/// A word that says that something is not done. They are put together here, so that this file may
/// hold them.
fn leftover(line: &str) -> Option<String> {
    let words =
        [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|parts| parts.concat());
    let is_apart = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    words.into_iter().find(|word| line.split(is_apart).any(|found| found == word))
}

/// The start of a path that exists on one machine only.
fn machine_path(line: &str) -> Option<String> {
    let starts = ["home", "work", "root", "Users"].map(|name| format!("/{name}/"));
    starts.into_iter().find(|start| {
        line.match_indices(start.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| c.is_whitespace() || "\"'`(=:".contains(c))
        })
    })
}

/// The relative links of a Markdown text, with their lines.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let fenced = text.lines().scan(false, |inside, line| {
        let fence = line.trim_start().starts_with("```");
        *inside ^= fence;
        Some((*inside || fence, line))
    });
    (1..).zip(fenced).filter(|(_, (fenced, _))| !fenced).flat_map(|(number, (_, line))| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets
            .filter(|link| !link.contains("://") && !link.starts_with(['#', '<']))
            .filter(|link| !link.starts_with("mailto:"))
            .map(move |link| (number, link))
    })
}

fn leads_somewhere(root: &Path, from: &Path, link: &str) -> bool {
    let target = link.split(['#', ' ']).next().unwrap_or(link);
    root.join(from).parent().is_some_and(|folder| folder.join(target).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untidy_files_are_named() {
        let marker = ["FIX", "ME"].concat();
        let path = ["/ho", "me/me/x"].concat();
        for (name, text, expected) in [
            ("a.rs", "//! Docs.\nfn a() {}\n".to_owned(), None),
            ("a.rs", "fn a() {}\n".to_owned(), Some("a.rs:1: no module docs")),
            ("util.rs", "//! Docs.\n".to_owned(), Some("says nothing")),
            ("a.rs", format!("//! Docs.\n// {marker}: later\n"), Some("a.rs:2: \"FIX")),
            ("a.rs", format!("//! Docs.\n// pre{marker}\n"), None),
            ("a.md", format!("see `{path}`"), Some("a.md:1: an absolute path")),
            ("a.md", "docs/work/notes.md".to_owned(), None),
            ("a.rs", "//! Docs.\n".repeat(501), Some("501 lines")),
        ] {
            let found = of_text(Path::new(name), &text);
            match expected {
                None => assert!(found.is_empty(), "{found:?}"),
                Some(part) => assert!(found.len() == 1 && found[0].contains(part), "{found:?}"),
            }
        }
    }

    #[test]
    fn links_outside_of_fences_are_found() {
        let text = "[a](b.md) and [c](https://x) [d](#e)\n```\n[f](g)\n```\n![h](i.png)";
        assert_eq!(links(text).collect::<Vec<_>>(), [(1, "b.md"), (5, "i.png")]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(leads_somewhere(root, Path::new("README.md"), "src/tidy.rs#links"));
        assert!(!leads_somewhere(root, Path::new("README.md"), "nowhere.md"));
    }
}
