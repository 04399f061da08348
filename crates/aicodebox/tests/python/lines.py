"""An agent that prints JSON lines: the prompt is what it prints."""

import json

from aicodebox.adapters.base import AgentAdapter, RunResult, StreamEvent


class Lines(AgentAdapter):
    name = "lines"
    binary = "cat"

    def build_argv(self, req):
        return [self.binary]

    def parse_output(self, stdout, req):
        result = RunResult(text="", raw_stdout=stdout, raw_stderr="", exit_code=0)
        for event in self.parse_events(stdout, req):
            kind = event["type"]
            if kind == "session":
                result.session_id = event["id"]
            elif kind == "text":
                result.text += event["text"]
            elif kind == "usage":
                result.usage = event["usage"]
            elif kind == "error":
                result.provider_error = event["message"]
        self.post_validate_json(result, req)
        return result

    def parse_events(self, stdout, req):
        return [json.loads(line) for line in stdout.splitlines() if line.strip()]

    def parse_stream_event(self, line, req):
        if not line:
            return None
        event = json.loads(line)
        kind = event["type"]
        if kind == "session":
            return StreamEvent(type="session", data={"id": event["id"]})
        if kind == "text":
            return StreamEvent(type="delta", text=event["text"])
        if kind == "usage":
            return StreamEvent(type="stop", data={"usage": event["usage"], "reason": event.get("reason", "stop")})
        if kind == "error":
            return StreamEvent(type="error", text=event["message"])
        return None


class Scripted(Lines):
    """The same, of an agent whose prompt is the script that prints the lines."""

    name = "scripted"
    binary = "sh"


class Lenient(Scripted):
    """The same, of a class that passes over what it cannot read."""

    def parse_stream_event(self, line, req):
        try:
            return super().parse_stream_event(line, req)
        except ValueError:
            return None
