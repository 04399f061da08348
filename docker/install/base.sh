#!/usr/bin/env bash
# What every box needs: shell tools, certificates, sudo, git.
# shellcheck source=docker/install/common.sh
. "$(dirname "$0")/common.sh"

say "shell tools, certificates, sudo, git"
apt bash ca-certificates curl git jq less openssh-client procps sudo tzdata unzip xz-utils
