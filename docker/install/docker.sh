#!/usr/bin/env bash
# Docker: engine, command line, buildx, compose. The engine is not started; an agent uses a mounted socket, or starts
# one in a container that is allowed to.
# shellcheck source=docker/install/common.sh
. "$(dirname "$0")/common.sh"

say "Docker with buildx and compose $COMPOSE_MAJOR"
for compose in docker-compose docker-compose-v2; do
    if has docker-buildx 0.10 && has "$compose" "$COMPOSE_MAJOR"; then
        # Debian has the command line in a package of its own.
        cli=$(candidate docker-cli)
        apt docker.io docker-buildx "$compose" ${cli:+docker-cli} iptables
        exit 0
    fi
done
repository docker https://download.docker.com/linux/ubuntu/gpg 9DC858229FC7DD38854AE2D88D81803C0EBFCD88 \
    "https://download.docker.com/linux/ubuntu $(codename) stable"
apt docker-ce docker-ce-cli containerd.io docker-buildx-plugin docker-compose-plugin iptables
