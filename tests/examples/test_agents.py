"""The agents in examples/: what they print, what they leave, what the history says of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import stet
from client.live import Installation, installation
from stet.wire.results import CommitInfo
from stetd.editing.tools.schemas import tool_definitions

EXAMPLES = Path(__file__).parents[2] / "examples"
GREETS = 'def greet(name):\n    print("hello " + name)\n\n\ngreet("you")\n'
#: What stet says where the model's text is not quite the file's.
NEARLY = (
    "old text not found in stet_example.py. The nearest passage is at line 2; line 2 is the first "
    'that differs: the file has "    print("hello " + name)", {} has "{}print("hello, " + name)".\n'
    '2|     print("hello " + name)\n'
    "Send the text exactly as it stands in the file.\n"
)
_numbers = count(1)
#: For each interface, stet's side of the conversation.
STET_SAYS = {
    "chat": [
        "<patches_applied>all</patches_applied>\n",
        "error: patch 1: " + NEARLY.format("oldText", ""),
        'def greet(name):\n    print("hello " + name)\n\n',
        "<patches_applied>all</patches_applied>\n",
    ],
    "responses": [
        "Success. Updated the following files:\nA DIR/stet_example.py\n",
        "error: stet_example.py, hunk 1 (line 3 of the patch): "
        + NEARLY.format("the hunk", "    "),
        GREETS + "\n",
        "Success. Updated the following files:\nM DIR/stet_example.py\n",
    ],
    "anthropic": [
        "<patches_applied>all</patches_applied>\n",
        'error: patch 1: unknown field "old_string" (did you mean "oldText"?). Expected fields: '
        "operation (required), oldText, newText, toClipboard, fromClipboard, reindent.\n"
        'patch 1: unknown field "new_string" (did you mean "newText"?). Expected fields: '
        "operation (required), oldText, newText, toClipboard, fromClipboard, reindent.\n",
        "error: patch 1: " + NEARLY.format("oldText", ""),
        "<patches_applied>all</patches_applied>\n",
    ],
}
POLITE = GREETS.replace('print("hello " + name)', 'print(f"Good morning, {name}.")')


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with installation() as found:
        yield found.base


@pytest.fixture
def place(base: str) -> Installation:
    """A workspace of its own; the daemon serves all of this file."""
    return Installation(base).another(f"w{next(_numbers)}")


def run(place: Installation, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, place.workspace],
        cwd=place.base,
        env=place.environ | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def history(place: Installation) -> list[CommitInfo]:
    endpoint = place.endpoint(control=True)
    with stet.connect(place.workspace, control=True, endpoint=endpoint) as person:
        return list(person.history())


# -- the agent loop


@pytest.mark.parametrize("api", sorted(STET_SAYS))
def test_a_model_errs_is_told_and_gets_it_right(place: Installation, api: str) -> None:
    done = run(place, sys.executable, str(EXAMPLES / "agent_loop.py"), "--api", api)
    assert (0, "") == (done.returncode, done.stderr)
    talk, _, rest = done.stdout.replace(place.workspace, "DIR").partition("\nIn the history")
    said = re.findall(r"^stet:  (.*?)(?=^model: |\Z)", talk, re.MULTILINE | re.DOTALL)
    assert STET_SAYS[api] == said
    assert talk.endswith("model: It says good morning now.\n")
    commits = history(place)
    assert ["undo", "edit", "edit"] == [each.kind for each in commits]
    assert [each.commit for each in commits[1:]] == commits[0].reverts
    assert {("scripted-model", commits[0].session)} == {(c.agent, c.session) for c in commits}
    assert f"Taken back, in the commit {commits[0].commit[:8]}." in rest
    assert [] == os.listdir(place.workspace)


def test_what_the_model_asked_for_stood_in_the_file_before_it_was_taken_back(
    place: Installation,
) -> None:
    assert run(place, sys.executable, str(EXAMPLES / "agent_loop.py")).returncode == 0
    newest_edit, first = history(place)[1:]
    endpoint = place.endpoint(control=True)
    with stet.connect(place.workspace, control=True, endpoint=endpoint) as person:
        assert POLITE == person.read("stet_example.py", at=newest_edit.commit).text
        assert GREETS == person.read("stet_example.py", at=first.commit).text
    # The ids of the model's calls are the request ids: the same call again is not made again.
    assert ["call_4", "call_1"] == [newest_edit.request, first.request]


def test_in_restricted_mode_the_model_is_told_and_nothing_is_taken_back(
    place: Installation,
) -> None:
    assert place.stet("mode", "restricted").returncode == 0
    done = run(place, sys.executable, str(EXAMPLES / "agent_loop.py"))
    assert (0, "") == (done.returncode, done.stderr)
    disabled = (
        "stet:  error: Patch tool is disabled in Restricted mode. "
        "Use request_mode_upgrade to request write access.\n"
    )
    assert disabled in done.stdout
    assert "Taken back" not in done.stdout
    assert [] == history(place)


@pytest.mark.parametrize(
    ("api", "style", "options"),
    [
        ("chat", "openai", {}),
        ("responses", "openai", {"api": "responses", "custom": True}),
        ("anthropic", "anthropic", {}),
    ],
)
def test_the_recorded_calls_are_what_the_schemas_ask_for(
    api: str, style: str, options: dict[str, Any]
) -> None:
    """But for the one that is meant to be wrong."""
    schemas = {}
    for definition in tool_definitions(style, **options):
        inner: Any = definition.get("function", definition)
        schemas[inner.get("name")] = inner.get("parameters") or inner.get("input_schema")
    wrong = [
        call_id
        for call_id, tool, arguments in recorded_calls(api)
        if not jsonschema.Draft202012Validator(schemas[tool]).is_valid(arguments)
    ]
    assert {"anthropic": ["toolu_2"]}.get(api, []) == wrong


def recorded_calls(api: str) -> list[tuple[str, str, Any]]:
    replies = json.loads((EXAMPLES / "recordings" / f"{api}.json").read_text())
    if api == "chat":
        calls = [c for r in replies for c in r["choices"][0]["message"].get("tool_calls", [])]
        named = [(each["id"], each["function"]) for each in calls]
        return [(id_, each["name"], json.loads(each["arguments"])) for id_, each in named]
    if api == "responses":
        items = [i for r in replies for i in r["output"] if i["type"] == "function_call"]
        return [(each["call_id"], each["name"], json.loads(each["arguments"])) for each in items]
    uses = [p for r in replies for p in r["content"] if p["type"] == "tool_use"]
    return [(each["id"], each["name"], each["input"]) for each in uses]


def test_the_scripted_model_refuses_a_conversation_without_the_results_as_real_ones_do() -> None:
    program = (
        "from model_apis import APIS\nfrom scripted_model import BadRequest, ScriptedModel\n"
        "for name, api in APIS.items():\n"
        "    model = ScriptedModel(name, api)\n"
        "    tools = [{'type': 'function', 'name': t} for t in ('patch', 'read', 'apply_patch')]\n"
        "    reply = model.reply(tools, [api.question('?')])\n"
        "    try:\n"
        "        model.reply(tools, [api.question('?'), *api.continuation(reply, [])])\n"
        "    except BadRequest as refused:\n"
        "        print(refused)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=EXAMPLES, capture_output=True, text=True, check=True
    )
    expected = "no result, or more than one, for the tool call {}\n"
    assert done.stdout == "".join(expected.format(i) for i in ("call_1", "call_1", "toolu_1"))


# -- the shell agent


def bridges() -> list[Any]:
    absent = shutil.which("socat") is None and not os.environ.get("CI")
    return [
        pytest.param("socat", marks=pytest.mark.skipif(absent, reason="socat is not installed")),
        "python",
    ]


@pytest.mark.parametrize("bridge", bridges())
def test_bash_errs_is_told_and_gets_it_right(place: Installation, bridge: str) -> None:
    agent = str(EXAMPLES / "shell_agent.sh")
    done = run(place, "bash", agent, STET_EXAMPLE_BRIDGE=bridge)
    assert (0, "") == (done.returncode, done.stderr)
    undo2, undo1, politer, greets = history(place)
    assert ["undo", "undo", "edit", "edit"] == [undo2.kind, undo1.kind, politer.kind, greets.kind]
    assert {("shell-agent", "politer"), ("shell-agent", "a script that greets")} == {
        (each.agent, each.message.partition("\n\n")[2]) for each in (politer, greets)
    }
    assert done.stdout == (
        "<patches_applied>all</patches_applied>\n"
        "refused: old_text_not_found\n"
        "patch 1: old text not found in stet_example.sh. The nearest passage is at line 2; line 2 "
        'is the first that differs: the file has "echo "hello $1"", oldText has '
        '"echo "hello, $1"".\n'
        '2| echo "hello $1"\n'
        "Send the text exactly as it stands in the file.\n"
        "diff --git a/stet_example.sh b/stet_example.sh\n"
        "index 1f194a7..1e60aca 100644\n"
        "--- a/stet_example.sh\n"
        "+++ b/stet_example.sh\n"
        "@@ -1,2 +1,2 @@\n"
        " #!/bin/sh\n"
        '-echo "hello $1"\n'
        '+echo "Good morning, $1."\n'
        "the newest commit: patch stet_example.sh: 1 edit\n"
        f"taken back: {undo1.commit}\n"
        f"taken back: {undo2.commit}\n"
        f"A person sees this with: stet log --session {greets.session}\n"
    )
    assert [] == os.listdir(place.workspace)


def test_the_loop_says_where_it_may_not_work(place: Installation) -> None:
    other = Installation(place.base, "not-allowed")
    os.mkdir(other.workspace)
    done = run(other, sys.executable, str(EXAMPLES / "agent_loop.py"))
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr == (
        f"{other.workspace} is not an allowed workspace, nor inside one. "
        f"The person at the machine can allow it with: stet init {other.workspace}\n"
    )


def test_bash_says_what_keeps_it_from_working(place: Installation) -> None:
    agent = str(EXAMPLES / "shell_agent.sh")
    other = Installation(place.base, "other")
    os.mkdir(other.workspace)
    done = run(other, "bash", agent, STET_EXAMPLE_BRIDGE="python")
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr == (
        f"{other.workspace} is not an allowed workspace, nor inside one. "
        f"The person at the machine can allow it with: stet init {other.workspace}\n"
    )
    assert place.stet("mode", "restricted").returncode == 0
    done = run(place, "bash", agent, STET_EXAMPLE_BRIDGE="python")
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr == (
        "Patch tool is disabled in Restricted mode. "
        "Use request_mode_upgrade to request write access.\n"
    )
    place.stop()
    done = run(place, "bash", agent, STET_EXAMPLE_BRIDGE="python")
    assert (3, "") == (done.returncode, done.stdout)
    assert "no daemon listens at" in done.stderr
