"""The child images of examples/: each is built and run, those of real agents on a mock model."""
from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
import threading
import urllib.request
from pathlib import Path

import images
from box import free_port
from cases import TOKEN, scratch
from container import Container, Terminal
from engine import ROOT, Engine

EXAMPLES = ROOT / "examples"
AGENTS = ROOT / "tests" / "agents"
sys.path.append(str(AGENTS))

import install  # noqa: E402
from agents import AGENTS as KNOWN, Agent  # noqa: E402
from scenarios import HELLO  # noqa: E402

CONFIGURATION = {"codex": "codex/config.toml", "pi": "pi/models.json", "opencode": "opencode/config/opencode/opencode.json"}
"""Where in the state directory an agent's box has the file that names its provider."""

_lock = threading.Lock()
_mock = None


def mock(folder: Path):
    """The mock model of the agents' tests, started once."""
    global _mock
    with _lock:
        if _mock is None:
            spec = importlib.util.spec_from_file_location("agents_run", AGENTS / "run.py")
            module = importlib.util.module_from_spec(spec)
            sys.modules["agents_run"] = module
            spec.loader.exec_module(module)
            _mock = module.Mock(folder)
        return _mock


def stop_mock() -> None:
    if _mock is not None:
        _mock.stop()


def ask_everywhere(box: Container, port: int, model: str, prompt: str, expected: str) -> None:
    """The same question by /run, chat and MCP."""
    answer = box.request("POST", "/run", {"prompt": prompt}, port=port)
    assert answer.status == 200 and expected in answer.json["text"], f"{answer.text}\n{box.logs()[-1500:]}"
    body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    chat = box.request("POST", "/v1/chat/completions", body, port=port)
    assert chat.status == 200 and expected in chat.json["choices"][0]["message"]["content"], chat.text
    accept = {"Accept": "application/json, text/event-stream", "Host": f"localhost:{port}"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_prompt", "arguments": {"prompt": prompt}}}
    start = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
    begun = box.request("POST", "/mcp", start, port=port, headers=accept)
    assert begun.status == 200, begun.text
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]} if "mcp-session-id" in begun.headers else {}
    headers = {**accept, **session, "MCP-Protocol-Version": "2025-11-25"}
    box.request("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, port=port, headers=headers)
    told = box.request("POST", "/mcp", call, port=port, headers=headers)
    assert told.status == 200 and json.dumps(expected)[1:-1] in told.text or expected in told.text, told.text


def serving(port: int, *more: str, prefix: str = "AICODEBOX") -> list[str]:
    return ["--network", "host", "--env", f"{prefix}_API_MODE=1", "--env", f"{prefix}_API_MODE_PORT={port}",
            "--env", f"{prefix}_API_MODE_HOST=127.0.0.1", "--env", f"{prefix}_API_MODE_TOKEN={TOKEN}",
            "--env", f"{prefix}_MCP_MODE=1", "--env", f"{prefix}_MCP_MODE_TOKEN={TOKEN}", *more]


def of_agent(agent: Agent):
    """The case of the box with this agent."""
    name = f"{agent.name}box"

    def case(engine: Engine) -> None:
        version = re.search(r"^ARG VERSION=(.*)$", (EXAMPLES / name / "Dockerfile").read_text(), re.MULTILINE)[1]
        assert version == install.VERSIONS[agent.package], "another version than that of the agents' tests"
        images.build(engine, name, EXAMPLES / name, ["--build-arg", f"BOX={images.BOX}"])
        with scratch() as folder:
            model = mock(ROOT / ".cache" / "image").address
            (folder / "state").mkdir()
            for text in agent.files.values():
                if agent.name in CONFIGURATION:
                    file = folder / "state" / CONFIGURATION[agent.name]
                    file.parent.mkdir(parents=True)
                    file.write_text(text.replace("@MOCK@", model))
            engine.run("run", "--rm", "--entrypoint", "chown", "--volume", f"{folder}/state:/state", images.BOX,
                       "-R", "aicode", "/state")
            port = free_port()
            more = ["--volume", f"{folder}/state:/home/aicode/.aicodebox",
                    "--env", f"{name.upper()}_DEFAULT_MODEL={agent.models[0]}",
                    "--env", f"AICODEBOX_AVAILABLE_MODELS={','.join(agent.models)}"]
            for key, value in agent.env.items():
                more += ["--env", f"{key}={value.replace('@MOCK@', model)}"]
            with Terminal(engine, name, args=("--version",)) as terminal:
                terminal.wait_for(version)
            with Container(engine, name, *serving(port, *more, prefix=name.upper()), token=TOKEN) as box:
                box.wait_until_up(port)
                # What `docker exec` and HEALTHCHECK start has the names of this image too.
                assert f'"adapter":"{agent.name}"' in box.exec("aicodebox", "healthcheck")
                ask_everywhere(box, port, agent.models[0], "Say hello", HELLO)
                # The state is on the mount, and the user's own.
                kept = [path for path in (folder / "state").rglob("*") if path.is_file() and "private" not in path.parts]
                assert any(agent.name in str(path.relative_to(folder)) for path in kept), kept

    case.__name__ = name
    return case


def a_python_adapter(engine: Engine) -> None:
    images.build(engine, "echobox", EXAMPLES / "python-adapter", ["--build-arg", f"BOX={images.BOX}"])
    port = free_port()
    with Container(engine, "echobox", *serving(port), token=TOKEN) as box:
        box.wait_until_up(port)
        ask_everywhere(box, port, "echo", "say this", "say this")


def a_file_adapter(engine: Engine) -> None:
    images.build(engine, "factbox", EXAMPLES / "toml-adapter", ["--build-arg", f"BOX={images.BOX}"])
    port = free_port()
    with Container(engine, "factbox", *serving(port), token=TOKEN) as box:
        box.wait_until_up(port)
        ask_everywhere(box, port, "large", "12345", "model was asked 5 characters.")


def compose(engine: Engine) -> None:
    """The compose file as it is, but for the port and a mark: the box becomes healthy, and its token is that of the file."""
    socket, port = engine.env.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://"), free_port()
    with scratch() as folder:
        shutil.copy(EXAMPLES / "compose.yaml", folder)
        (folder / "api-token").write_text(TOKEN)
        (folder / "api-token").chmod(0o400)
        (folder / "workspace").mkdir()
        os.chown(folder / "workspace", 1234, 1234)
        (folder / "test.yaml").write_text(
            f"services: {{box: {{labels: [{engine.label}], ports: !override ['127.0.0.1:{port}:8080']}}}}\n"
            f"volumes: {{state: {{labels: [{engine.label}]}}}}\nnetworks: {{default: {{labels: [{engine.label}]}}}}\n")

        def ask(*words: str) -> str:
            # The plugin is in the box; an engine resolves paths on its own machine, so they are the same in both.
            done = engine.run("run", "--rm", "--network", "none", "--entrypoint", "docker", "--workdir", str(folder),
                              "--volume", f"{folder}:{folder}", "--volume", f"{socket}:/var/run/docker.sock",
                              "--env", f"BOX={images.BOX}", images.BOX, "compose", "--project-name", folder.name.lower(),
                              "--file", "compose.yaml", "--file", "test.yaml", *words, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        try:
            ask("up", "--detach", "--wait")
            name = ask("ps", "--quiet", "box").strip()
            state = engine.run("inspect", "--format", "{{.State.Health.Status}} {{.HostConfig.Memory}} {{.HostConfig.PidsLimit}}",
                               name).stdout.split()
            assert state == ["healthy", str(4 << 30), "2048"], state
            request = urllib.request.Request(f"http://127.0.0.1:{port}/run", b'{"prompt": "Say hello"}', {
                "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert "demo agent" in json.load(answer)["text"]
            assert engine.run("exec", name, "id", "-u", "aicode").stdout == "1234\n"
        finally:
            ask("down", "--volumes")


def kubernetes(engine: Engine) -> None:
    """No cluster is here to take it; at least its YAML is right."""
    program = "import yaml; print(len(list(yaml.safe_load_all(open('/examples/kubernetes/box.yaml')))))"
    done = engine.run("run", "--rm", "--network", "host", "--entrypoint", "bash", "--volume", f"{EXAMPLES}:/examples:ro", images.BOX,
                      "-c", f"pip install --quiet pyyaml >/dev/null 2>&1; python3 -c \"{program}\"", check=False)
    assert done.stdout.strip() == "2", done.stdout + done.stderr


CASES = [a_python_adapter, a_file_adapter, *map(of_agent, KNOWN.values()), compose, kubernetes]
