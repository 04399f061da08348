# shellcheck shell=bash
# Sourced by the install scripts of the full image.
# shellcheck source=docker/install/common.sh
. /docker/install/common.sh
set -a
# shellcheck source=docker/full/versions.env
. /docker/full/versions.env
set +a

# pin NAME: the version of a package, from versions.env.
pin() {
    local name=${1^^}_VERSION
    echo "${!name:?no $name in versions.env}"
}

# unavailable NAME: what cannot be had. Only a test that says so may build without it.
unavailable() {
    echo "UNAVAILABLE $1"
    [ -n "${ALLOW_UNAVAILABLE:-}" ]
}
