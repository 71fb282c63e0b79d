//! The JSON form.

use rl::{Check, Polarity, Rubric, RubricItem};
use serde::Deserialize;

use super::{Limits, ParseError, WEIGHTS, validate};

/// Reads `{"rubrics": [{"criterion", "weight", "polarity"?, "check"?}]}`. White space and one code
/// fence around it are ignored, other text is not.
///
/// # Errors
/// The first thing wrong with the text, see [`ParseError`].
pub fn parse_json(text: &str, limits: Limits) -> Result<Rubric, ParseError> {
    let JsonRubric { rubrics } = from_json(without_fence(text))?;
    let rubric = Rubric { items: weighed(rubrics)? };
    validate(&rubric, limits)?;
    Ok(rubric)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `rubrics`")]
struct JsonRubric {
    rubrics: Vec<JsonItem>,
}

/// An item as written; the weight is any number, so that a wrong one is called a wrong weight.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonItem {
    criterion: String,
    weight: serde_json::Number,
    #[serde(default)]
    polarity: Polarity,
    #[serde(default)]
    check: Option<Check>,
}

/// Items with their weights checked.
pub(crate) fn weighed(items: Vec<JsonItem>) -> Result<Vec<RubricItem>, ParseError> {
    let weigh = |(place, item): (usize, JsonItem)| {
        let weight = item.weight.as_u64().and_then(|weight| u8::try_from(weight).ok());
        let Some(weight) = weight.filter(|weight| WEIGHTS.contains(weight)) else {
            return Err(ParseError::BadWeight { item: place, found: item.weight.to_string() });
        };
        let JsonItem { criterion, polarity, check, .. } = item;
        Ok(RubricItem { criterion, weight, polarity, check })
    };
    (1..).zip(items).map(weigh).collect()
}

/// Deserialises all of a text, with the path to what is wrong.
pub(crate) fn from_json<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, ParseError> {
    let not_json = |error: serde_json::Error| ParseError::NotJson { detail: error.to_string() };
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if error.is_data() {
            ParseError::Shape { path, detail: error.to_string() }
        } else {
            not_json(error)
        }
    })?;
    json.end().map_err(not_json)?;
    Ok(value)
}

/// The text inside of a code fence that spans all of it, or the text itself.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.map_or(text, |inside| inside.strip_prefix("json").unwrap_or(inside).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { min_items: 2, max_items: 3 };

    fn items(items: &[&str]) -> String {
        format!(r#"{{"rubrics":[{}]}}"#, items.join(","))
    }

    #[test]
    fn json_with_all_fields_fenced_or_not() {
        let text = items(&[
            r#"{"criterion":"greets Mia","weight":3}"#,
            r#"{"criterion":"filler","weight":2,"polarity":"-","check":{"kind":"any_of","words":["very"]}}"#,
        ]);
        let rubric = parse_json(&text, LIMITS).expect("valid");
        let weights: Vec<_> = rubric.items.iter().map(|i| (i.weight, i.polarity)).collect();
        assert_eq!(weights, [(3, Polarity::Positive), (2, Polarity::Negative)]);
        assert_eq!(rubric.items[1].check, Some(Check::AnyOf { words: vec!["very".into()] }));
        for fenced in [format!("\n```json\n{text}\n```\n"), format!("```\n{text}```")] {
            assert_eq!(parse_json(&fenced, LIMITS).as_ref(), Ok(&rubric), "{fenced}");
        }
    }

    #[test]
    fn json_errors_name_what_is_wrong_and_where() {
        let good = r#"{"criterion":"a","weight":1}"#;
        let with = |second: &str| items(&[good, second]);
        let table = [
            (String::new(), "not json: EOF while parsing a value at line 1 column 0"),
            ("Sure! {}".into(), "not json: expected value at line 1 column 1"),
            (items(&[good]) + " ok?", "not json: trailing characters at line 1 column 44"),
            (
                "[]".into(),
                "json at .: invalid length 0, expected an object with `rubrics` at line 1 column 2",
            ),
            (items(&[]), "rubric has no items"),
            (items(&[good]), "rubric has 1 items (expected at least 2)"),
            (
                with(r#"{"criterion":"b","weight":6}"#),
                "item 2: weight 6 (expected a whole number of 1 to 5)",
            ),
            (
                with(r#"{"criterion":"b","weight":0}"#),
                "item 2: weight 0 (expected a whole number of 1 to 5)",
            ),
            (
                with(r#"{"criterion":"b","weight":2.5}"#),
                "item 2: weight 2.5 (expected a whole number of 1 to 5)",
            ),
            (
                with(r#"{"criterion":"b","weight":-1}"#),
                "item 2: weight -1 (expected a whole number of 1 to 5)",
            ),
            (with(r#"{"criterion":" \n","weight":1}"#), "item 2: the criterion is empty"),
            (
                with(r#"{"criterion":" A","weight":5,"polarity":"-"}"#),
                "item 2 asks the same as item 1",
            ),
            (
                with(r#"{"criterion":"Beats candidate B","weight":1}"#),
                "item 2 names a candidate: \"candidate B\"",
            ),
        ];
        for (text, message) in table {
            let error = parse_json(&text, LIMITS).expect_err(&text);
            assert_eq!(error.to_string(), message);
        }
        for (item, path) in [
            (r#"{"criterion":"b","weight":"2"}"#, "rubrics[1].weight"),
            (r#"{"criterion":"b","weight":2,"polarity":"no"}"#, "rubrics[1].polarity"),
            (r#"{"criterion":"b","weight":2,"check":{"kind":"magic"}}"#, "rubrics[1].check.kind"),
            (r#"{"criterion":"b"}"#, "rubrics[1]"),
            (r#"{"criterion":"b","weight":2,"note":""}"#, "rubrics[1].note"),
        ] {
            match parse_json(&with(item), LIMITS) {
                Err(ParseError::Shape { path: found, .. }) => assert_eq!(found, path),
                other => panic!("{item}: {other:?}"),
            }
        }
    }

    #[test]
    fn two_criteria_with_one_check_are_duplicates() {
        let check = r#""check":{"kind":"equation"}"#;
        let text = items(&[
            &format!(r#"{{"criterion":"adds up","weight":1,{check}}}"#),
            &format!(r#"{{"criterion":"sum is right","weight":2,{check}}}"#),
        ]);
        assert_eq!(parse_json(&text, LIMITS), Err(ParseError::Duplicate { item: 2, first: 1 }));
    }
}
