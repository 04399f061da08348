#!/usr/bin/env bash
# gh, terraform and kubectl.
# shellcheck source=docker/full/common.sh
. /docker/full/common.sh

# from PACKAGE REPOSITORY…: a package of its maker's repository.
from() {
    local package=$1
    shift
    if repository "$@"; then apt "$package"; else unavailable "$package"; fi
}

say "gh, terraform, kubectl"
if has gh 2.40; then apt gh; else
    from gh github-cli https://cli.github.com/packages/githubcli-archive-keyring.gpg \
        2C6106201985B60E6C7AC87323F3D4EA75716059 "https://cli.github.com/packages stable main"
fi
from "terraform=$TERRAFORM_VERSION-*" hashicorp https://apt.releases.hashicorp.com/gpg \
    798AEC654E5C15428C8E42EEAA16FCBCA621E701 "https://apt.releases.hashicorp.com $(codename) main"
if has kubectl 1.30; then apt kubectl; else
    from kubectl kubernetes "https://pkgs.k8s.io/core:/stable:/$KUBECTL_MINOR/deb/Release.key" \
        DE15B14486CD377B9E876E1A234654DA9A296436 "https://pkgs.k8s.io/core:/stable:/$KUBECTL_MINOR/deb/ /"
fi
