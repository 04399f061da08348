use crate::cases::{adapter_of, builtins, capture, capture_differences, cases, read_capture};

#[test]
fn captured_runs_of_real_agents_are_read_as_expected() {
    let (builtins, cases) = (builtins(), cases("expectations.jsonl"));
    assert_eq!(cases.len(), 262);
    let mut wrong = Vec::new();
    for case in &cases {
        let (stdout, stderr) = (capture(case, "stdout"), capture(case, "stderr"));
        let got = read_capture(&builtins[adapter_of(case)], case, &stdout, &stderr, |bytes| vec![bytes]);
        let differences = capture_differences(case, &got);
        wrong.extend(differences.into_iter().map(|difference| format!("{}: {difference}", case["capture"])));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
