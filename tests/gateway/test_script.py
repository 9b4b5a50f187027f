"""The scripted provider: the same answers as the double, without a service."""

import json

import pytest

from corral.gateway.call import FREE, Message, ProviderSettings, Rejected, Request, Tool, Usage
from corral.gateway.providers import anthropic, scripted
from corral.testing.model import serve_model

SHELL = Tool("shell", "", {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})


def _request(*messages: Message, tools: list[Tool] | None = None) -> Request:
    return Request("default", "You work.", list(messages), [SHELL] if tools is None else tools, 100)


def _user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _result(text: str, call: str = "t") -> Message:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}


async def _conversation(prompt: str) -> list[str]:
    """What the model asks for and says in one turn; each command's output is `<command>`."""
    provider = scripted.create_provider(ProviderSettings())
    messages, seen = [_user(prompt)], []
    while True:
        reply = await provider.call(_request(*messages))
        calls = [block for block in reply.content if block["type"] == "tool_use"]
        seen += [str(block.get("text") or block["input"]["command"]) for block in reply.content]
        if not calls:
            return seen
        assert reply.stop == "tool_use"
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": f"<{call['input']['command']}>"}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]


@pytest.mark.parametrize(
    ("prompt", "seen"),
    [
        ("hello", ["echo step-0", "Done: <echo step-0>"]),
        ("[[fake:tool_calls=0]] hi", ["Done:"]),
        ("[[fake:tool_calls=3]]", ["echo step-0", "echo step-1", "echo step-2", "Done: <echo step-2>"]),
        ("[[fake:tool_calls=1]] [[fake:parallel=2]] [[fake:command=x {n}-{i}]]", ["x 0-0", "x 0-1", "Done: <x 0-1>"]),
        ("do [[fake:command=echo {prompt}]] [[fake:answer={n} of {prompt}: {tool}]]",
         ["echo do", "1 of do: <echo do>"]),
        ("[[fake:say=working on {prompt}{n}]]", ["working on 0", "echo step-0", "Done: <echo step-0>"]),
        ('[[fake:script=[{"calls": [{"command": "a"}, {"command": "b"}]}, {"text": "fin {tool}"}]]]',
         ["a", "b", "fin <b>"]),
        ("[[fake:command=cat [ab]*]] [[fake:answer=]]", ["cat [ab]*"]),
        ("[[fake:tool_calls=0]] [[fake:size=25]] [[fake:answer=ab]]", ["ab        0\n        1\n  "]),
    ],
)  # fmt: skip
async def test_turns(prompt: str, seen: list[str]) -> None:
    assert [text.strip() for text in await _conversation(prompt)] == [text.strip() for text in seen]


async def test_a_new_prompt_begins_a_new_turn_and_a_note_beside_a_result_does_not() -> None:
    provider = scripted.create_provider(ProviderSettings())
    noted = _result("OUT")
    noted["content"].append({"type": "text", "text": "hurry"})
    done = await provider.call(_request(_user("go"), noted))
    assert done.content == [{"type": "text", "text": "Done: OUT"}]
    again = await provider.call(_request(_user("go"), noted, _user("again")))
    assert again.stop == "tool_use"
    assert (await provider.call(_request(_user("go"), tools=[]))).stop == "end_turn"


async def test_replies_are_deterministic_free_and_streamed() -> None:
    provider = scripted.create_provider(ProviderSettings())
    shown: list[str] = []

    async def on_delta(text: str) -> None:
        shown.append(text)

    request = _request(_user("[[fake:tool_calls=0]] [[fake:answer=one two three]]"))
    reply = await provider.call(request, on_delta)
    assert reply == await provider.call(request)
    assert "".join(shown) == "one two three"
    assert provider.price("default") == FREE
    calls = [(await provider.call(_request(_user("go")))).content[0]["id"] for _ in range(2)]
    assert calls[0] == calls[1]
    await provider.aclose()


@pytest.mark.parametrize(
    ("directives", "usage"),
    [("[[fake:tokens=3,550,0,12304]]", Usage(input=3, output=550, cache_write=12304)),
     ("[[fake:tokens=3,5]]", Usage(input=3, output=5)), ("[[fake:no_usage=1]]", None)],
)  # fmt: skip
async def test_usage(directives: str, usage: Usage | None) -> None:
    assert (await scripted.create_provider(ProviderSettings()).call(_request(_user(directives)))).usage == usage


@pytest.mark.parametrize(
    "directives",
    ["[[fake:tool_calls=x]]", "[[fake:script=[}]]", "[[fake:script=[3]]]", "[[fake:args=3]]", "[[fake:tokens=1]]",
     "[[fake:delay=x]]", "[[fake:size=x]] [[fake:tool_calls=0]]"],
)  # fmt: skip
async def test_a_directive_that_cannot_be_read_is_refused(directives: str) -> None:
    with pytest.raises(Rejected, match="directive"):
        await scripted.create_provider(ProviderSettings()).call(_request(_user(directives)))


_SCHEMAS = [
    ({"properties": {"cmd": {"type": "array"}}}, {"cmd": ["echo step-0"]}),
    ({"$ref": "#/$defs/in", "$defs": {"in": {"properties": {"a": {"const": 4}}, "required": ["a"]}}}, {"a": 4}),
    ({"properties": {"a": {"$ref": "#/$defs/b"}}, "required": ["a"], "$defs": {"b": {"enum": ["x", "y"]}}}, {"a": "x"}),
    (
        {
            "properties": {
                "n": {"type": "integer", "minimum": 5},
                "o": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                "list": {"type": "array", "minItems": 2, "items": {"type": "boolean"}},
                "s": {"type": ["string", "null"], "minLength": 3},
                "d": {"default": 7},
                "optional": {"type": "string"},
                "description": {},
            },
            "required": ["n", "o", "list", "s", "d", "description"],
        },
        {"n": 5, "o": None, "list": [False, False], "s": "xxx", "d": 7, "description": "run"},
    ),
]


@pytest.mark.parametrize(("schema", "arguments"), _SCHEMAS)
async def test_arguments_fit_the_schema(schema: dict[str, object], arguments: dict[str, object]) -> None:
    provider = scripted.create_provider(ProviderSettings())
    reply = await provider.call(_request(_user("go"), tools=[Tool("t", "", schema)]))
    if "$ref" not in schema:
        assert reply.content[0]["input"] == arguments
    assert json.dumps(reply.content)


@pytest.mark.parametrize(
    ("names", "chosen"), [(["read", "run_shell"], "run_shell"), (["a", "b"], "a"), (["now", "Bash"], "Bash")]
)
async def test_the_tool_most_like_a_shell_is_called(names: list[str], chosen: str) -> None:
    provider = scripted.create_provider(ProviderSettings())
    tools = [Tool(name, "", {"type": "object"}) for name in names]
    assert (await provider.call(_request(_user("go"), tools=tools))).content[0]["name"] == chosen
    assert (await provider.call(_request(_user("[[fake:tool=b]]"), tools=tools))).content[0]["name"] == "b"
    assert (await provider.call(_request(_user("[[fake:bad_tool=1]]"), tools=tools))).content[0][
        "name"
    ] == "no_such_tool"


async def test_the_double_answers_the_same() -> None:
    own = scripted.create_provider(ProviderSettings())
    async with serve_model() as url:
        served = anthropic.create_provider(ProviderSettings(base_url=url))
        for text in ("go", "[[fake:tool_calls=0]] [[fake:unicode=1]]", "[[fake:parallel=2]] [[fake:say=x]]"):
            replies = [await provider.call(_request(_user(text))) for provider in (own, served)]
            bare = [[{**block, "id": ""} for block in reply.content] for reply in replies]
            assert bare[0] == bare[1]
            assert replies[0].stop == replies[1].stop
        await served.aclose()
