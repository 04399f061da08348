"""make demo: builds aicodebox, starts the API with the built-in demo agent, and shows a run, a failing and a cancelled one,
and as they come its events and a streamed chat.

Needs no key and no network. Exits with 1 when something is not as it should be.
"""
from __future__ import annotations

import json
import shutil
import signal
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


def say_command(box: Box, method: str, path: str, body: dict | None, *flags: str) -> None:
    """Prints a request as the curl command that does the same."""
    words = [*flags, *[f"-X {method}"] * (method == "DELETE"), f"'http://127.0.0.1:{box.port}{path}'"]
    words += [f"--json '{json.dumps(body)}'"] * (body is not None)
    say(f"$ curl {' '.join(words)}")


def show(box: Box, method: str, path: str, body: dict | None = None) -> Answer:
    """Sends a request, prints it, and prints the answer."""
    say_command(box, method, path, body)
    answer = box.request(method, path, body)
    for line in json.dumps(answer.json, indent=2, ensure_ascii=False).splitlines():
        say(line)
    return answer


def follow(box: Box, method: str, path: str, body: dict | None = None) -> list[tuple[float, str]]:
    """The same for an answer that comes in pieces: prints each line with the time when it came, in seconds."""
    say_command(box, method, path, body, "-N")
    start, lines = time.monotonic(), []
    for line in box.lines(method, path, body):
        lines.append((time.monotonic() - start, line))
        say(f"{lines[-1][0]:5.2f} s  {line if len(line) <= 150 else line[:149] + '…'}")
    return lines


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

    title("5. The events of a run, as they come")
    run = show(box, "POST", "/run", {"prompt": "demo:words", "async": True}).json.get("runId", "")
    lines = follow(box, "GET", f"/run/{run}/events")
    deltas = [at for at, line in lines if line == "event: delta"]
    expect("the answer came in pieces, while the agent wrote it", len(deltas) >= 3 and deltas[-1] - deltas[0] > 0.5)
    expect("the outcome is the last event", [line for _, line in lines if line.startswith("event: ")][-1:] == ["event: outcome"])

    title("6. A chat in OpenAI's words, streamed")
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "demo:words"}]}
    lines = follow(box, "POST", "/v1/chat/completions", body)
    chunks = [at for at, line in lines if '"content":' in line]
    expect("it came in pieces too", len(chunks) >= 3 and chunks[-1] - chunks[0] > 0.5)
    expect("it says where it ends", lines[-1:] and lines[-1][1] == "data: [DONE]")


def main() -> int:
    # A demo that is told to end still stops its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    title("0. Building (the first build takes minutes: some seven on two cores)")
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
            title("7. Stopping")
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
