"""Adapters that behave and misbehave, in the style of those that people have."""

import json
import os
import re
import subprocess
import sys
import time

from aicodebox.adapters.base import AgentAdapter, RunRequest, RunResult, StreamEvent


class Plain(AgentAdapter):
    name = "plain"
    binary = "cat"
    available_models = ["small", "large"]
    available_thinking_levels = ["low", "high"]

    def build_argv(self, req):
        return [self.binary, "-"]

    def translate_auth(self, env):
        return {"PLAIN_KEY": env["SOME_KEY"]} if "SOME_KEY" in env else {}

    def auth_paths(self):
        return ["/home/me/.plain"]


class Lines(AgentAdapter):
    name = "lines"
    binary = "lines"

    def build_argv(self, req):
        req.note = "from build_argv"
        return [self.binary, "--format", req.output_format]

    def parse_output(self, stdout, req):
        records = self.parse_events(stdout, req)
        result = RunResult("", stdout, "", 0)
        for record in records:
            result.text += record.get("text", "")
            result.session_id = record.get("session", result.session_id)
            result.usage = record.get("usage", result.usage)
            result.provider_error = record.get("error", result.provider_error)
        self.post_validate_json(result, req)
        if result.text == "note":
            result.text = getattr(req, "note", "no note")
        return result

    def parse_events(self, stdout, req):
        return [json.loads(line) for line in stdout.splitlines()]

    def parse_stream_event(self, line, req):
        record = json.loads(line)
        if "text" in record:
            return StreamEvent(type="delta", text=record["text"])
        return None


class Odd(AgentAdapter):
    """Does what the prompt says."""

    def validate(self, req):
        if req.prompt == "refuse":
            raise ValueError("not with me: ü")
        if req.prompt == "key":
            raise KeyError("x")

    def build_argv(self, req):
        print("printed by a hook")
        os.system("echo printed by a process of a hook")
        subprocess.run(["cat"], check=True)
        match req.prompt:
            case "exit":
                sys.exit(3)
            case "empty":
                return []
            case "number":
                return ["a", 5]
            case "hang":
                time.sleep(60)
            case "slow":
                time.sleep(0.5)
            case "spin":
                while True:
                    pass
            case "die":
                os._exit(7)
            case "wedge":
                # Holds the interpreter's lock for ages.
                re.match("(a*)*b", "a" * 64)
        return ["odd"]

    def build_env(self, req):
        env = {name: value for name, value in os.environ.items() if name != "GONE"}
        return env | {"NEW": "ünïcode", "BAD": 5} if req.prompt == "env" else env | {"NEW": "ünïcode"}

    def parse_output(self, stdout, req):
        if stdout == "none":
            return None
        if stdout == "surrogate":
            return RunResult("a\ud800b", "", "", 0)
        if stdout == "nan":
            return RunResult("", "", "", 0, usage={"n": float("nan")})
        return RunResult(repr(stdout), "", "", 0)

    def parse_events(self, stdout, req):
        return [{"type": "a"}, "no record", {"n": float("nan")}, {"when": time.gmtime}]

    def parse_stream_event(self, line, req):
        if line == "boom":
            raise RuntimeError("boom")
        return StreamEvent("delta", line)


class Broken(AgentAdapter):
    def __init__(self):
        raise OSError("no such thing")


class NoAdapter:
    pass
