# shellcheck shell=bash
# Runs once per container, as the agents' user. gemini keeps everything in ~/.gemini, wherever that leads.
set -e
kept=${AICODEBOX_STATE_DIR:-$HOME/.aicodebox}/gemini
mkdir -p "$kept"
[ -e "$HOME/.gemini" ] || ln -s "$kept" "$HOME/.gemini"
[ -e "$kept/settings.json" ] || cp /usr/local/share/geminibox/settings.json "$kept/"
