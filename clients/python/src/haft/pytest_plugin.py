"""A plug-in of pytest that runs the test files of tools (`haft test`): each case is a test of its own.

pytest finds it by itself where this package is installed. It collects `NAME_test.yaml` and `NAME.test.yaml`, and runs
`haft test` once for each file, with the cases that were selected.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

_NAME = re.compile(r".*[_.]test\.ya?ml$")
# Other programs have test files in YAML, too. Those that a program wrote are JSON.
_CONTENT = re.compile(r'^(cases:|generated:|\s*"(cases|generated)":)', re.MULTILINE)
_TEXT = 4 << 20  # bytes of a test file, as haft reads them


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plug-in."""
    group = parser.getgroup("haft", "tests of tools by haft test")
    group.addoption("--haft", metavar="COMMAND", help="the haft command; HAFT_COMMAND, or haft, if it is not given")
    group.addoption("--haft-args", metavar="ARGS", default="", help="more arguments of haft test, such as '--repeat 3'")
    group.addoption("--no-haft", action="store_true", help="do not collect the test files of haft test")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> HaftFile | None:
    """Collect a test file of tools."""
    if parent.config.getoption("no_haft") or not _NAME.match(file_path.name):
        return None
    with file_path.open("rb") as f:
        text = f.read(_TEXT)
    if not _CONTENT.search(text.decode("utf-8", "replace")):
        return None
    file: HaftFile = HaftFile.from_parent(parent, path=file_path)
    return file


class HaftError(Exception):
    """haft test could not run, or a case failed."""


class HaftFile(pytest.File):
    """A test file of tools."""

    outcomes: dict[str, list[dict[str, Any]]] | None = None
    failed: HaftError | None = None

    def collect(self) -> Iterable[HaftCase]:
        """Return the cases of the file."""
        try:
            listed = self.haft("--list")
        except HaftError as error:
            raise self.CollectError(str(error)) from None
        for case in listed:
            yield HaftCase.from_parent(self, name=case["name"], case=case)

    def haft(self, *args: str) -> Any:
        """Return what haft test prints about the file, as JSON."""
        command = self.config.getoption("haft") or os.environ.get("HAFT_COMMAND") or "haft"
        found = shutil.which(command)
        if found is None:
            raise HaftError(f"there is no command {command}: install haft, or name it with --haft or HAFT_COMMAND")
        try:
            done = subprocess.run(  # noqa: S603 # the command is that of the person who runs the tests
                [found, "test", "--json", *args, "--", self.path.name],
                cwd=self.path.parent,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
            report = json.loads(done.stdout)
        except OSError as error:
            raise HaftError(f"{command} cannot be run: {error.strerror}") from None
        except ValueError:
            raise HaftError(done.stderr.strip() or f"{command} test ended with exit code {done.returncode}") from None
        if isinstance(report, dict) and "error" in report:
            raise HaftError(report["error"]["message"])
        return report

    def outcome(self, case: HaftCase) -> list[dict[str, Any]]:
        """Return what became of a case. The first one that asks runs all that were selected."""
        if self.failed is None and self.outcomes is None:
            try:
                self.run(case)
            except HaftError as error:
                self.failed = error
        if self.failed is not None:
            raise self.failed
        outcomes = self.outcomes or {}
        return outcomes.get(case.name, [])

    def run(self, case: HaftCase) -> None:
        """Run the cases of the file that were selected."""
        chosen = [i for i in case.session.items if isinstance(i, HaftCase) and i.parent is self]
        names = "|".join("generated/.*" if i.generated else re.escape(i.name) for i in chosen)
        args = self.config.getoption("haft_args").split()
        report = self.haft("--run", f"^{re.escape(self.path.name)}/({names})$", *args)
        self.outcomes = {}
        for o in report["outcomes"]:
            name = "generated" if o["name"].startswith("generated/") else o["name"]
            self.outcomes.setdefault(name, []).append(o)


class HaftCase(pytest.Item):
    """A case of a test file."""

    def __init__(self, *, case: dict[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self.line: int = case["line"]
        self.generated: bool = case.get("generated", False)
        self.extra_keyword_matches.update(case.get("tags", []))

    def runtest(self) -> None:
        """Fail if the case failed."""
        assert isinstance(self.parent, HaftFile)  # noqa: S101
        outcomes = self.parent.outcome(self)
        if not outcomes:
            raise HaftError("haft test did not run the case")
        bad = [o for o in outcomes if o["state"] in ("failed", "flaky")]
        if bad:
            raise HaftError("\n".join(_text(o) for o in bad))
        if all(o["state"] == "skipped" for o in outcomes):
            pytest.skip(outcomes[0].get("why", ""))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what differs, and no lines of Python."""
        if isinstance(excinfo.value, HaftError):
            return f"{self.path}:{self.line}: {self.name}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where the case is."""
        return self.path, self.line - 1, self.name


def _text(outcome: dict[str, Any]) -> str:
    """Return what is wrong with a case."""
    where = f" in {outcome['sandbox']}" if outcome.get("sandbox") else ""
    faults = outcome.get("faults") or []
    lines = [f"{outcome['name']}{where} {outcome['state']}"]
    return "\n".join(lines + [f"{f['what']}: {f['text']}" for f in faults])
