//! Each odd row of the fixture meets its declared outcome, as an anchor and as a prompt.

use std::fs;
use std::path::{Path, PathBuf};

use data::{DataError, Flag, load_anchors, load_prompts, write_quarantine};

/// What a line of the fixture must come to.
#[derive(Clone, Copy)]
enum Outcome {
    Accepted(&'static [Flag]),
    Rejected(&'static str),
    Blank,
}
use Outcome::{Accepted, Blank, Rejected};

/// Line, case in `expectations.tsv`, outcome as an anchor, outcome as a prompt.
const OUTCOMES: [(&str, Outcome, Outcome); 24] = [
    ("plain", Accepted(&[]), Accepted(&[])),
    ("BOM before first key", Accepted(&[]), Accepted(&[])),
    ("CRLF ending", Accepted(&[]), Accepted(&[])),
    ("blank line", Blank, Blank),
    ("U+2028 and U+0085 raw inside a string", Accepted(&[]), Accepted(&[])),
    ("NUL and form feed escaped", Accepted(&[]), Accepted(&[])),
    (
        "lone surrogate escape",
        Rejected("unexpected end of hex escape at column 32"),
        Rejected("unexpected end of hex escape at column 32"),
    ),
    (
        "invalid UTF-8 byte",
        Rejected("invalid UTF-8 at byte 29 of the row"),
        Rejected("invalid UTF-8 at byte 29 of the row"),
    ),
    (
        "truncated JSON",
        Rejected("EOF while parsing a string at column 40"),
        Rejected("EOF while parsing a string at column 40"),
    ),
    (
        "response is true",
        Rejected("responses[0].text: invalid type: boolean `true`, expected a string at column 73"),
        Accepted(&[]),
    ),
    (
        "response is null",
        Rejected("responses[0].text: invalid type: null, expected a string at column 73"),
        Accepted(&[]),
    ),
    ("empty response", Accepted(&[Flag::EmptyAnswer]), Accepted(&[])),
    (
        "blank prompt",
        Rejected("prompt: blank, expected text"),
        Rejected("prompt: blank, expected text"),
    ),
    (
        "duplicate id",
        Rejected("id \"s00\" stands already on line 1"),
        Rejected("id \"s00\" stands already on line 1"),
    ),
    ("duplicate response ids", Rejected("responses: id \"a\" stands twice"), Accepted(&[])),
    (
        "identical responses in different tiers",
        Accepted(&[Flag::SameTextRankedTwice]),
        Accepted(&[]),
    ),
    (
        "rank refers to a missing response",
        Rejected("tiers: \"zzz\" is ranked twice or is the id of no response"),
        Accepted(&[]),
    ),
    (
        "response missing from ranking",
        Accepted(&[Flag::UnrankedResponse, Flag::NoPair]),
        Accepted(&[]),
    ),
    ("one response only", Rejected("responses: 1, expected at least 2 to rank"), Accepted(&[])),
    ("all tied", Accepted(&[Flag::NoPair]), Accepted(&[])),
    ("extra unknown keys", Accepted(&[]), Accepted(&[])),
    ("integer id", Accepted(&[]), Accepted(&[])),
    ("nested quotes and backslashes", Accepted(&[]), Accepted(&[])),
    ("unclosed code fence", Accepted(&[]), Accepted(&[])),
];

#[test]
fn the_table_covers_every_line_of_the_expectations() {
    let expectations = fs::read_to_string(fixture("expectations.tsv")).unwrap();
    let cases: Vec<&str> =
        expectations.lines().skip(1).map(|row| row.split('\t').nth(1).unwrap()).collect();
    assert_eq!(cases, OUTCOMES.map(|(case, ..)| case));
}

#[test]
fn each_odd_row_meets_its_outcome_as_an_anchor() {
    let set = load_anchors(&fixture("odd_rows.jsonl")).unwrap();
    check(&set, OUTCOMES.map(|(case, anchor, _)| (case, anchor)));
}

#[test]
fn each_odd_row_meets_its_outcome_as_a_prompt() {
    let set = load_prompts(&fixture("odd_rows.jsonl")).unwrap();
    check(&set, OUTCOMES.map(|(case, _, prompt)| (case, prompt)));
}

fn check<T>(set: &data::DataSet<T>, outcomes: [(&str, Outcome); 24]) {
    let mut blank = 0;
    for (index, (case, outcome)) in outcomes.into_iter().enumerate() {
        let line = index + 1;
        let flags = set.rows.iter().find(|row| row.line == line).map(|row| row.flags.as_slice());
        let reason =
            set.quarantined.iter().find(|row| row.line == line).map(|row| row.reason.as_str());
        let expected = match outcome {
            Accepted(flags) => (Some(flags), None),
            Rejected(reason) => (None, Some(reason)),
            Blank => {
                blank += 1;
                (None, None)
            }
        };
        assert_eq!((flags, reason), expected, "line {line}: {case}");
    }
    assert_eq!(set.blank_lines, blank);
}

#[test]
fn odd_text_arrives_unchanged() {
    let set = load_anchors(&fixture("odd_rows.jsonl")).unwrap();
    let row = |line| set.rows.iter().find(|row| row.line == line).unwrap();
    assert_eq!(row(5).value.prompt.text, "one\u{2028}two\u{85}three");
    assert_eq!(row(6).value.prompt.text, "a\0b\u{c}c");
    assert_eq!(row(18).value.answers, ["Hi."]);
    assert_eq!(row(20).value.ranks, [0, 0]);
    assert_eq!(row(21).extra["extra"]["x"][1], 2);
    assert_eq!(row(22).value.prompt.id, "21");
    assert_eq!(row(23).value.prompt.text, r#"He said "she said \"no\"" C:\new\table"#);
    assert_eq!(row(24).value.prompt.text, "Fix:\n```py\nprint(\"a\")");
}

#[test]
fn answers_are_ordered_by_tier_not_by_the_order_of_responses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("anchors.jsonl");
    let row = r#"{"id":1,"prompt":"p","responses":[{"id":"w","text":"worst"},{"id":2,"text":"best"},
        {"id":"m","text":"middle"},{"id":"n","text":"also"}],"tiers":[[2],[],["m","n"],["w"]]}"#;
    fs::write(&path, row.replace('\n', "")).unwrap();
    let anchors = load_anchors(&path).unwrap().into_values();
    assert_eq!(anchors[0].answers, ["best", "middle", "also", "worst"]);
    assert_eq!(anchors[0].ranks, [0, 1, 1, 2]);
}

#[test]
fn a_key_given_twice_a_missing_key_and_a_bare_value_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts.jsonl");
    let rows = "{\"id\":\"ok\",\"prompt\":\"p\"}\n{\"id\":\"a\",\"id\":\"b\",\"prompt\":\"p\"}\n\
                {\"id\":\"c\"}\n[1]\n{\"id\":1.5,\"prompt\":\"p\"}\n{\"id\":\"\",\"prompt\":\"p\"}\n\
                {\"id\":\"d\",\"prompt\":\"p\"} tail";
    fs::write(&path, rows).unwrap();
    let set = load_prompts(&path).unwrap();
    let reasons: Vec<&str> = set.quarantined.iter().map(|row| row.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "duplicate field `id` at column 14",
            "missing field `prompt` at column 10",
            "invalid type: sequence, expected a map at column 0",
            "id: expected an id as text or integer at column 9",
            "id: expected an id of at least one character at column 8",
            "trailing characters at column 25",
        ]
    );
    assert_eq!(set.rows.len(), 1);
}

#[test]
fn a_file_without_a_usable_row_is_a_one_line_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let missing = folder.path().join("missing.jsonl");
    let empty = file("empty.jsonl", "\n  \r\n");
    let useless = file("useless.jsonl", "\n{\"id\":\"a\",\"prompt\":\"\"}\nnull\n");
    for (path, expected) in [
        (&missing, format!("read data set {}: No such file", missing.display())),
        (&empty, format!("data set {} is empty, expected one JSON object", empty.display())),
        (
            &useless,
            format!(
                "data set {} has no usable row: all 2 rejected, first at {}:2: prompt: blank",
                useless.display(),
                useless.display()
            ),
        ),
    ] {
        let message = load_prompts(path).unwrap_err().to_string();
        assert!(message.starts_with(&expected), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn the_quarantine_is_written_one_row_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("quarantine.jsonl");
    let set = load_anchors(&fixture("odd_rows.jsonl")).unwrap();
    write_quarantine(&path, &set.quarantined).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), set.quarantined.len());
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["line"], 7);
    assert!(first["file"].as_str().unwrap().ends_with("odd_rows.jsonl"));

    let nowhere = folder.path().join("missing/quarantine.jsonl");
    let error = write_quarantine(&nowhere, &set.quarantined).unwrap_err();
    assert!(matches!(error, DataError::WriteQuarantine { .. }));
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd_rows").join(name)
}
