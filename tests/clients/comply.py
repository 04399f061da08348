"""llm-comply, its verdicts in our words."""
import json
import os
import subprocess
import sys
from pathlib import Path

WORDS = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIPPED"}

done = subprocess.run(
    [Path(sys.executable).parent / "llm-comply", "--json", "--format", "openai-chat", "-u", os.environ["GW_BASE"],
     "-k", os.environ["GW_KEY"], "-m", os.environ["GW_MODEL"]],
    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
for result in json.loads(done.stdout)["results"]:
    # A warning is a field that clients expect and do not get.
    faults = result.get("errors", []) + result.get("warnings", [])
    word = "FAIL" if faults and result["status"] == "passed" else WORDS[result["status"]]
    print(f"{word} | llm-comply | {result['name']} | {'; '.join(faults)}")
