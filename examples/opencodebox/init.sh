# shellcheck shell=bash
# Runs once per container, as the agents' user.
set -e
mkdir -p "$XDG_CONFIG_HOME/opencode" "$XDG_DATA_HOME" "$XDG_STATE_HOME"
[ -e "$XDG_CONFIG_HOME/opencode/opencode.json" ] || cp /usr/local/share/opencodebox/opencode.json "$XDG_CONFIG_HOME/opencode/"
# Makes its database. Left to the first runs, two of them that come at the same time both try, and one fails.
opencode db path >/dev/null
