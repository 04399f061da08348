#!/usr/bin/env bash
# Node.js and npm.
# shellcheck source=docker/install/common.sh
. "$(dirname "$0")/common.sh"

say "Node.js $NODE_MAJOR"
if has nodejs "$NODE_MAJOR"; then
    apt nodejs npm
else
    repository nodesource https://deb.nodesource.com/gpgkey/nodesource-repo.gpg.key \
        6F71F525282841EEDAF851B42F59B5F99B1BE0B4 "https://deb.nodesource.com/node_$NODE_MAJOR.x nodistro main"
    apt nodejs
fi
