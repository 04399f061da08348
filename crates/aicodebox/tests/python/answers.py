"""An agent that gives the lines of the file `answers`, one per start, and keeps what it was told."""

from aicodebox.adapters.base import AgentAdapter, RunResult

SCRIPT = 'echo x >> starts; n=$(wc -l < starts | tr -d " "); cat > "prompt-$n"; sed -n "${n}p" answers'


class Answers(AgentAdapter):
    name = "answers"
    binary = "sh"
    available_models = ["small"]

    def build_argv(self, req):
        return [self.binary, "-c", SCRIPT]

    def parse_output(self, stdout, req):
        return RunResult(text=stdout.strip(), raw_stdout=stdout, raw_stderr="", exit_code=0, usage={"input_tokens": 7})
