"""Runs what docs/clients.md says, as it stands there: only address, token and model are those of this gateway. The
configurations of desktop programs are read by fastmcp, which takes the same form."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import environments

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "judges"))
from common import BASE, KEY, MODEL, case  # noqa: E402

NAME = "docs"
LIMIT = 60
TEXT = (HERE.parents[1] / "docs" / "clients.md").read_text()
OURS = {"http://127.0.0.1:8080/v1": BASE, "http://localhost:8080/mcp": os.environ["GW_MCP"], "mcp-secret": KEY,
        '"codex"': f'"{MODEL}"', "openai/codex": f"openai/{MODEL}"}
INSPECTOR = "npx @modelcontextprotocol/inspector"


def block(section: str, language: str, index: int = 0) -> str:
    """A block of code below a heading."""
    part = TEXT.split(f"\n### {section}\n")[1].split("\n### ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", part, re.MULTILINE | re.DOTALL)[index]


def ours(code: str) -> str:
    for theirs, mine in OURS.items():
        code = code.replace(theirs, mine)
    return code


def output(*argv: object, **env: str) -> str:
    done = subprocess.run([str(word) for word in argv], env={**os.environ, "TOKEN": KEY, **env}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout[-1500:]}"
    return done.stdout


def shell(code: str) -> str:
    return output("bash", "-euo", "pipefail", "-c", ours(code))


def python(client: str, code: str, **env: str) -> str:
    return output(environments.python(client) / "python", "-c", ours(code), **env)


def configured(section: str, index: int, change=lambda server: None) -> str:
    """What the tool says when fastmcp is given that configuration."""
    config = json.loads(ours(block(section, "json", index)))
    change(config["mcpServers"]["aicodebox"])
    code = f"""
import asyncio
from fastmcp import Client
async def main():
    async with Client({config!r}) as client:
        print((await client.call_tool("run_prompt", {{"prompt": "Say hello"}})).data.text)
asyncio.run(main())
"""
    return python("fastmcp", code)


def on_this_machine(server: dict) -> None:
    folder = Path("desktop").resolve()
    folder.mkdir()
    mine = {name: os.environ[name] for name in ("STUB_PYTHON", "STUB_AGENT", "STUB_LOG")}
    server["env"] |= {**mine, "AICODEBOX_ADAPTER": str(HERE / "stub.toml"), "AICODEBOX_WORKSPACE": str(folder),
                      "HOME": str(folder), "PATH": f"{Path(os.environ['AICODEBOX_BINARY']).parent}:{os.environ['PATH']}"}


@case(NAME, "curl")
def _():
    whole, streamed = (part for part in block("curl", "sh").split("\n\n"))
    said = json.loads(shell(whole.replace("curl ", "curl -sS ")))
    assert said["choices"][0]["message"]["content"].startswith("hello"), said
    said = shell(streamed.replace("curl ", "curl -sS "))
    assert '"content":"hello' in said and said.rstrip().endswith("data: [DONE]"), said[-500:]


@case(NAME, "OpenAI SDK of Python")
def _():
    assert python("openai", f"TOKEN = {KEY!r}\n" + block("OpenAI SDKs", "python")).startswith("hello")


@case(NAME, "OpenAI SDK of Node")
def _():
    script = Path("sdk.mjs").resolve()
    script.write_text(f"const TOKEN = {KEY!r};\n" + ours(block("OpenAI SDKs", "js")))
    said = output(os.environ["NODE"], "--import", HERE / "resolve.mjs", script)
    assert said.startswith("hello") and "agent" in said, said


@case(NAME, "LiteLLM")
def _():
    code = block("LiteLLM", "python").replace("litellm.completion(", "answer = litellm.completion(")
    code = f"TOKEN = {KEY!r}\n{code}\nprint(answer.choices[0].message.content)"
    assert python("litellm", code, LITELLM_LOCAL_MODEL_COST_MAP="True").startswith("hello")


@case(NAME, "the configuration for Claude Desktop, on this machine")
def _():
    assert "hello" in configured("Claude Desktop", 0, on_this_machine)


@case(NAME, "the configuration for Cursor")
def _():
    assert "hello" in configured("Cursor", 0)


@case(NAME, "the token in the address")
def _():
    address = re.search(r"`(http://localhost:8080/mcp\?apiToken=[^`]*)`", TEXT)[1]

    def change(server: dict) -> None:
        del server["headers"]
        server["url"] = ours(address)

    assert "hello" in configured("Cursor", 0, change)


@case(NAME, "MCP Inspector")
def _():
    package = Path(os.environ["NODE_CLIENTS"]) / "node_modules" / "@modelcontextprotocol" / "inspector"
    bins = json.loads((package / "package.json").read_text())["bin"]
    program = package / (bins if isinstance(bins, str) else bins["mcp-inspector"])
    code = block("MCP Inspector", "sh")
    assert INSPECTOR in code
    assert "hello" in shell(code.replace(INSPECTOR, f'"$NODE" "{program}"'))


@case(NAME, "fastmcp")
def _():
    head, body = block("Python with fastmcp", "python").split("\ntransport = ")
    body = "\n".join(f"    {line}" for line in f"transport = {body}".splitlines())
    said = python("fastmcp", f"import asyncio\n{head}\nasync def main():\n{body}\nasyncio.run(main())")
    assert said.startswith("hello"), said


@case(NAME, "curl for MCP")
def _():
    assert "hello" in shell(block("curl for MCP", "sh").replace("curl ", "curl -sS "))
