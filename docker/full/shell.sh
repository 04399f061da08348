#!/usr/bin/env bash
# C and C++, tools of the shell, editors, and clients of databases: all from the distribution.
# shellcheck source=docker/full/common.sh
. /docker/full/common.sh

say "C and C++"
apt build-essential cmake gdb valgrind clang-format strace
say "shell tools and editors"
apt ripgrep fd-find bat tree htop tmux vim nano shellcheck
if [ -n "$(candidate eza)" ]; then apt eza; fi
# Debian's names for these two are taken by others.
ln -sf /usr/bin/fdfind /usr/local/bin/fd
ln -sf /usr/bin/batcat /usr/local/bin/bat
say "clients of databases"
apt sqlite3 postgresql-client default-mysql-client redis-tools
