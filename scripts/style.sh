#!/usr/bin/env bash
# Format, clippy and documentation: the part that `make test` and `make lint` share.
set -euo pipefail
. "$(dirname "$0")/tools.sh"

if cargo fmt --version >/dev/null 2>&1; then
    step cargo fmt --all --check
else
    skip rustfmt "not installed; rustup component add rustfmt"
fi
if cargo clippy --version >/dev/null 2>&1; then
    step cargo clippy --quiet --workspace --all-targets --all-features --locked -- -D warnings
else
    skip clippy "not installed; rustup component add clippy"
fi
step python3 scripts/check_docs.py
