# shellcheck shell=bash
# Sourced by the other scripts. Cargo tools that the machine lacks are installed, pinned, into .cache/tools.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
export PATH="$PATH:$PWD/.cache/tools/bin"

# tool NAME VERSION: succeeds when `cargo NAME` can be used.
tool() {
    command -v "cargo-$1" >/dev/null && return
    [ -x .cache/tools/bin/pip ] || python3 -m venv .cache/tools || return
    .cache/tools/bin/pip install --quiet --disable-pip-version-check "astral-dev-toolchain-cargo-$1==$2"
}

step() {
    printf '\n== %s\n' "$*" >&2
    "$@"
}

# skip CHECK REASON: .ci/run fails on a skip that docs/skips.md does not list.
skip() {
    echo "SKIP $1: $2"
}
