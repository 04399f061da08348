"""Finding JSON in an answer."""

import sys
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from aicodebox.adapters.base import parse_json_response, strip_json_fences


class Fences(unittest.TestCase):
    def test_fences_at_the_edges_go(self):
        for text in ["[1]", " ```json\n[1]\n``` ", "```[1]```", "```JSON\n[1]", "[1]\n```\n"]:
            self.assertEqual(strip_json_fences(text), "[1]", text)
        self.assertEqual(strip_json_fences("```"), "")


class Finding(unittest.TestCase):
    def test_wherever_it_stands(self):
        for text, value in [
            ("3", 3),
            ("null", None),
            ('```json\n{"a": 1}\n```', {"a": 1}),
            ('First\n```json\n{"a": 1}\n```\nthen\n```\n{"b": 2}\n```\nbye', {"b": 2}),
            ('Sure: {"a": "}{\\"", "b": {"c": []}} and so on {"d": 1}', {"a": '}{"', "b": {"c": []}}),
            ("The list [1, [2]] it is", [1, [2]]),
        ]:
            self.assertEqual(parse_json_response(text), (value, None), text)

    def test_no_json_is_said(self):
        for text in ["", "hello", "{not json}", "{" * 100_000, "[" * 100_000 + "]" * 100_000]:
            value, error = parse_json_response(text)
            self.assertIsNone(value)
            self.assertIn("not valid JSON", error)

    def test_the_first_that_validates_wins(self):
        class ValidationError(Exception):
            def __init__(self, message):
                self.message = message

        def validate(value, schema):
            if not isinstance(value, dict):
                raise ValidationError("is not an object")

        fake = types.SimpleNamespace(validate=validate, ValidationError=ValidationError, SchemaError=KeyError)
        with mock.patch.dict(sys.modules, {"jsonschema": fake}):
            text = '```\n{"right": true}\n```\n```\n[1]\n```'
            self.assertEqual(parse_json_response(text, {"type": "object"}), ({"right": True}, None))
            self.assertEqual(
                parse_json_response("[1]", {"type": "object"}),
                (None, "the answer does not match the schema: is not an object"),
            )

    def test_without_the_library_the_schema_is_left_to_the_gateway(self):
        with mock.patch.dict(sys.modules, {"jsonschema": None}):
            self.assertEqual(parse_json_response("[1]", {"type": "object"}), ([1], None))


if __name__ == "__main__":
    unittest.main()
