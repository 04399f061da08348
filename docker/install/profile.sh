# shellcheck shell=sh
# Programs of <state>/bin come first, but never for root: agents write there.
if [ "$(id -u)" != 0 ]; then
    PATH="${AICODEBOX_STATE_DIR:-$HOME/.aicodebox}/bin:$PATH"
fi
