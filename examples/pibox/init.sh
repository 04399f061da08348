# shellcheck shell=bash
# Runs once per container, as the agents' user. Providers of your own go into the models file.
mkdir -p "$PI_CODING_AGENT_DIR"
[ -e "$PI_CODING_AGENT_DIR/models.json" ] || cp /usr/local/share/pibox/models.json "$PI_CODING_AGENT_DIR/"
