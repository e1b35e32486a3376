from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

import haft


@pytest.fixture(scope="session")
def server() -> str:
    """The address of the server that the tests run against."""
    if not os.environ.get("HAFT_SERVER") or not os.environ.get("HAFT_KEY"):
        pytest.skip("HAFT_SERVER and HAFT_KEY name no server: start one with `haft serve`")
    return os.environ["HAFT_SERVER"]


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[haft.Client]:
    """An administrator."""
    with haft.Client() as c:
        yield c


@pytest.fixture(scope="session")
def approver(client: haft.Client) -> Iterator[haft.Client]:
    """Somebody else, who may agree to calls."""
    key = client.keys.issue(name="approver", user="bob", roles=["admin", "approver"])
    with haft.Client(key=key.secret) as c:
        yield c


@pytest.fixture(scope="session")
def stranger(server: str) -> Iterator[haft.Client]:
    """An administrator of another organisation."""
    key = os.environ.get("HAFT_OTHER_KEY")
    if not key:
        pytest.skip("HAFT_OTHER_KEY has no key of another organisation")
    with haft.Client(key=key) as c:
        yield c


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def aclient(server: str, anyio_backend: str) -> AsyncIterator[haft.AsyncClient]:
    async with haft.AsyncClient() as c:
        yield c


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Makes names that no other test has."""
    return lambda prefix: f"{prefix}_{uuid.uuid4().hex[:12]}"
