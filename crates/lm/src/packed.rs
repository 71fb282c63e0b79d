//! One ragged row of tokens: a prompt with all its completions, or several documents, no padding.
//!
//! Every token carries its position in its own text and the segment it belongs to. Token `i` sees
//! token `j` exactly when `j <= i` and `j` is of the same segment or of the shared prefix
//! ([`PREFIX`]). So a group's prompt is computed once for all of its completions.

use burn::tensor::{Device, Tensor, TensorData};

/// The segment every other segment sees.
pub const PREFIX: u32 = 0;

/// A row of tokens for one forward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    tokens: Vec<u32>,
    positions: Vec<u32>,
    segments: Vec<u32>,
}

/// Texts that cannot be laid out in a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The first token of a completion is predicted by the last of its prompt.
    #[error("cannot pack a group: its prompt is empty, expected at least one token")]
    EmptyPrompt,
    /// A row has at least one token.
    #[error("cannot pack documents: expected at least one token among {0} documents")]
    NoTokens(usize),
}

/// Tokens of a row that are predicted, and the places they are predicted from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Targets {
    /// For each target, the index in the row of the token whose hidden state predicts it.
    pub predictors: Vec<u32>,
    /// For each target, its id.
    pub tokens: Vec<u32>,
}

impl Packed {
    /// A prompt (segment 0) followed by its completions (segments 1, 2, ...), each continuing the
    /// positions of the prompt. A completion may be empty.
    ///
    /// # Errors
    /// An empty prompt.
    pub fn group<C: AsRef<[u32]>>(prompt: &[u32], completions: &[C]) -> Result<Self, PackError> {
        if prompt.is_empty() {
            return Err(PackError::EmptyPrompt);
        }
        let mut row = Self::empty();
        row.push(prompt, 0, PREFIX);
        for (segment, completion) in (1..).zip(completions) {
            row.push(completion.as_ref(), prompt.len() as u32, segment);
        }
        Ok(row)
    }

    /// Independent documents (segments 1, 2, ...), each from position 0.
    ///
    /// # Errors
    /// No token at all.
    pub fn documents<D: AsRef<[u32]>>(documents: &[D]) -> Result<Self, PackError> {
        let mut row = Self::empty();
        for (segment, document) in (1..).zip(documents) {
            row.push(document.as_ref(), 0, segment);
        }
        if row.tokens.is_empty() {
            return Err(PackError::NoTokens(documents.len()));
        }
        Ok(row)
    }

    /// Token ids, in row order.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// For each token, its position in its own text.
    #[must_use]
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// For each token, the segment it belongs to.
    #[must_use]
    pub fn segments(&self) -> &[u32] {
        &self.segments
    }

    /// Number of tokens, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a row is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Every token that something before it predicts, prefix apart: all tokens of all completions
    /// of a group, in order; of documents all but each one's first.
    #[must_use]
    pub fn targets(&self) -> Targets {
        let prefix = self.segments.iter().take_while(|&&segment| segment == PREFIX).count();
        let mut targets = Targets::default();
        for i in prefix..self.len() {
            let follows = i > prefix && self.segments[i - 1] == self.segments[i];
            let predictor = if follows { Some(i - 1) } else { prefix.checked_sub(1) };
            if let Some(predictor) = predictor {
                targets.predictors.push(predictor as u32);
                targets.tokens.push(self.tokens[i]);
            }
        }
        targets
    }

    /// The additive attention mask `[S, S]`: 0 where row `i` sees column `j`, else `-inf`.
    #[must_use]
    pub fn mask(&self, device: &Device) -> Tensor<2> {
        let n = self.len();
        let mut mask = vec![f32::NEG_INFINITY; n * n];
        for (i, row) in mask.chunks_exact_mut(n).enumerate() {
            for (j, cell) in row[..=i].iter_mut().enumerate() {
                if self.segments[j] == self.segments[i] || self.segments[j] == PREFIX {
                    *cell = 0.0;
                }
            }
        }
        Tensor::from_data(TensorData::new(mask, [n, n]), device)
    }

    fn empty() -> Self {
        Self { tokens: Vec::new(), positions: Vec::new(), segments: Vec::new() }
    }

    fn push(&mut self, tokens: &[u32], start: u32, segment: u32) {
        self.tokens.extend_from_slice(tokens);
        self.positions.extend(start..start + tokens.len() as u32);
        self.segments.extend(std::iter::repeat_n(segment, tokens.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_shares_its_prompt() {
        let row = Packed::group(&[7, 8], &[vec![1, 2], vec![], vec![3]]).unwrap();
        assert_eq!(row.tokens(), [7, 8, 1, 2, 3]);
        assert_eq!(row.positions(), [0, 1, 2, 3, 2]);
        assert_eq!(row.segments(), [0, 0, 1, 1, 3]);
        let targets = row.targets();
        assert_eq!(targets.predictors, [1, 2, 1]);
        assert_eq!(targets.tokens, [1, 2, 3]);
    }

    #[test]
    fn documents_do_not_see_each_other() {
        let row = Packed::documents(&[[5, 6].as_slice(), &[7, 8, 9]]).unwrap();
        assert_eq!(row.positions(), [0, 1, 0, 1, 2]);
        let targets = row.targets();
        assert_eq!(targets.predictors, [0, 2, 3]);
        assert_eq!(targets.tokens, [6, 8, 9]);
    }

    #[test]
    fn the_mask_opens_the_own_segment_and_the_prefix() {
        let row = Packed::group(&[7], &[vec![1, 2], vec![3]]).unwrap();
        let mask = row.mask(&Device::flex()).into_data();
        let open: Vec<u8> =
            mask.as_slice::<f32>().unwrap().iter().map(|&v| u8::from(v == 0.0)).collect();
        assert_eq!(open, [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn nothing_to_predict_from_is_an_error() {
        assert_eq!(Packed::group(&[], &[vec![1]]), Err(PackError::EmptyPrompt));
        assert_eq!(Packed::documents(&[vec![], vec![]]), Err(PackError::NoTokens(2)));
    }
}
