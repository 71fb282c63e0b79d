//! Text to token ids and back: byte-level BPE in Hugging Face's `tokenizer.json`.
//!
//! Text never becomes a special token: whatever a user writes, `<eos>` included, is plain bytes.
//! Special tokens are put in by id, by the code that lays out a conversation.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::{Value, json};
use tokenizers::models::bpe::{Merges, Vocab};
use tokenizers::pipeline::{
    EncodeOptions, Override, PipelineTokenizer, PreTokenizer, PreTokenizerScratch,
};
use tokenizers::utils::byte_level::{BYTES_CHAR_LOOKUP, char_to_byte};
use tokenizers::vocab::bucket_added_vocabulary::AddedToken;
use tokenizers::{Trainer, trainers::BpeTrainer};

/// A vocabulary and the rules to cut text by it.
#[derive(Clone)]
pub struct Tokenizer {
    /// The file as it was read or trained; written back byte for byte, so its digest stays.
    json: String,
    pipeline: PipelineTokenizer,
    specials: HashMap<String, u32>,
    /// For each id the bytes it stands for; `None` for special tokens and gaps.
    bytes: Vec<Option<Vec<u8>>>,
}

/// A tokenizer that cannot be read, trained or applied.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file is no byte-level BPE this crate can run.
    #[error("{file}: {problem}")]
    File {
        /// Where the text came from.
        file: String,
        /// What is wrong with it and what was expected.
        problem: String,
    },
    /// The corpus or the sizes allow no tokenizer.
    #[error("cannot train a tokenizer: {0}")]
    Train(String),
    /// The text could not be cut.
    #[error("cannot tokenize a text of {length} bytes: {problem}")]
    Encode {
        /// Length of the text.
        length: usize,
        /// What the library said.
        problem: String,
    },
}

impl Tokenizer {
    /// Token ids of a text; special tokens spelled out in it are plain text.
    ///
    /// # Errors
    /// A text the vocabulary cannot spell (never with all 256 bytes in it).
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: true,
            padding: Override::Off,
            truncation: Override::Off,
        };
        let mut tokens = Vec::new();
        self.pipeline
            .encode_into(text, &options, &mut tokens)
            .map_err(|e| TokenizerError::Encode { length: text.len(), problem: e.to_string() })?;
        Ok(tokens.into_iter().map(|token| token.id()).collect())
    }

    /// The text of token ids, special and unknown ones left out; bytes that are no UTF-8 become
    /// U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> =
            ids.iter().filter_map(|&id| self.bytes(id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The text of token ids with special tokens written out by their names: what a rubric in
    /// tagged form looks like. Never encode it again as it is: it would become plain text.
    #[must_use]
    pub fn decode_with_specials(&self, ids: &[u32]) -> String {
        let name = |id: &u32| self.specials.iter().find(|(_, special)| *special == id);
        let mut bytes = Vec::new();
        for id in ids {
            match name(id) {
                Some((name, _)) => bytes.extend_from_slice(name.as_bytes()),
                None => bytes.extend_from_slice(self.bytes(*id).unwrap_or_default()),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The id of a special token, by its name.
    #[must_use]
    pub fn id(&self, special: &str) -> Option<u32> {
        self.specials.get(special).copied()
    }

    /// The bytes a token stands for; `None` for special tokens and unknown ids.
    #[must_use]
    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id as usize)?.as_deref()
    }

    /// One more than the highest id: the rows an embedding needs.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.bytes.len()
    }

    /// The text of `tokenizer.json`.
    #[must_use]
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// Reads the text of a `tokenizer.json`; `file` is named in errors.
    ///
    /// # Errors
    /// No JSON, no byte-level BPE, or a special token that plain text can spell.
    pub fn from_json(json: &str, file: &Path) -> Result<Self, TokenizerError> {
        Self::parse(json)
            .map_err(|problem| TokenizerError::File { file: file.display().to_string(), problem })
    }

    /// Learns a vocabulary of at most `vocab_size` tokens from `texts`: the special tokens first, in the
    /// given order, then the 256 bytes, then merges. The same texts give the same tokenizer.
    ///
    /// # Errors
    /// A size without room for specials and bytes, or a special token given twice.
    pub fn train<T: AsRef<str> + Sync>(
        texts: &[T],
        vocab_size: usize,
        specials: &[&str],
    ) -> Result<Self, TokenizerError> {
        let least = specials.len() + 256;
        if vocab_size < least {
            return Err(TokenizerError::Train(format!(
                "the vocabulary has {vocab_size} tokens, expected at least {least}: {} special \
                 tokens and 256 bytes",
                specials.len()
            )));
        }
        if specials.iter().collect::<HashSet<_>>().len() < specials.len() {
            return Err(TokenizerError::Train(format!(
                "a special token is given twice: {specials:?}"
            )));
        }
        let (vocab, merges) =
            learn(texts, vocab_size, specials).map_err(|e| TokenizerError::Train(e.to_string()))?;
        Self::parse(&layout(&vocab, &merges, specials)).map_err(TokenizerError::Train)
    }

    fn parse(json: &str) -> Result<Self, String> {
        let mut file: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let specials = read_specials(&file)?;
        let bytes = read_bytes(&file, &specials)?;
        tokenizers::canonicalize_value(&mut file).map_err(|e| e.to_string())?;
        let pipeline = tokenizers::from_json(&file.to_string()).map_err(|e| e.to_string())?;
        let tokenizer = Self { json: json.to_owned(), pipeline, specials, bytes };
        for special in tokenizer.specials.keys() {
            let ids = tokenizer.encode(special).map_err(|e| e.to_string())?;
            if ids.iter().any(|&id| tokenizer.bytes(id).is_none()) {
                return Err(format!(
                    "plain text can spell the special token {special:?}: expected it to be \
                     reachable by id only"
                ));
            }
        }
        Ok(tokenizer)
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens, {} special)", self.vocab_size(), self.specials.len())
    }
}

/// Added tokens of a file, all treated as special: none of them may come out of plain text.
fn read_specials(file: &Value) -> Result<HashMap<String, u32>, String> {
    let Some(added) = file["added_tokens"].as_array() else {
        return Ok(HashMap::new());
    };
    let entry = |token: &Value| {
        let name = token["content"].as_str()?.to_owned();
        Some((name, u32::try_from(token["id"].as_u64()?).ok()?))
    };
    let specials: Option<_> = added.iter().map(entry).collect();
    specials.ok_or_else(|| "added_tokens: expected an id and a content in each".to_owned())
}

fn read_bytes(
    file: &Value,
    specials: &HashMap<String, u32>,
) -> Result<Vec<Option<Vec<u8>>>, String> {
    let vocab = file["model"]["vocab"]
        .as_object()
        .ok_or("model.vocab: expected a table of tokens to ids, as byte-level BPE has it")?;
    let mut bytes = Vec::new();
    let mut place = |id: usize, content| {
        if id >= bytes.len() {
            bytes.resize(id + 1, None);
        }
        bytes[id] = content;
    };
    for (token, id) in vocab {
        let id = id.as_u64().filter(|&id| id < 1 << 24).ok_or_else(|| {
            format!("model.vocab[{token:?}] is {id}: expected an id below 16777216")
        })?;
        if !specials.contains_key(token) {
            let content: Option<Vec<u8>> = token.chars().map(char_to_byte).collect();
            let content = content.ok_or_else(|| {
                format!("model.vocab: {token:?} is not spelled in the byte-level alphabet")
            })?;
            place(id as usize, Some(content));
        }
    }
    for &id in specials.values() {
        place(id as usize, None);
    }
    Ok(bytes)
}

fn learn<T: AsRef<str> + Sync>(
    texts: &[T],
    vocab_size: usize,
    specials: &[&str],
) -> tokenizers::Result<(Vocab, Merges)> {
    let mut trainer = BpeTrainer::builder()
        .vocab_size(vocab_size)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(BYTES_CHAR_LOOKUP.iter().copied().collect())
        .special_tokens(specials.iter().map(|&name| AddedToken::from(name, true)).collect())
        .build();
    let untrained = cutter()?;
    trainer.feed(texts.iter(), |text| {
        let (mut scratch, mut spans) = (PreTokenizerScratch::default(), Vec::new());
        untrained.get_pre_tokenizer().pre_tokenize(text, &mut scratch, &mut spans)?;
        let spell = |bytes: &str| bytes.bytes().map(|b| BYTES_CHAR_LOOKUP[b as usize]).collect();
        Ok(spans.iter().map(|span| spell(&text[span.range()])).collect())
    })?;
    let (vocab, merges, _) = trainer.train_vocab()?;
    Ok((vocab, merges))
}

/// A tokenizer without merges, for the way it cuts text into words.
fn cutter() -> tokenizers::Result<PipelineTokenizer> {
    let alphabet = BYTES_CHAR_LOOKUP.iter().zip(0..).map(|(c, id)| (c.to_string(), id)).collect();
    tokenizers::from_json(&tokenizers::canonicalize_str(&layout(&alphabet, &Vec::new(), &[]))?)
}

/// The file as Hugging Face's libraries read it: GPT-2's cuts, no normalisation, nothing added.
fn layout(vocab: &Vocab, merges: &Merges, specials: &[&str]) -> String {
    let mut by_id: Vec<_> = vocab.iter().collect();
    by_id.sort_by_key(|&(_, id)| id);
    let vocab: serde_json::Map<_, _> =
        by_id.into_iter().map(|(token, &id)| (token.clone(), id.into())).collect();
    let added: Vec<Value> = (0u32..)
        .zip(specials)
        .map(|(id, name)| {
            json!({
                "id": id, "content": name, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            })
        })
        .collect();
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": vocab, "merges": merges,
        },
    });
    serde_json::to_string_pretty(&file).expect("plain data always serialises") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIALS: [&str; 4] = ["<pad>", "<bos>", "<eos>", "</s>"];

    fn trained() -> Tokenizer {
        let texts: Vec<String> =
            (0..50).map(|i| format!("the cat number {i} sat on the mat")).collect();
        Tokenizer::train(&texts, 300, &SPECIALS).unwrap()
    }

    #[test]
    fn text_round_trips_whatever_it_holds() {
        let tokenizer = trained();
        for text in ["the cat sat", "", "  \n\ttabs", "naïve 漢字 🦀", "\u{0}\u{7f}", "<eos>"]
        {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(tokenizer.decode(&ids), text);
        }
        assert!(tokenizer.encode(" the").unwrap().len() == 1, "merges should have been learnt");
    }

    #[test]
    fn special_tokens_in_text_are_plain_bytes() {
        let tokenizer = trained();
        assert_eq!(SPECIALS.map(|name| tokenizer.id(name)), [Some(0), Some(1), Some(2), Some(3)]);
        for name in SPECIALS {
            for text in [name.to_owned(), format!("a{name}b {name}"), format!("{name}{name}")] {
                let ids = tokenizer.encode(&text).unwrap();
                assert!(ids.iter().all(|&id| id > 3), "{text:?} gave {ids:?}");
            }
        }
        assert_eq!(tokenizer.decode(&[1, 2]), "", "special tokens have no text");
    }

    #[test]
    fn the_same_texts_give_the_same_file_and_it_reads_back() {
        let (one, two) = (trained(), trained());
        assert!(one.to_json() == two.to_json());
        let back = Tokenizer::from_json(one.to_json(), Path::new("t.json")).unwrap();
        assert_eq!(back.encode("the mat").unwrap(), one.encode("the mat").unwrap());
        assert_eq!(back.vocab_size(), one.vocab_size());
        assert!(back.to_json() == one.to_json());
    }

    #[test]
    fn files_that_are_no_byte_level_bpe_are_refused() {
        let spelled = trained()
            .to_json()
            .replace("\"<eos>\"", "\"the\"")
            .replace("\"ignore_merges\": false", "\"ignore_merges\": true");
        for (json, expected) in [
            ("{", "t.json: EOF while parsing"),
            ("{}", "t.json: model.vocab: expected a table"),
            (&spelled, "t.json: plain text can spell the special token \"the\""),
        ] {
            let error = Tokenizer::from_json(json, Path::new("t.json")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} should contain {expected:?}");
        }
    }

    #[test]
    fn a_vocabulary_needs_room_for_every_byte() {
        let error = Tokenizer::train(&["a"], 258, &["<pad>", "<bos>", "<eos>"]).unwrap_err();
        assert!(error.to_string().contains("has 258 tokens, expected at least 259"), "{error}");
    }
}
