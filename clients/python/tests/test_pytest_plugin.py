import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HAFT = r"""
import json, re, sys
args = sys.argv[1:]
assert args[0] == "test" and args[-2:] == ["--", "tool_test.yaml"], args
open("asked", "a").write(json.dumps(args) + "\n")
names = ["fine", "odd (+1) name", "left out", "broken", "sometimes"]
if "--list" in args:
    listed = [{"file": "tool_test.yaml", "line": i + 3, "name": n} for i, n in enumerate(names)]
    listed[0]["tags"] = ["fast"]
    print(json.dumps(listed + [{"file": "tool_test.yaml", "line": 1, "name": "generated", "generated": True}]))
    sys.exit(0)
chosen = re.compile(args[args.index("--run") + 1])
states = dict(zip(names, ["passed", "passed", "skipped", "failed", "flaky"])) | {"generated/t/1 valid": "passed"}
faults = [{"what": "value", "text": "values differ\n- 1\n+ 2"}]
bad = ("failed", "flaky")
print(json.dumps({"outcomes": [
    {"file": "tool_test.yaml", "name": n, "state": s, "why": "no network", "faults": faults if s in bad else []}
    for n, s in states.items() if chosen.search("tool_test.yaml/" + n)]}))
sys.exit(1)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    command = tmp_path / "bin" / "haft"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable} -I\n{HAFT}")
    command.chmod(0o755)
    (tmp_path / "tool_test.yaml").write_text("tool: tool.py\ncases:\n- name: fine\n")
    (tmp_path / "other_test.yaml").write_text("somebody: else's\n")
    return tmp_path


def run(project: Path, *args: str, command: str = "bin/haft") -> tuple[int, str]:
    """Run pytest in a process of its own, as people do."""
    env = os.environ | {"HAFT_COMMAND": str(project / command), "PYTEST_ADDOPTS": ""}
    plugin = [] if _installed() else ["-p", "haft.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *plugin, *args],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(e.value == "haft.pytest_plugin" for e in entry_points(group="pytest11"))


def asked(project: Path) -> list[list[str]]:
    return [json.loads(line) for line in (project / "asked").read_text().splitlines()]


def test_each_case_is_a_test(project: Path) -> None:
    code, out = run(project)
    assert code == 1, out
    assert "2 failed, 3 passed, 1 skipped" in out
    assert "tool_test.yaml:6: broken" in out
    assert "value: values differ\n- 1\n+ 2" in out
    assert "sometimes flaky" in out
    assert "no network" in out
    assert "runtest" not in out  # no lines of the plug-in
    assert len(asked(project)) == 2  # one list, and one run for all cases


def test_only_selected_cases_run(project: Path) -> None:
    code, out = run(project, "-k", "odd")
    assert code == 0, out
    assert "1 passed, 5 deselected" in out
    assert "generated" not in asked(project)[1][asked(project)[1].index("--run") + 1]


def test_tags_are_keywords(project: Path) -> None:
    code, out = run(project, "-k", "fast", "--haft-args", "--repeat 2")
    assert code == 0, out
    assert "1 passed" in out
    assert "--repeat" in asked(project)[1]


def test_a_file_can_be_named(project: Path) -> None:
    code, out = run(project, "tool_test.yaml::generated")
    assert code == 0, out
    assert "1 passed" in out


def test_it_can_be_turned_off(project: Path) -> None:
    code, out = run(project, "--no-haft")
    assert code == 5, out
    assert not (project / "asked").exists()


def test_a_file_in_json_is_collected(project: Path) -> None:
    (project / "tool_test.yaml").write_text('{\n  "tool": "tool.py",\n  "cases": [{"name": "fine"}]\n}\n')
    code, out = run(project, "-k", "fine")
    assert code == 0, out
    assert "1 passed" in out


def test_no_command(project: Path) -> None:
    code, out = run(project, command="bin/none")
    assert code == 2, out
    assert "install haft" in out


def test_a_command_that_fails(project: Path) -> None:
    (project / "bin" / "haft").write_text("#!/bin/sh\necho 'tool_test.yaml:2:1: a case has no field x' >&2; exit 3\n")
    code, out = run(project)
    assert code == 2, out
    assert "tool_test.yaml:2:1: a case has no field x" in out


def test_an_error_in_json(project: Path) -> None:
    error = '{"error": {"code": "invalid", "message": "tool_test.yaml:2:1: a case has no field x"}}'
    (project / "bin" / "haft").write_text(f"#!/bin/sh\necho '{error}'; exit 3\n")
    code, out = run(project)
    assert code == 2, out
    assert "tool_test.yaml:2:1: a case has no field x" in out
    assert "TypeError" not in out


@pytest.mark.skipif("HAFT_BINARY" not in os.environ, reason="needs the haft command: HAFT_BINARY")
def test_the_real_command(tmp_path: Path) -> None:
    (tmp_path / "add.sh").write_text(
        "#!/bin/bash\n# Add.\n#\n# Args:\n#   a (integer): One.\n#   b (integer): Another.\necho $((ARG_A + ARG_B))\n"
    )
    (tmp_path / "add_test.yaml").write_text(
        "cases:\n"
        "- {name: right, args: {a: 1, b: 2}, expect: {check: ['string(value) == \"3\"']}}\n"
        "- {name: wrong, args: {a: 1, b: 2}, expect: {check: ['string(value) == \"4\"']}}\n"
    )
    os.environ.setdefault("HAFT_ALLOW_REDUCED", "1")
    code, out = run(tmp_path, "--haft", os.environ["HAFT_BINARY"])
    assert code == 1, out
    assert "1 failed, 1 passed" in out
    assert "add_test.yaml:3: wrong" in out
