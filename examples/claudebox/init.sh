# shellcheck shell=bash
# Runs once per container, as the agents' user. Sign in with `docker exec -it -u aicode CONTAINER claude`, then /login.
mkdir -p "$CLAUDE_CONFIG_DIR"
