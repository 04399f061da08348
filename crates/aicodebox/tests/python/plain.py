"""The smallest adapter: an agent that prints its answer."""

from aicodebox.adapters.base import AgentAdapter


class Plain(AgentAdapter):
    name = "plain"
    binary = "cat"
    available_models = ["small", "large"]
    available_thinking_levels = ["low", "high"]

    def build_argv(self, req):
        print("building the command line")
        return [self.binary]


class Telling(AgentAdapter):
    """An agent that tells how it was started."""

    name = "telling"
    binary = "sh"

    def build_argv(self, req):
        session = f"resume {req.resume}" if req.resume else "new" if req.no_continue else "continue"
        words = [req.model, req.thinking, req.output_format, session, req.tools_allowlist, req.no_tools]
        script = 'echo "$@"; echo "$OURS|$THEIRS|${GONE-gone}"; pwd; cat'
        return [self.binary, "-c", script, "sh", *map(str, words), *req.extra_args]

    def translate_auth(self, env):
        return {"THEIRS": env["OURS"]}

    def build_env(self, req):
        env = super().build_env(req)
        env.pop("GONE")
        return env


class Nameless(AgentAdapter):
    """A class that says nothing but the command line."""

    def build_argv(self, req):
        return ["cat"]
