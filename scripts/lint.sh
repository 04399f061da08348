#!/usr/bin/env bash
# make lint: style, the API documentation, licences and sources of the dependencies, and unused ones.
set -euo pipefail
. "$(dirname "$0")/tools.sh"

step scripts/style.sh
# Read with the private items, by those who work on it.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" step cargo doc --quiet --workspace --all-features --no-deps --document-private-items --locked
if tool deny 0.20.2; then
    step cargo deny --log-level error check licenses bans sources
else
    skip cargo-deny "not installed and not to be had"
fi
if tool shear 1.14.0; then
    step cargo shear
else
    skip cargo-shear "not installed and not to be had"
fi
step scripts/lint-image.sh
msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if rustup toolchain list 2>/dev/null | grep -q "^$msrv"; then
    step cargo "+$msrv" check --quiet --workspace --all-features --locked
else
    skip msrv "Rust $msrv is not installed"
fi
