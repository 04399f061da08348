# shellcheck shell=bash
# Runs once per container, as the agents' user.
set -e
mkdir -p "$XDG_CONFIG_HOME/opencode" "$XDG_DATA_HOME" "$XDG_STATE_HOME"
[ -e "$XDG_CONFIG_HOME/opencode/opencode.json" ] || cp /usr/local/share/opencodebox/opencode.json "$XDG_CONFIG_HOME/opencode/"
