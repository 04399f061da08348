use crate::cases::{adapter_of, builtins, capture, cases, load, read_capture};

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn output_cut_at_random_places_reads_the_same() {
    let builtins = builtins();
    let mut dice = Dice(1);
    for case in cases("expectations.jsonl") {
        let adapter = &builtins[adapter_of(&case)];
        let (stdout, stderr) = (capture(&case, "stdout"), capture(&case, "stderr"));
        let whole = read_capture(adapter, &case, &stdout, &stderr, |bytes| vec![bytes]);
        for _ in 0..2 {
            let cuts: Vec<usize> = (0..6).map(|_| dice.below(4000) + 1).collect();
            let pieces = read_capture(adapter, &case, &stdout, &stderr, |mut bytes| {
                let mut pieces = Vec::new();
                for cut in cuts.iter().cycle() {
                    if bytes.is_empty() {
                        break;
                    }
                    let (piece, rest) = bytes.split_at(bytes.len().min(*cut));
                    pieces.push(piece);
                    bytes = rest;
                }
                pieces
            });
            assert_eq!(pieces, whole, "{} cut by {cuts:?}", case["capture"]);
        }
    }
}

#[test]
fn output_byte_by_byte_reads_the_same() {
    let builtins = builtins();
    for case in cases("expectations.jsonl") {
        let (stdout, stderr) = (capture(&case, "stdout"), capture(&case, "stderr"));
        if stdout.len() > 10_000 {
            continue;
        }
        let adapter = &builtins[adapter_of(&case)];
        let whole = read_capture(adapter, &case, &stdout, &stderr, |bytes| vec![bytes]);
        let bytes = read_capture(adapter, &case, &stdout, &stderr, |bytes| bytes.chunks(1).collect());
        assert_eq!(bytes, whole, "{}", case["capture"]);
    }
}

#[test]
fn a_document_and_plain_text_do_not_mind_either() {
    let head = "schema = 1\nname = \"x\"\n[run]\nstdin = \"{prompt}\"\n[output]\n";
    let json = load(&format!("{head}format = \"json\"\n[[event]]\nresult = \"/r\"\n"));
    let text = load(&format!("{head}format = \"text\"\n"));
    let case = serde_json::json!({ "input": { "exit": 0 } });
    for (adapter, stdout, want) in [
        (&json, "{\"r\":\n \"é€😀\"}\n", "é€😀"),
        (&text, " \u{1b}[1mé€😀\u{1b}[0m é \n\n", "é€😀 é"),
        (&text, "caf\u{fffd}", "caf\u{fffd}"),
    ] {
        for size in 1..stdout.len() {
            let got =
                read_capture(adapter, &case, stdout.as_bytes(), b"", |bytes| bytes.chunks(size).collect());
            assert_eq!(got["text"], want, "in pieces of {size}");
        }
    }
}
