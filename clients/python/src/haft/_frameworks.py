"""Tools in the form of agent frameworks: one thin function for each.

They take the common description of a tool (name, description, parameters, parallel, call) and know
nothing of servers. A framework is imported when it is asked for, and needs not be installed before.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import keyword
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ._errors import HaftError, InvalidError

if TYPE_CHECKING:
    from agents import FunctionTool
    from crewai.tools import BaseTool as CrewTool
    from langchain_core.tools import BaseTool
    from pydantic_ai import Tool as PydanticTool
    from smolagents import Tool as SmolTool


class Described(Protocol):
    """A tool as a model sees it, and how it is called."""

    @property
    def name(self) -> str:
        """What the model calls it."""

    @property
    def description(self) -> str:
        """What the model reads."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""

    @property
    def parallel(self) -> bool:
        """Whether it may run beside others."""

    @property
    def call(self) -> Any:
        """Calls it with its arguments by name, and gives an Outcome, or one to be awaited."""

    @property
    def awaited(self) -> bool:
        """Whether call has to be awaited."""


def _framework(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidError(f"{package} is not installed: pip install {package}") from None


def langchain(tools: Sequence[Described]) -> list[BaseTool]:
    """Tools of LangChain and LangGraph. A call that fails is a ``ToolMessage`` with the status error."""
    core = _framework("langchain_core.tools", "langchain-core")
    base: type[BaseTool] = core.BaseTool

    class HaftTool(base):  # type: ignore[misc]
        tool: Any
        handle_tool_error: Any = True
        response_format: Any = "content_and_artifact"

        # Without parameters of their own, so that no argument of a tool is taken for one.
        def _run(self, /, **arguments: Any) -> Any:
            if self.tool.awaited:
                raise TypeError(f"{self.name} is a tool of an AsyncClient: use ainvoke, or a haft.Client")
            return _answer(self.tool.call(arguments))

        async def _arun(self, /, **arguments: Any) -> Any:
            return _answer(await _awaited(self.tool, arguments))

    def _answer(outcome: Any) -> Any:
        if outcome.failed:
            raise core.ToolException(outcome.text)
        return outcome.text, outcome.result

    return [HaftTool(name=t.name, description=t.description, args_schema=t.parameters, tool=t) for t in tools]


def openai_agents(tools: Sequence[Described]) -> list[FunctionTool]:
    """Tools of the OpenAI Agents SDK. A call that fails is a text for the model, as the SDK's own are."""
    made: type[FunctionTool] = _framework("agents", "openai-agents").FunctionTool

    def one(tool: Described) -> FunctionTool:
        async def invoke(_: Any, text: str) -> str:
            try:
                arguments = json.loads(text or "{}")
            except (ValueError, RecursionError):
                arguments = None
            if not isinstance(arguments, dict):
                return "Error (invalid_arguments): the arguments are no JSON object"
            return str((await _awaited(tool, arguments)).text)

        return made(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.parameters,
            on_invoke_tool=invoke,
            strict_json_schema=False,  # the server fits the arguments to the schema
        )

    return [one(t) for t in tools]


def pydantic_ai(tools: Sequence[Described]) -> list[PydanticTool[Any]]:
    """Tools of Pydantic AI. A call that fails is a ``ToolFailed``, which the model sees."""
    framework = _framework("pydantic_ai", "pydantic-ai-slim")

    def one(tool: Described) -> PydanticTool[Any]:
        async def run(**arguments: Any) -> Any:
            outcome = await _awaited(tool, arguments)
            if outcome.failed:
                raise framework.exceptions.ToolFailed(outcome.text)
            return framework.ToolReturn(outcome.text, metadata=outcome.result)

        made: PydanticTool[Any] = framework.Tool.from_schema(
            run, tool.name, tool.description, tool.parameters, sequential=not tool.parallel
        )
        return made

    return [one(t) for t in tools]


def crewai(tools: Sequence[Described]) -> list[CrewTool]:
    """Tools of CrewAI. A call that fails is a ``ToolFailure``: after an exception CrewAI would call once more."""
    base: type[CrewTool] = _framework("crewai.tools", "crewai").BaseTool
    failure: Any = _framework("crewai.tools.tool_failure", "crewai>=1.15").ToolFailure
    model: Any = _framework("pydantic", "pydantic").BaseModel

    class HaftTool(base):  # type: ignore[misc]
        tool: Any
        cache_function: Any = _never  # the server knows which values may be kept

        # Without parameters of their own, so that no argument of a tool is taken for one.
        def _run(self, /, **arguments: Any) -> Any:
            return _answer(self.tool.call(_present(self.tool, arguments)))

        async def _arun(self, /, **arguments: Any) -> Any:
            return _answer(await _awaited(self.tool, _present(self.tool, arguments)))

    def _answer(outcome: Any) -> Any:
        return failure(message=outcome.text) if outcome.failed else outcome.text

    def arguments(tool: Described) -> Any:
        class Arguments(model):  # type: ignore[misc]
            """Says what the schema of the server says, and leaves it to the server to check it."""

            model_config = {"extra": "allow"}

            @classmethod
            def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
                return _nullable(tool.parameters)

        return Arguments

    if any(tool.awaited for tool in tools):
        raise InvalidError("CrewAI runs its tools in threads: use a haft.Client")
    return [HaftTool(name=t.name, description=t.description, args_schema=arguments(t), tool=t) for t in tools]


def _never(*_: Any) -> bool:
    return False


def _nullable(parameters: dict[str, Any]) -> dict[str, Any]:
    """A schema with null for what may be left out: CrewAI, which changes the schema, has models give every argument."""
    made = copy.deepcopy(parameters)
    for name, schema in made.get("properties", {}).items():
        if name not in made.get("required", []) and isinstance(schema, dict):
            schema.pop("default", None)
            said = {"description": schema.pop("description")} if "description" in schema else {}
            made["properties"][name] = {"anyOf": [schema, {"type": "null"}], **said}
    return made


def _present(tool: Described, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a model gave, without null for those that may be left out."""
    required = tool.parameters.get("required", [])
    return {name: value for name, value in arguments.items() if value is not None or name in required}


#: The types of arguments that smolagents has.
_SMOL = {"string", "boolean", "integer", "number", "array", "object", "null"}


class ToolError(HaftError):
    """A tool failed; the message is what a model reads of it."""

    code = "failed"


def smolagents(tools: Sequence[Described]) -> list[SmolTool]:
    """Tools of smolagents. A call gives the value itself; one that fails is an exception, as the agents expect."""
    base: type[SmolTool] = _framework("smolagents", "smolagents").Tool

    class HaftTool(base):  # type: ignore[misc]
        skip_forward_signature_validation = True
        output_type = "any"

        def __init__(self, tool: Described) -> None:
            super().__init__()
            self.tool = tool
            self.name = re.sub(r"\W", "_", tool.name)
            if not self.name.isidentifier() or keyword.iskeyword(self.name):
                raise InvalidError(f"{tool.name} is no name for smolagents: it takes names of Python")
            self.description = tool.description
            required = tool.parameters.get("required", [])
            properties = tool.parameters.get("properties", {})
            self.inputs = {name: _smol_input(schema, name in required) for name, schema in properties.items()}

        def forward(self, *args: Any, **arguments: Any) -> Any:
            if len(args) > len(self.inputs):
                raise ToolError(f"{self.name} takes {len(self.inputs)} arguments")
            outcome = self.tool.call({**dict(zip(self.inputs, args, strict=False)), **arguments})
            if outcome.failed:
                raise ToolError(outcome.text)
            value = outcome.result.value
            return outcome.text if value is None or not outcome.result.ok else value

    for tool in tools:
        if tool.awaited:
            raise InvalidError("smolagents does not await its tools: use a haft.Client")
    return [HaftTool(tool) for tool in tools]


def _smol_input(schema: Any, required: bool) -> dict[str, Any]:
    """An argument as smolagents describes it: what it has no type for is any."""
    made: dict[str, Any] = dict(schema) if isinstance(schema, dict) else {}
    if made.get("type") not in _SMOL:
        made["type"] = "any"
    made.setdefault("description", made.get("title", "See the description of the tool."))
    if not required:
        made["nullable"] = True
    return made


async def _awaited(tool: Described, arguments: dict[str, Any]) -> Any:
    """Call a tool from a coroutine, one of a blocking client in a thread beside it."""
    if tool.awaited:
        return await tool.call(arguments)
    return await asyncio.to_thread(tool.call, arguments)
