#!/usr/bin/env bash
# make fuzz: the property tests, whose names begin with prop_, with many more cases than `make test` gives them; then
# each target of fuzz/ for $FUZZ_SECONDS.
set -euo pipefail
. "$(dirname "$0")/tools.sh"

export PROPTEST_CASES=${PROPTEST_CASES:-20000}
tool nextest 0.9.148
step cargo nextest run --workspace --all-features --locked --profile fuzz -E 'test(/prop_/)'

if [ -n "${CI:-}" ] && [ -z "${FUZZ_SECONDS:-}" ]; then
    skip cargo-fuzz "compiling the targets takes longer than the whole check may; FUZZ_SECONDS=60 does it"
    exit
fi
if ! tool fuzz 0.13.2; then
    skip cargo-fuzz "not installed and not to be had"
    exit
fi
passed=0 failed=0
for file in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$file" .rs)
    corpus=.cache/fuzz/corpus/$name
    mkdir -p "$corpus"
    seeds=()
    [ ! -d "fuzz/seeds/$name" ] || seeds=("fuzz/seeds/$name")
    # No sanitizer, which needs nightly Rust: none of what is called here is unsafe.
    if step cargo fuzz run --dev --sanitizer none --target-dir .cache/fuzz/target "$name" "$corpus" "${seeds[@]}" -- \
        -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -max_len=4096 -close_fd_mask=1 -verbosity=0 -print_final_stats=1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
