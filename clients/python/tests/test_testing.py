import json
import os
import subprocess
from pathlib import Path

import pytest

from haft.testing import Suite

ODD = "a\u2028b\x85\x7f\ufeff\t\\ \"'{}: # \U0001f600ü\nend"


def test_keys_are_those_of_the_file(tmp_path: Path) -> None:
    suite = Suite(tool=Path("add.sh"), seed=7, cases=[{"name": "first"}])
    suite.case("second", args={"a": 1}, expect={"value": ODD}, tags=["fast"]).case("third")
    suite.write(tmp_path / "add_test.yaml")
    text = (tmp_path / "add_test.yaml").read_text(encoding="utf-8")
    assert json.loads(text) == {
        "tool": "add.sh",
        "seed": 7,
        "cases": [
            {"name": "first"},
            {"name": "second", "args": {"a": 1}, "expect": {"value": ODD}, "tags": ["fast"]},
            {"name": "third"},
        ],
    }
    assert "\u2028" not in text
    assert "\U0001f600" in text


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    for value in (object(), float("nan")):
        with pytest.raises((TypeError, ValueError)):
            Suite().case("x", args={"a": value}).write(tmp_path / "x_test.yaml")


@pytest.mark.skipif("HAFT_BINARY" not in os.environ, reason="needs the haft command: HAFT_BINARY")
def test_the_real_command_runs_a_suite(tmp_path: Path) -> None:
    (tmp_path / "say.py").write_text(
        "def say(text: str, n: int) -> str:\n"
        '    """Say.\n\n    Args:\n        text: What.\n        n: A number.\n    """\n'
        "    return text * n\n"
    )
    suite = Suite(tool="say.py", defaults={"tags": ["fast"]})
    suite.case("right", args={"text": ODD, "n": 2}, expect={"value": ODD * 2})
    suite.case("wrong", args={"text": "b", "n": 2}, expect={"value": "b"})
    suite.write(tmp_path / "suite_test.yaml")
    env = os.environ | {"HAFT_ALLOW_REDUCED": "1"}

    def haft(*args: str) -> tuple[int, str]:
        done = subprocess.run(
            [os.environ["HAFT_BINARY"], "test", *args],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    code, out = haft("--json")
    assert code == 1, out
    assert [(o["name"], o["state"]) for o in json.loads(out)["outcomes"]] == [("right", "passed"), ("wrong", "failed")]
    suite.case("misspelt", arguments={}).write(tmp_path / "suite_test.yaml")
    code, out = haft()
    assert code == 3, out
    assert "suite_test.yaml:" in out
    assert "arguments" in out
