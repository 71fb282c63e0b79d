//! `rubricon score`: the check values of the method.

use std::path::Path;

use serde_json::{Value, json};

use super::{fails, rubricon, succeeds, text};

fn score(request: &Value) -> Value {
    let arguments = ["score", "--input", "-", "--json"];
    let output = succeeds(Path::new("."), &arguments, &request.to_string());
    serde_json::from_str(&output).unwrap()
}

fn rubric(weights: &[u8]) -> Value {
    let item =
        |(i, weight): (usize, &u8)| json!({"criterion": format!("item {i}"), "weight": weight});
    weights.iter().enumerate().map(item).collect()
}

fn close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 5e-4, "{found} is not {expected}");
}

#[test]
fn the_worked_example() {
    // Weights 5, 3, 2 with items 1 and 3 met: (5 + 2) / 10.
    let verdicts = json!([[1], [0], [1]]);
    let response = score(&json!({"rubric": rubric(&[5, 3, 2]), "verdicts": verdicts}));
    close(&response["scores"][0], 0.7);
    assert_eq!(response["r_anchor"], Value::Null);
}

#[test]
fn discriminability_of_one_item_over_eight_completions() {
    // m met of 8: (m/8)(1 - m/8).
    for (met, expected) in [(0, 0.0), (1, 0.109_375), (2, 0.1875), (3, 0.234_375), (4, 0.25)] {
        let row: Vec<u8> = (0..8).map(|k| u8::from(k < met)).collect();
        let response = score(&json!({"rubric": rubric(&[3]), "verdicts": [row]}));
        close(&response["r_disc"], expected);
    }
}

#[test]
fn seven_anchors_of_which_the_top_two_meet_the_only_item() {
    let request = |anchors: [u8; 7]| {
        json!({"rubric": rubric(&[1]), "verdicts": [[0, 1]], "anchor_verdicts": [anchors],
               "anchors": ["a", "b", "c", "d", "e", "f", "g"]})
    };
    close(&score(&request([1, 1, 0, 0, 0, 0, 0]))["r_anchor"], -2.112);
    close(&score(&request([0; 7]))["r_anchor"], -3.096);
}

#[test]
fn a_missing_verdict_leaves_its_item_out_for_the_whole_group() {
    // Item 2 is left out: 5 / 7 and 2 / 7. One verdict of six is missing.
    let verdicts = json!([[1, 0], [1, null], [0, 1]]);
    let response = score(&json!({"rubric": rubric(&[5, 3, 2]), "verdicts": verdicts}));
    close(&response["scores"][0], 5.0 / 7.0);
    close(&response["scores"][1], 2.0 / 7.0);
    close(&response["abstained"], 1.0 / 6.0);
}

#[test]
fn completions_are_judged_by_program_checks() {
    let check = json!({"kind": "contains", "text": "Mia"});
    let item = json!({"criterion": "names Mia", "weight": 2, "check": check});
    let request = json!({"prompt": "Write to Mia.", "rubric": [item],
                         "completions": ["Dear Mia, come soon.", "Dear Tom, come soon."]});
    let response = score(&request);
    assert_eq!(response["verdicts"], json!([[1, 0]]));
    assert_eq!(response["scores"], json!([1.0, 0.0]));
    assert_eq!(response["tie_fraction"], json!(0.0));
}

#[test]
fn requests_that_make_no_sense_are_named() {
    let here = Path::new(".");
    for (request, part) in [
        ("{", "--input -: request: "),
        (r#"{"rubric": [{"criterion": "a", "weight": 9}], "verdicts": [[1]]}"#, "rubric: "),
        (r#"{"rubric": [{"criterion": "a", "weight": 1}], "verdicts": [[1], [1]]}"#, "2 rows"),
        (r#"{"rubric": [{"criterion": "a", "weight": 1}], "verdicts": [[7]]}"#, "verdicts[0][0]"),
    ] {
        let output = rubricon(here, &["score", "--input", "-", "--json"], request);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(part) && message.lines().count() == 1, "{message}");
    }
    let message = fails(here, &["score", "--input", "nowhere.json"], 1);
    assert!(message.contains("nowhere.json"), "{message}");
}
