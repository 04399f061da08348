use aicodebox_engine::adapter::rehearse;

use crate::cases::{built_in, builtins, cases, plan_differences};

#[test]
fn requests_become_the_command_lines_that_were_written_by_hand() {
    let (builtins, cases) = (builtins(), cases("plans.jsonl"));
    assert_eq!(cases.len(), 57);
    let wrong =
        |case: &serde_json::Value| Some(format!("{}: {}", case["name"], plan_differences(case, &builtins)?));
    let wrong: Vec<String> = cases.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_schema_that_says_nothing_is_none() {
    let plan = |schema: &str| {
        let text = format!(r#"{{"request": {{"prompt": "x", "json_schema": {schema}}}, "host": {{}}}}"#);
        rehearse(&built_in("codex"), &text).unwrap_or_default().to_string()
    };
    let none = plan("null");
    assert!(none.contains("--json"), "{none}");
    for schema in ["{}", "[]", "\"\"", "false"] {
        assert_eq!(plan(schema), none, "{schema}");
    }
    assert_ne!(plan("true"), none);
}
