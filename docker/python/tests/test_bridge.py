"""The bridge as the gateway sees it: a process, lines in, lines out."""

import json
import os
import subprocess
import sys
import threading
import unittest
from pathlib import Path

HERE = Path(__file__).parent
PATHS = os.pathsep.join([str(HERE.parent), str(HERE)])


class Bridge:
    """One bridge process. Every wait has a deadline: a watchdog kills the process, and the pipe ends."""

    def __init__(self, ref, **env):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aicodebox.bridge", ref],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": PATHS, **env},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.watchdog = threading.Timer(20, self.process.kill)
        self.watchdog.start()
        self.errors = bytearray()
        self.drain = threading.Thread(target=lambda: self.errors.extend(self.process.stderr.read()))
        self.drain.start()
        self.first = self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.drain.join()
        self.watchdog.cancel()
        self.process.stdout.close()
        self.process.stderr.close()

    def send(self, **call):
        self.process.stdin.write(json.dumps(call).encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def call(self, **call):
        self.send(id=1, run=1, **call)
        answer = self.read()
        assert answer["id"] == 1, answer
        return answer.get("ok") or answer["error"]


class Loading(unittest.TestCase):
    def test_the_class_is_introduced(self):
        with Bridge("samples:Plain") as bridge:
            ready = bridge.first["ready"]
            self.assertTrue(ready.pop("version") >= "0.17")
            self.assertEqual(ready, {
                "name": "plain", "binary": "cat", "models": ["small", "large"], "efforts": ["low", "high"],
                "auth_paths": ["/home/me/.plain"],
            })

    def test_a_class_without_a_name_has_that_of_its_class(self):
        with Bridge("samples:Odd") as bridge:
            self.assertEqual(bridge.first["ready"]["name"], "Odd")

    def test_what_cannot_be_loaded_is_said(self):
        for ref, text in [
            ("no.such:Class", "ModuleNotFoundError: No module named 'no'"),
            ("samples:Missing", "the module samples has no Missing"),
            ("samples:NoAdapter", "is no aicodebox.adapters.base.AgentAdapter"),
            ("samples:Broken", "OSError: no such thing"),
            ("samples", "must be package.module:Class"),
        ]:
            with self.subTest(ref), Bridge(ref) as bridge:
                self.assertIn(text, bridge.first["failed"])
                self.assertEqual(bridge.process.wait(), 1)


class Planning(unittest.TestCase):
    def test_argv_and_what_changes_in_the_environment(self):
        with Bridge("samples:Plain", SOME_KEY="k") as bridge:
            self.assertEqual(
                bridge.call(do="plan", request={"prompt": "hi"}),
                {"argv": ["cat", "-"], "set": {"PLAIN_KEY": "k"}, "unset": []},
            )

    def test_set_and_unset_with_everything_printed_out_of_the_way(self):
        with Bridge("samples:Odd", GONE="1") as bridge:
            plan = bridge.call(do="plan", request={"prompt": "hi"})
            self.assertEqual(plan, {"argv": ["odd"], "set": {"NEW": "ünïcode"}, "unset": ["GONE"]})
        self.assertIn(b"printed by a hook", bridge.errors)
        self.assertIn(b"printed by a process of a hook", bridge.errors)

    def test_every_failure_has_its_type(self):
        with Bridge("samples:Odd") as bridge:
            for prompt, type_, text in [
                ("refuse", "refused", "not with me: ü"),
                ("key", "raised", "validate raised KeyError: 'x'"),
                ("exit", "raised", "build_argv raised SystemExit: 3"),
                ("empty", "raised", "build_argv must give a list of words, it gave []"),
                ("number", "raised", "build_argv must give text, it gave 5"),
                ("env", "raised", "build_env must give text, it gave int for 'BAD'"),
            ]:
                with self.subTest(prompt):
                    error = bridge.call(do="plan", request={"prompt": prompt})
                    self.assertEqual(error, {"type": type_, "message": text})
            self.assertEqual(bridge.call(do="plan", request={"prompt": "ok"})["argv"], ["odd"])

    def test_a_bad_call_ends_nothing(self):
        with Bridge("samples:Odd") as bridge:
            bridge.process.stdin.write(b"no json\n[1]\n" + b"[" * 100_000 + b"\n")
            bridge.process.stdin.flush()
            for _ in range(3):
                self.assertEqual(bridge.read()["error"]["type"], "bad_call")
            self.assertEqual(bridge.call(do="dance", request={})["type"], "bad_call")
            self.assertEqual(bridge.call(do="plan", request={"colour": "red"})["type"], "bad_call")
            self.assertEqual(bridge.call(do="plan", request={"prompt": "ok"})["argv"], ["odd"])

    def test_a_hook_that_hangs_or_computes_for_ever_holds_up_nobody(self):
        for prompt in ["hang", "spin"]:
            with self.subTest(prompt), Bridge("samples:Odd") as bridge:
                bridge.send(id=7, do="plan", run=7, request={"prompt": prompt})
                for _ in range(20):
                    self.assertEqual(bridge.call(do="plan", request={"prompt": "ok"})["argv"], ["odd"])
                bridge.send(id=2, do="ping")
                self.assertEqual(bridge.read(), {"id": 2, "ok": {}})
            self.assertEqual(bridge.process.returncode, 0)

    def test_a_long_prompt_passes(self):
        with Bridge("samples:Odd") as bridge:
            self.assertEqual(bridge.call(do="plan", request={"prompt": "ü" * (1 << 20)})["argv"], ["odd"])


class Reading(unittest.TestCase):
    OUTPUT = '{"session": "s1"}\r\n{"text": "{\\"n\\": 1}"}\n{"usage": {"input": 3}}\n'

    def test_everything_that_a_result_says(self):
        with Bridge("samples:Lines") as bridge:
            request = {"json_schema": {"type": "object"}, "event_mode": "full"}
            ok = bridge.call(do="parse", request=request, stdout=self.OUTPUT)
            self.assertEqual(ok, {
                "text": '{"n": 1}', "session_id": "s1", "usage": {"input": 3}, "parsed": {"n": 1},
                "parse_error": None, "provider_error": None, "events_dropped": 0,
                "events": [["unknown", '{"session":"s1"}'], ["unknown", '{"text":"{\\"n\\": 1}"}'],
                           ["unknown", '{"usage":{"input":3}}']],
            })

    def test_errors_of_the_provider_and_of_the_schema(self):
        with Bridge("samples:Lines") as bridge:
            ok = bridge.call(do="parse", request={"json_schema": {}}, stdout='{"error": "401 no key"}\n')
            self.assertEqual(ok["provider_error"], "401 no key")
            request = {"json_schema": {"type": "object"}}
            bridge.send(do="close", run=1)
            ok = bridge.call(do="parse", request=request, stdout='{"text": "no"}\n')
            self.assertIn("not valid JSON", ok["parse_error"])
            self.assertNotIn("parsed", ok)

    def test_the_request_is_one_object_from_plan_to_parse(self):
        with Bridge("samples:Lines") as bridge:
            bridge.call(do="plan", request={"prompt": "x"})
            note = '{"text": "note"}\n'
            self.assertEqual(bridge.call(do="parse", stdout=note)["text"], "from build_argv")
            bridge.send(do="close", run=1)
            self.assertEqual(bridge.call(do="parse", stdout=note)["type"], "unknown_run")
            self.assertEqual(bridge.call(do="parse", stdout=note, request={})["text"], "no note")

    def test_what_json_cannot_say(self):
        with Bridge("samples:Odd") as bridge:
            def parse(stdout, **request):
                bridge.send(do="close", run=1)
                return bridge.call(do="parse", request=request, stdout=stdout)

            self.assertEqual(parse("a\r\nb\rc")["text"], repr("a\nb\nc"))
            self.assertEqual(parse("none")["message"], "parse_output must give a RunResult, it gave NoneType")
            self.assertEqual(parse("surrogate")["text"], "a?b")
            self.assertEqual(parse("nan")["type"], "raised")
            full = parse("x", event_mode="full")
            self.assertEqual(full["events"][0], ["a", '{"type":"a"}'])
            self.assertEqual((len(full["events"]), full["events_dropped"]), (2, 2))

    def test_lines_one_by_one(self):
        with Bridge("samples:Lines") as bridge:
            ok = bridge.call(do="lines", request={}, lines=['{"text": "a"}', '{"other": 1}', '{"text": "ü"}'])
            self.assertEqual([event["text"] for event in ok["events"]], ["a", "ü"])
            ok = bridge.call(do="lines", lines=['{"text": "b"}', "no json", '{"text": "c"}'])
            self.assertEqual([event["text"] for event in ok["events"]], ["b"])
            self.assertIn("parse_stream_event raised JSONDecodeError", ok["error"])


if __name__ == "__main__":
    unittest.main()
