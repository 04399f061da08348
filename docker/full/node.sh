#!/usr/bin/env bash
# The tools of JavaScript and TypeScript.
# shellcheck source=docker/full/common.sh
. /docker/full/common.sh

say "Node tools"
packages=()
for package in eslint prettier typescript pnpm yarn; do packages+=("$package@$(pin "$package")"); done
npm install --global --no-fund --no-audit "${packages[@]}"
