# shellcheck shell=bash
# Runs once per container, as the agents' user. codex refuses a CODEX_HOME that is not there.
# Sign in with `docker exec -it -u aicode CONTAINER codex login --device-auth`, or set CODEX_API_KEY.
mkdir -p "$CODEX_HOME"
