"""The command line of the MCP inspector lists the tools and calls them."""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "judges"))
from common import KEY, case  # noqa: E402

NAME = "inspector"
LIMIT = 60
package = Path(os.environ["NODE_CLIENTS"]) / "node_modules" / "@modelcontextprotocol" / "inspector"
bins = json.loads((package / "package.json").read_text())["bin"]
program = package / (bins if isinstance(bins, str) else bins["mcp-inspector"])


def inspect(*words: str) -> str:
    argv = [os.environ["NODE"], program, "--cli", os.environ["GW_MCP"], "--transport", "http",
            "--header", f"Authorization: Bearer {KEY}", *words]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout[-200:]}"
    return done.stdout


def call(tool: str, *arguments: str) -> str:
    given = [word for argument in arguments for word in ("--tool-arg", argument)]
    return inspect("--method", "tools/call", "--tool-name", tool, *given)


@case(NAME, "tools/list")
def _():
    assert '"run_prompt"' in inspect("--method", "tools/list")


@case(NAME, "write_file, read_file, delete_file")
def _():
    assert "inspected.txt" in call("write_file", "path=inspected.txt", "content=seen")
    assert "seen" in call("read_file", "path=inspected.txt")
    assert "ok" in call("delete_file", "path=inspected.txt")


@case(NAME, "run_prompt")
def _():
    assert "hello" in call("run_prompt", "prompt=say hello")
