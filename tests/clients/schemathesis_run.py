"""Schemathesis tries what the API's description allows, and what it forbids, for 90 s ($SECONDS_PER_RUN changes that, and $SEED
what it tries): no finding may remain. schemathesis.toml says where a check asks for what is not so on purpose."""
import os
import re
import subprocess
from pathlib import Path

import environments

HERE = Path(__file__).resolve().parent
done = subprocess.run(
    [environments.python("schemathesis") / "st", "--config-file", HERE / "schemathesis.toml", "run", os.environ["GW_OPENAPI"],
     "--header", f"Authorization: Bearer {os.environ['GW_KEY']}", "--seed", os.environ.get("SEED", "1"), "-n", "25", "--continue-on-failure", "--no-color",
     "--max-time", os.environ.get("SECONDS_PER_RUN", "90")],
    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
tested = re.search(r"Tested: (\d+)", done.stdout)
# A description with nothing in it would have no findings either.
ok = done.returncode == 0 and tested is not None and int(tested[1]) > 15
print("PASS" if ok else "FAIL", "| schemathesis |", f"{tested[1]} operations" if ok else done.stdout[-20_000:])
