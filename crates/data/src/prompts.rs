//! Prompt sets: `{"id", "prompt"}` a line, ids as text or integers.

use std::path::Path;

use rl::Prompt;
use serde::Deserialize;

use crate::dataset::{self, DataError, DataSet, Parsed};

/// Loads a prompt set. Rows of a ranked set do too: their responses are kept as extra keys.
///
/// # Errors
/// When the file cannot be read, is empty, or has no usable row.
pub fn load_prompts(path: &Path) -> Result<DataSet<Prompt>, DataError> {
    dataset::load(path, &["id", "prompt"], |row: PromptRow| {
        let text = not_blank(row.prompt)?;
        let value = Prompt { id: row.id.clone(), text };
        Ok(Parsed { id: row.id, value, flags: Vec::new() })
    })
}

/// The prompt, if it has any character to answer to.
pub(crate) fn not_blank(prompt: String) -> Result<String, String> {
    if prompt.trim().is_empty() {
        return Err("prompt: blank, expected text".to_owned());
    }
    Ok(prompt)
}

#[derive(Deserialize)]
struct PromptRow {
    #[serde(deserialize_with = "dataset::id_as_text")]
    id: String,
    prompt: String,
}
