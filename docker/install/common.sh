# shellcheck shell=bash
# Sourced by the install scripts, which run as root while the image is built. Their one rule: what the distribution
# has new enough comes from the distribution; the rest from its maker's own repository, pinned and checked by its key.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")") # where this file is, whoever sources it
set -a
# shellcheck source=docker/install/versions.env
. "$here/versions.env"
set +a

say() { printf '== %s\n' "$*"; }

# apt NAME…: installs packages without the ones that they merely recommend.
apt() { apt-get install -y -qq --no-install-recommends "$@"; }

# candidate NAME: the version that the distribution would install, or nothing.
candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: \([^(].*\)$/\1/p'; }

# has NAME VERSION: whether the distribution has NAME in at least VERSION.
has() {
    local found
    found=$(candidate "$1")
    [ -n "$found" ] && dpkg --compare-versions "${found#*:}" ge "$2"
}

# only_key FINGERPRINT: of the keys on standard input, the one with this fingerprint, as apt wants it. What else came along is
# left out: apt would trust it as well. A key that merely has the right one below its own is not it.
only_key() {
    local fingerprint=$1 keys found
    keys=$(mktemp -d)
    gpg --homedir "$keys" --quiet --import
    gpg --homedir "$keys" --quiet --export "$fingerprint" >"$keys/only"
    found=$(gpg --homedir "$keys" --show-keys --with-colons "$keys/only" | sed -n '/^pub:/{n;s/^fpr:*\([0-9A-F]*\):$/\1/p;}')
    if [ "$found" != "$fingerprint" ]; then
        echo "there is no key $fingerprint, but:" >&2
        gpg --homedir "$keys" --list-keys >&2
        return 1
    fi
    cat "$keys/only"
}

# repository NAME KEY_URL FINGERPRINT LINE: adds an apt repository that is signed by the key with this fingerprint.
repository() {
    local name=$1 key_url=$2 fingerprint=$3 line=$4
    local ring=/usr/share/keyrings/$name.gpg
    command -v gpg >/dev/null || apt gnupg
    if ! curl -fsSL --retry 3 --proto '=https' "$key_url" | only_key "$fingerprint" >"$ring"; then
        echo "$key_url: the key cannot be had" >&2
        rm -f "$ring"
        return 1
    fi
    echo "deb [signed-by=$ring] $line" >"/etc/apt/sources.list.d/$name.list"
    apt-get update -qq
}

codename() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }
