use crate::cases::{builtins, cases, plan_differences};

#[test]
fn requests_become_the_command_lines_that_were_written_by_hand() {
    let (builtins, cases) = (builtins(), cases("plans.jsonl"));
    assert_eq!(cases.len(), 57);
    let wrong =
        |case: &serde_json::Value| Some(format!("{}: {}", case["name"], plan_differences(case, &builtins)?));
    let wrong: Vec<String> = cases.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
