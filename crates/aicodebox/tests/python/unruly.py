"""An adapter whose hooks do what the prompt says."""

import os
import time

from aicodebox.adapters.base import AgentAdapter


class Unruly(AgentAdapter):
    name = "unruly"
    binary = "cat"

    def validate(self, req):
        super().validate(req)
        if req.prompt == "refuse":
            raise ValueError("thinking='wild' is not for this agent: ü")

    def build_argv(self, req):
        if req.prompt == "raise":
            raise KeyError("argv")
        if req.prompt == "no such program":
            return ["no-such-program"]
        if req.prompt.startswith("long argument"):
            return [self.binary, req.prompt]
        if req.prompt.startswith("exit"):
            return ["sh", "-c", "echo partly; echo trouble >&2; exit 3"]
        return [self.binary]

    def parse_output(self, stdout, req):
        if stdout == "hang in parse":
            time.sleep(3600)
        if stdout == "end in parse":
            os._exit(1)
        if stdout == "raise in parse":
            raise RuntimeError("cannot read this")
        return super().parse_output(stdout, req)

    def parse_stream_event(self, line, req):
        if line == "raise in stream":
            raise RuntimeError("cannot read this line")
        if line == "hang in stream":
            time.sleep(3600)
        return super().parse_stream_event(line, req)
