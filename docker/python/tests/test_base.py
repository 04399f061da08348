"""The interface: names, fields and defaults that existing adapters rely on."""

import dataclasses
import os
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from aicodebox import adapters
from aicodebox.adapters import base
from aicodebox.adapters.base import AgentAdapter, RunRequest, RunResult, StreamEvent
from aicodebox.shared import runner


def defaults(cls):
    return {
        f.name: f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        for f in dataclasses.fields(cls)
    }


class Types(unittest.TestCase):
    def test_a_request_has_these_fields_in_this_order(self):
        expected = {
            "prompt": "", "workspace": "", "model": None, "system_prompt": None, "append_system_prompt": None,
            "json_schema": None, "output_format": "text", "no_continue": False, "resume": None, "extra_args": [],
            "env": {}, "timeout_seconds": None, "proc_hook": None, "thinking": None, "tools_allowlist": None,
            "no_tools": False, "event_mode": "none",
        }
        self.assertEqual(list(defaults(RunRequest).items()), list(expected.items()))

    def test_a_result_has_these_fields_in_this_order(self):
        missing = dataclasses.MISSING
        expected = {
            "text": missing, "raw_stdout": missing, "raw_stderr": missing, "exit_code": missing, "session_id": "",
            "parsed": None, "parse_error": None, "provider_error": None, "usage": None, "attempts": None,
            "events": [], "event_attempts": None,
        }
        self.assertEqual(list(defaults(RunResult).items()), list(expected.items()))

    def test_a_stream_event_needs_only_its_type(self):
        self.assertEqual(defaults(StreamEvent), {"type": dataclasses.MISSING, "text": "", "data": None})

    def test_the_package_and_the_old_module_give_the_same_types(self):
        self.assertIs(adapters.RunRequest, RunRequest)
        self.assertIs(runner.RunResult, RunResult)


class Defaults(unittest.TestCase):
    def test_hooks_that_nobody_wrote(self):
        adapter, request = AgentAdapter(), RunRequest(prompt="x")
        adapter.binary = "agent"
        adapter.validate(request)
        with self.assertRaises(NotImplementedError):
            adapter.build_argv(request)
        result = adapter.parse_output(" answer \n", request)
        self.assertEqual((result.text, result.raw_stdout, result.exit_code), ("answer", " answer \n", 0))
        self.assertEqual(adapter.parse_events("x", request), [])
        self.assertEqual(adapter.parse_stream_event("line", request), StreamEvent("delta", "line\n"))
        self.assertIsNone(adapter.parse_stream_event("", request))
        self.assertEqual(adapter.interactive_argv("/w"), ["agent"])
        self.assertEqual(adapter.passthrough_argv(["-p", "x"]), ["agent", "-p", "x"])
        self.assertEqual(adapter.auth_paths(), [])
        self.assertEqual(adapter.translate_auth({"A": "b"}), {})

    def test_unknown_words_are_refused(self):
        for request in [RunRequest(output_format="yaml"), RunRequest(event_mode="some")]:
            with self.assertRaises(ValueError):
                AgentAdapter().validate(request)

    def test_the_environment_is_ours_with_the_translated_and_the_requested(self):
        class Translating(AgentAdapter):
            def translate_auth(self, env):
                return {"THEIRS": env["OURS"], "BOTH": "translated"}

        with mock.patch.dict(os.environ, {"OURS": "key"}):
            env = Translating().build_env(RunRequest(env={"BOTH": "requested"}))
        self.assertEqual((env["OURS"], env["THEIRS"], env["BOTH"]), ("key", "key", "requested"))

    def test_post_validation_is_for_good_runs_with_a_schema(self):
        adapter = AgentAdapter()
        result = RunResult('{"n": 1}', "", "", 0)
        adapter.post_validate_json(result, RunRequest())
        self.assertIsNone(result.parsed)
        adapter.post_validate_json(result, RunRequest(json_schema={"type": "object"}))
        self.assertEqual((result.parsed, result.parse_error), ({"n": 1}, None))
        failed = RunResult("no json", "", "", 1)
        adapter.post_validate_json(failed, RunRequest(json_schema={"type": "object"}))
        self.assertIsNone(failed.parse_error)


class Resolution(unittest.TestCase):
    def setUp(self):
        base.reset_adapter_cache()
        self.addCleanup(base.reset_adapter_cache)

    def test_the_variable_names_the_class_and_there_is_one_object(self):
        with mock.patch.dict(os.environ, {"AICODEBOX_ADAPTER": "samples:Plain"}):
            adapter = base.get_adapter()
        self.assertEqual(adapter.name, "plain")
        self.assertIs(base.get_adapter(), adapter)

    def test_what_is_no_adapter_is_a_clear_error(self):
        for ref, text in [
            ("", "package.module:Class"), ("samples", "package.module:Class"), ("samples:", "package.module:Class"),
            ("samples:Nothing", "has no Nothing"), ("samples:NoAdapter", "is no aicodebox.adapters.base.AgentAdapter"),
        ]:
            with self.subTest(ref), self.assertRaisesRegex(RuntimeError, text):
                base.get_adapter(ref)
        with self.assertRaises(ModuleNotFoundError):
            base.get_adapter("no.such:Class")


if __name__ == "__main__":
    unittest.main()
