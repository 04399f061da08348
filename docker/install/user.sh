#!/usr/bin/env bash
# The user that agents run as, and the directories of the box.
# shellcheck source=docker/install/common.sh
. "$(dirname "$0")/common.sh"

say "user aicode"
# Images of Ubuntu have a user of this number.
if other=$(getent passwd 1000); then
    userdel --remove "${other%%:*}" 2>/dev/null
fi
getent group docker >/dev/null || groupadd --system docker
groupadd --gid 1000 aicode
useradd --uid 1000 --gid aicode --groups docker --create-home --shell /bin/bash aicode
echo 'aicode ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/aicode
chmod 0440 /etc/sudoers.d/aicode

# Group 0 may write: whoever is started with a number that nobody knows is in that group (OpenShift).
# The state directory is there so that a new volume becomes theirs: what is missing in the image an engine makes root's.
install -d -o aicode -g 0 -m 0775 /workspace /home/aicode /home/aicode/.aicodebox
chmod -R g=u /home/aicode
install -d -m 0755 /aicodebox-init.d /var/lib/aicodebox

# For login shells, and for those of `docker exec`.
install -m 0644 "$here/profile.sh" /etc/profile.d/aicodebox.sh
echo '. /etc/profile.d/aicodebox.sh' >>/etc/bash.bashrc
