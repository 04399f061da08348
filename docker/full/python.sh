#!/usr/bin/env bash
# Python's tools, each in an environment of its own, so that none fights with what an agent installs.
# shellcheck source=docker/full/common.sh
. /docker/full/common.sh

say "Python tools"
for package in pytest ruff black mypy pyright poetry httpie; do
    UV_TOOL_DIR=/opt/tools UV_TOOL_BIN_DIR=/usr/local/bin uv tool install --quiet --no-cache "$package==$(pin "$package")"
done
