#!/usr/bin/env bash
# Python with pip, venv and uv. `python3`, `python` and `pip` are this version, and pip may install into it: it is the
# box's own, so that a child image needs nothing but `pip install`.
# shellcheck source=docker/install/common.sh
. "$(dirname "$0")/common.sh"

say "Python $PYTHON_VERSION"
if has python3 "$PYTHON_VERSION"; then
    apt python3 python3-pip python3-venv python-is-python3
else
    repository deadsnakes \
        'https://keyserver.ubuntu.com/pks/lookup?op=get&search=0xF23C5A6CF475977595C89F51BA6932366A755776' \
        F23C5A6CF475977595C89F51BA6932366A755776 \
        "https://ppa.launchpadcontent.net/deadsnakes/ppa/ubuntu $(codename) main"
    apt "python$PYTHON_VERSION" "python$PYTHON_VERSION-venv"
    # Not /usr/bin/python3, which is the distribution's and runs its own programs.
    "python$PYTHON_VERSION" -m ensurepip --altinstall
    for name in python3 python; do ln -s "/usr/bin/python$PYTHON_VERSION" "/usr/local/bin/$name"; done
    for name in pip3 pip; do ln -s "/usr/local/bin/pip$PYTHON_VERSION" "/usr/local/bin/$name"; done
fi
python3 -m pip install --quiet "uv==$UV_VERSION"
