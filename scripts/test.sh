#!/usr/bin/env bash
# make test: everything that a change must pass.
set -euo pipefail
. "$(dirname "$0")/tools.sh"

profile=default
[ -z "${CI:-}" ] || profile=ci

step scripts/style.sh
if tool nextest 0.9.148; then
    step cargo nextest run --workspace --all-features --locked --profile "$profile"
else
    step cargo test --workspace --all-targets --all-features --locked
fi
step python3 tests/clients/run.py --quick
step cargo test --quiet --doc --workspace --all-features --locked
step python3 -m unittest discover --quiet docker/python/tests
