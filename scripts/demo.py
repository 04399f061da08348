"""make demo: builds aicodebox, starts the API with the built-in demo agent, shows a run, a failing and a cancelled one.

Needs no key and no network. Exits with 1 when something is not as it should be.
"""
from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from box import Answer, Box, build

problems: list[str] = []


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def show(box: Box, method: str, path: str, body: dict | None = None) -> Answer:
    """Sends a request, prints it as the curl command that does the same, and prints the answer."""
    words = [f"-X {method}"] * (method == "DELETE") + [f"'http://127.0.0.1:{box.port}{path}'"]
    words += [f"--json '{json.dumps(body)}'"] * (body is not None)
    say(f"$ curl {' '.join(words)}")
    answer = box.request(method, path, body)
    for line in json.dumps(answer.json, indent=2, ensure_ascii=False).splitlines():
        say(line)
    return answer


def expect(what: str, ok: bool) -> None:
    say(f"{'✓' if ok else '✗'} {what}")
    if not ok:
        problems.append(what)



def wait_for_agent(box: Box) -> bool:
    deadline = time.monotonic() + 5
    while not (agents := box.agents()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(agents)


def demo(box: Box) -> None:
    title("2. A run: the agent answers, and the call returns when it is done")
    answer = show(box, "POST", "/run", {"prompt": "Say hello to everyone who reads this."})
    expect("200, exit code 0, and the agent's text",
           answer.status == 200 and answer.json.get("exitCode") == 0 and "demo agent" in answer.json.get("text", ""))

    title("3. A run that fails: the exit code and the agent's own words come back")
    answer = show(box, "POST", "/run", {"prompt": "demo:fail"})
    expect("200, exit code 3, and the reason on stderr",
           answer.json.get("exitCode") == 3 and "asked to fail" in answer.json.get("stderr", ""))

    title("4. A run that is cancelled: nothing that the agent started is left")
    answer = show(box, "POST", "/run", {"prompt": "demo:slow", "workspace": "slow", "async": True})
    run = answer.json.get("runId", "")
    expect("it runs in the background", answer.json.get("status") == "running")
    expect("its processes are there", wait_for_agent(box))
    answer = show(box, "DELETE", f"/run/{run}")
    expect("cancelled", answer.status == 200 and answer.json.get("status") == "cancelled")
    expect("none of its processes is left", not box.agents())
    answer = show(box, "GET", f"/run/result?runId={run}")
    expect("its record says so", answer.json.get("status") == "cancelled")
    answer = show(box, "GET", "/status")
    expect("its workspace is free again", answer.json.get("busyWorkspaces") == [])


def main() -> int:
    title("0. Building (a first build takes a minute or two)")
    program = build()
    say(f"built {program}")

    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="aicodebox-demo-"))
    try:
        title("1. Starting the API with the demo agent")
        say("$ AICODEBOX_API_MODE=1 AICODEBOX_API_MODE_HOST=127.0.0.1 AICODEBOX_ADAPTER=demo aicodebox serve")
        box = Box(program, folder, {"AICODEBOX_ADAPTER": "demo"})
        expect(f"healthy on port {box.port} after {time.monotonic() - start:.2f} s", True)
        try:
            demo(box)
        finally:
            title("5. Stopping")
            code = box.stop()
        expect("the server stopped by itself with exit code 0", code == 0)
        if problems:
            print(f"\nThe server's log:\n{box.log.read_text(errors='replace')[-3000:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{'Everything' if not problems else 'Not everything'} was as it should be; "
          f"the demo took {time.monotonic() - start:.1f} s.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
