"""What the Python of docs/clients.md and docs/getting-started.md does is what they say, with a scripted model."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import haft

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


@pytest.mark.skipif(os.environ.get("HAFT_FRAMEWORK") == "crewai", reason="the environment of CrewAI has no LangChain")
def test_the_chain_of_getting_started_runs(
    client: haft.Client, approver: haft.Client, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    if not DOCS.exists():
        pytest.skip("this is no clone of the repository")
    page = DOCS.with_name("getting-started.md").read_text()
    (tools,) = re.findall(r"^cat > tools\.py <<'EOF'\n(.*?)^EOF$", page, re.MULTILINE | re.DOTALL)
    (chain,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "chain.py").write_text(chain)
    agent = client.agents.add(fresh("shop"))
    client.secrets.put("SHOP_KEY", "shop-4f9a-1c7e")
    for name, settings in {
        "forecast": haft.Settings(),
        "find_order": haft.Settings(secrets=["SHOP_KEY"]),
        "refund": haft.Settings(requires_approval=True),
    }.items():
        client.tools.put(haft.Draft(source_code=tools, function=name, settings=settings, descriptions_required=True))
        client.agents.attach(agent.id, name)
    key = client.keys.issue(agent=agent.id, user="ann", roles=["admin"])
    (tmp_path / "agent.key").write_text(key.secret + "\n")
    (tmp_path / "agent.key").chmod(0o600)

    def shop(body: dict[str, Any]) -> dict[str, Any]:
        given = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        if given:
            return scripted.says(" / ".join(map(str, given)))
        return scripted.calls(
            ("forecast", {"city": "Oslo", "days": 1}),
            ("find_order", {"number": 17}),
            ("refund", {"number": 17, "amount": 30}),
        )

    env = {k: v for k, v in os.environ.items() if k != "HAFT_KEY"}
    with scripted.serve(script=shop) as model:
        env |= {"HAFT_KEY_FILE": "agent.key", "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k"}
        env["LANGSMITH_TRACING"] = "false"
        run = subprocess.run(
            [sys.executable, "chain.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert run.returncode == 0, run.stderr
    assert model.offered == {"forecast", "find_order", "refund"}
    assert "Oslo, day 1: sun" in run.stdout
    assert "umbrella" in run.stdout
    assert "a person has to agree" in run.stdout
    assert "shop-4f9a-1c7e" not in run.stdout
    (pending,) = approver.approvals.list(state="pending", tool="refund")
    approver.approvals.approve(pending.id)
    assert client.calls.wait(pending.call_id, approval=True).value == "paid back 30.00 for order 17"
