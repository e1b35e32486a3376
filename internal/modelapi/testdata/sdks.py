"""Holds the golden files against the types of the vendors' own packages.

Reads {"answers": [{name, form, legacy, answer, messages}], "tools": [{name, form,
tools}]} and writes {"errors": [text], "dumps": {name: [the answer as the package
writes it]}}. A message passes if the package's types take it, and write back
exactly what they were given: a field that they do not know would be lost.
"""
import json
import sys

from anthropic.types import ContentBlock, Message, MessageParam, ToolParam, ToolResultBlockParam
from google.genai import types as google
from openai.types.chat import (
    ChatCompletion, ChatCompletionFunctionMessageParam, ChatCompletionFunctionToolParam, ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall, ChatCompletionToolMessageParam,
)
from openai.types.responses import FunctionToolParam, Response, ResponseFunctionToolCall
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

adapters = {}


def take(kind, value):
    """The value through a type and back."""
    if kind not in adapters:
        adapters[kind] = TypeAdapter(kind)
    a = adapters[kind]
    return a.dump_python(a.validate_python(value), mode="json", warnings="error")


def same(kind, value):
    got = take(kind, value)
    if got != value:
        raise ValueError(f"{kind.__name__} makes {json.dumps(got)[:500]} of it")


def messages(form, legacy, value):
    """Checks the messages to append."""
    if value is None:
        return
    if form == "openai":
        for m in value:
            same(ChatCompletionFunctionMessageParam if legacy else ChatCompletionToolMessageParam, m)
    elif form == "openai-responses":
        for m in value:
            same(FunctionCallOutput, m)
    elif form == "anthropic":
        take(MessageParam, value)
        if set(value) != {"role", "content"}:
            raise ValueError("a message has a role and content")
        for block in value["content"]:
            same(ToolResultBlockParam, block)
    else:
        # The types of google.genai forbid what they do not know.
        content = google.Content.model_validate_json(json.dumps(value))
        back = json.loads(content.model_dump_json(by_alias=True, exclude_unset=True))
        if back != value:
            raise ValueError(f"Content makes {json.dumps(back)[:500]} of it")


def dumps(form, value):
    """The answer as the package writes it."""
    if form == "openai":
        if isinstance(value, list):
            models = [ChatCompletionMessageFunctionToolCall.model_validate(v) for v in value]
        elif "choices" in value:
            models = ChatCompletion.model_validate(value)
        else:
            models = ChatCompletionMessage.model_validate(value)
    elif form == "openai-responses":
        if isinstance(value, list):
            models = [ResponseFunctionToolCall.model_validate(v) for v in value]
        else:
            models = Response.model_validate(value)
    elif form == "anthropic":
        if isinstance(value, list):
            models = [TypeAdapter(ContentBlock).validate_python(v) for v in value]
        else:
            models = Message.model_validate(value)
    else:
        models = google.GenerateContentResponse.model_validate_json(json.dumps(value))
    out = []
    for options in ({}, {"exclude_none": True}, {"by_alias": True}, {"exclude_unset": True, "by_alias": True}):
        if isinstance(models, list):
            out.append([json.loads(m.model_dump_json(**options)) for m in models])
        else:
            out.append(json.loads(models.model_dump_json(**options)))
    return out


def tools(form, value):
    """Checks a list of tools."""
    for t in value:
        if form == "openai":
            same(ChatCompletionFunctionToolParam, t)
        elif form == "openai-responses":
            same(FunctionToolParam, t)
        elif form == "anthropic":
            same(ToolParam, t)
        elif form == "gemini":
            google.Tool.model_validate_json(json.dumps(t))


def main():
    given = json.load(sys.stdin)
    errors, out = [], {}
    for a in given["answers"]:
        for what, check in (("messages", lambda: messages(a["form"], a["legacy"], a["messages"])),
                            ("answer", lambda: out.__setitem__(a["name"], dumps(a["form"], a["answer"])))):
            try:
                check()
            except Exception as e:
                errors.append(f"{a['name']}, {what}: {type(e).__name__}: {str(e)[:1500]}")
    for t in given["tools"]:
        try:
            tools(t["form"], t["tools"])
        except Exception as e:
            errors.append(f"{t['name']}, {t['form']}: {type(e).__name__}: {str(e)[:1500]}")
    json.dump({"errors": errors, "dumps": out}, sys.stdout)


main()
