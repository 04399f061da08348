use crate::cases::{builtins, cases, made_differences};

#[test]
fn hand_made_runs_are_read_as_expected() {
    let (builtins, cases) = (builtins(), cases("made.jsonl"));
    assert_eq!(cases.len(), 65);
    let mut wrong = Vec::new();
    for case in &cases {
        let differences = made_differences(case, &builtins);
        wrong.extend(differences.into_iter().map(|difference| format!("{}: {difference}", case["name"])));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
