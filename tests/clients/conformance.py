"""The conformance suite of MCP, at both revisions. What needs tools, prompts and resources made for the suite is listed
in judges/expected-*.yml, and nothing else may fail."""
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 120
suite = Path(os.environ["NODE_CLIENTS"]) / "node_modules" / "@modelcontextprotocol" / "conformance"
program = suite / json.loads((suite / "package.json").read_text())["bin"]["conformance"]

failed = False
for revision in ("2025-11-25", "2026-07-28"):
    done = subprocess.run(
        [os.environ["NODE"], program, "server", "--url", os.environ["GW_MCP"], "--requirements", revision,
         "--expected-failures", HERE / "judges" / f"expected-{revision}.yml"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT)
    ok = done.returncode == 0
    failed |= not ok
    print(f"{'PASS' if ok else 'FAIL'} | conformance | {revision}", "" if ok else done.stdout[-4000:], flush=True)
sys.exit(failed)
