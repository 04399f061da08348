#!/usr/bin/env bash
# Schemathesis over the OpenAPI of a real server, for 90 s (SECONDS_PER_RUN to change that): no finding may remain.
# It comes from PyPI into an environment of its own below .cache.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
version=4.32.5
venv=$root/.cache/schemathesis-$version

if [ ! -x "$venv/bin/schemathesis" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet uv
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "schemathesis==$version"
fi
cargo build --quiet --package aicodebox --bin aicodebox --manifest-path "$root/Cargo.toml"

dir=$(mktemp -d)
mkdir "$dir/home" "$dir/workspace"
cat > "$dir/adapter.toml" <<'END'
schema = 1
name   = "echo"
binary = "/bin/sh"
[run]
argv  = ["-c", "echo hello"]
stdin = "{prompt}"
[output]
format = "text"
[fallback]
model = "drop"
effort = "drop"
system_prompt = "drop"
append_system_prompt = "drop"
tools = "drop"
no_tools = "drop"
images = "drop"
resume = "drop"
json_schema = "prefix"
extra_args = "drop"
END
env -i PATH="$PATH" HOME="$dir/home" AICODEBOX_ADAPTER="$dir/adapter.toml" AICODEBOX_WORKSPACE="$dir/workspace" \
    AICODEBOX_AVAILABLE_MODELS=small AICODEBOX_API_MODE=1 AICODEBOX_API_MODE_HOST=127.0.0.1 AICODEBOX_API_MODE_PORT=0 \
    AICODEBOX_API_MODE_TOKEN=secret AICODEBOX_CALLBACK_SECRET=key LOG_FORMAT=json \
    "$root/target/debug/aicodebox" serve 2> "$dir/log" &
server=$!
trap 'kill $server; wait $server 2> /dev/null || true; rm -rf "$dir"' EXIT
for _ in $(seq 100); do
    address=$(sed -n 's/.*"message":"listening".*"address":"\([^"]*\)".*/\1/p' "$dir/log")
    [ -z "$address" ] || break
    kill -0 $server || { cat "$dir/log"; exit 1; }
    sleep 0.1
done

# It leaves what it found where it runs.
cd "$dir"
"$venv/bin/schemathesis" --config-file "$root/tests/clients/schemathesis.toml" run "http://$address/openapi.json" --header "Authorization: Bearer secret" \
    --max-time "${SECONDS_PER_RUN:-90}" "$@"
