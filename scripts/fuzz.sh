#!/usr/bin/env bash
# make fuzz: the property tests, whose names begin with prop_, with many more cases than `make test` gives them.
set -euo pipefail
. "$(dirname "$0")/tools.sh"

export PROPTEST_CASES=${PROPTEST_CASES:-20000}
tool nextest 0.9.148
step cargo nextest run --workspace --all-features --locked -E 'test(/prop/)'
