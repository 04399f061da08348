"""Runs every check of the Makefile and prints one table: check, passed, failed, skipped (reason).

A check says what it did in its output: the closing line of a test runner, `N passed, N failed` alone on a line, or
nothing (then it counts as one). What it could not do it says as `SKIP name: reason`; a name that docs/skips.md does
not list is a failure. Arguments choose checks; without any, all are run.
"""
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "ci"

# Minutes after which a check is ended: about twice its budget on two cores, with a build from nothing.
CHECKS = {"test": 25, "demo": 5, "lint": 10, "test-agents": 25, "test-clients": 15, "fuzz": 10, "test-image": 25, "bench": 20}

ALL_MINUTES = 54
"""What all checks have together. One that does not fit any more is skipped, and one that is at work then is ended; the
last ones are those that cost most."""

CLEAN_UP_SECONDS = 40
"""What a check has between being asked to end and being killed; containers and an engine take longer than a server."""

SUMMARIES = (
    re.compile(r"Summary \[.*?\] +\d+ tests? run: (?P<passed>\d+) passed(?: \([^)]*\))?(?:, (?P<failed>\d+) failed)?(?:, (?P<hung>\d+) timed out)?"),
    re.compile(r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed"),
    re.compile(r"^(?:\w+: )?(?P<passed>\d+) passed, (?P<failed>\d+) failed(?:, \d+ skipped)?$"),
)
SKIP = re.compile(r"^\s*SKIP ([\w.:-]+): (.+)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Result:
    check: str
    passed: int = 0
    failed: int = 0
    skips: dict[str, str] = field(default_factory=dict)


def read(check: str, output: str, exit_code: int, listed: set[str]) -> Result:
    """What the output of a check says."""
    result = Result(check)
    counted = False
    for line in map(lambda l: COLOUR.sub("", l), output.splitlines()):
        if skip := SKIP.match(line):
            result.skips[skip[1]] = skip[2]
        for summary in SUMMARIES:
            if found := summary.search(line):
                counted = True
                counts = {k: int(v or 0) for k, v in found.groupdict().items()}
                result.passed += counts["passed"]
                result.failed += counts["failed"] + counts.get("hung", 0)
    if not counted and exit_code == 0:
        result.passed = 1
    if exit_code != 0 and result.failed == 0:
        result.failed = 1
    for name in sorted(result.skips.keys() - listed):
        print(f"{check}: the skip {name} is not listed in docs/skips.md", flush=True)
        result.failed += 1
    return result


def run(check: str, listed: set[str], end: float) -> Result:
    log = LOGS / f"{check}.log"
    start = time.monotonic()
    late = Result(check, skips={"hour": f"the {ALL_MINUTES} minutes of all checks were over"})
    if start + 60 > end:
        print(f"== make {check}: no time is left", flush=True)
        return late
    own = CHECKS[check] * 60
    limit = min(own, end - start)
    print(f"== make {check}", flush=True)
    with log.open("wb") as out:
        child = subprocess.Popen(["make", check], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            end_group(child)
            code = 124
            out.write(f"\nended after {limit / 60:.0f} minutes\n".encode())
            if limit < own:
                print(f"   ended after {limit:.0f} s: no time is left", flush=True)
                return late
        except KeyboardInterrupt:
            end_group(child)
            raise
    text = log.read_text(errors="replace")
    result = read(check, text, code, listed)
    print(f"   {'ok' if result.failed == 0 else 'FAILED'} after {time.monotonic() - start:.0f} s", flush=True)
    if result.failed:
        print("\n".join(text.splitlines()[-250:]), flush=True)
    return result


def end_group(leader: subprocess.Popen) -> None:
    """Asks every process of a check to end, and kills what does not; `make` may be gone before those that it started."""
    deadline = time.monotonic() + CLEAN_UP_SECONDS
    try:
        os.killpg(leader.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            leader.poll()
            os.killpg(leader.pid, 0)
            time.sleep(0.1)
        os.killpg(leader.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    leader.wait()


def main() -> int:
    checks = sys.argv[1:] or list(CHECKS)
    listed = set(re.findall(r"^\| `([^`]+)`", (ROOT / "docs" / "skips.md").read_text(), re.MULTILINE))
    LOGS.mkdir(parents=True, exist_ok=True)
    # Whoever ends this ends the check that is at work.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    end = time.monotonic() + ALL_MINUTES * 60
    results = [run(check, listed, end) for check in checks]

    print("\ncheck | passed | failed | skipped (reason)\n--- | --- | --- | ---")
    for r in results:
        reasons = "; ".join(f"{name}: {why}" for name, why in r.skips.items())
        print(f"{r.check} | {r.passed} | {r.failed} | {f'{len(r.skips)} ({reasons})' if reasons else 0}")
    passed, failed = sum(r.passed for r in results), sum(r.failed for r in results)
    print(f"\n{passed} passed, {failed} failed, {sum(len(r.skips) for r in results)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
