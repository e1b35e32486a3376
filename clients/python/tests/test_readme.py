"""What the README shows works as it is written."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_its_python_runs(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 3
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "readme.py"
    file.write_text("\n\n".join(blocks))
    spec = importlib.util.spec_from_file_location("readme", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        assert module.value == ["Oslo, day 1: sun", "Oslo, day 2: sun", "Oslo, day 3: sun"]
        assert module.messages[0]["tool_call_id"] == "c1"
        assert Path("short.txt").read_text() == "All is well."
        assert "tool_completed" in capsys.readouterr().out
    finally:
        module.client.close()
