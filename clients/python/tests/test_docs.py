"""What docs/clients.md shows works as it is written, against a model that follows a script."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

from . import model as scripted

DOCS = Path(__file__).parents[3] / "docs" / "clients.md"


@pytest.mark.filterwarnings("ignore")
def test_its_python_runs(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not DOCS.exists():
        pytest.skip("this is no clone of the repository")
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    crew = re.findall(r"^```py\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(crew) == 1
    if os.environ.get("HAFT_FRAMEWORK") == "crewai":  # it has an environment of its own
        blocks = blocks[:1] + crew
    file = tmp_path / "shown.py"
    file.write_text("\n\n".join(blocks))
    spec = importlib.util.spec_from_file_location("shown", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with scripted.serve(script=scripted.calculator) as model:
        monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
        for name, value in {"BASE_URL": model.url, "API_KEY": "k", "AGENTS_DISABLE_TRACING": "1"}.items():
            monkeypatch.setenv("OPENAI_" + name, value)
        spec.loader.exec_module(module)
    module.client.close()
    said = re.findall(r"^It is 3\.$", capsys.readouterr().out, re.MULTILINE)
    if blocks[1:] == crew:
        assert said == ["It is 3."]
        return
    assert said == ["It is 3."] * 4
    assert module.ran.calls[0].result.value == 3
