"""An agent: a model asks for edits, stet makes them, what stet says goes back to the model.

    stet init DIR
    python examples/agent_loop.py DIR [--api chat|responses|anthropic]

The model is a recording (scripted_model.py): it makes a small file, gets one edit slightly wrong,
is told so, and gets it right. To use a real one, give ``work`` something with the same
``reply``: the tools and the conversation go to the vendor's library as they are.
At the end the person's view of it, and everything that was done is taken back.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import stet
from model_apis import APIS, Api, Outcome, ToolCall
from scripted_model import ScriptedModel

TASK = "Write stet_example.py, which greets somebody, and make the greeting a polite one."
#: Tools that change something. They take a request id: sent again, a call is not made again.
WRITING = {"patch", "patch_file", "patch_block", "apply_patch", "undo"}
MOST_TURNS = 20


class Model(Protocol):
    """Whatever answers a conversation."""

    def reply(
        self, tools: Sequence[Mapping[str, Any]], conversation: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The model's next reply, in the shape of its interface."""


def work(session: stet.Session, model: Model, api: Api, task: str) -> None:
    """Let the model work on a task until it asks for nothing more."""
    tools = session.tools(api.style, **api.options).tools
    conversation = [api.question(task)]
    for _ in range(MOST_TURNS):
        reply = model.reply(tools, conversation)
        if text := api.said(reply):
            print(f"model: {text}")
        calls = api.calls(reply)
        outcomes = [carry_out(session, call) for call in calls]
        conversation += api.continuation(reply, outcomes)
        if not calls:
            return


def carry_out(session: stet.Session, call: ToolCall) -> Outcome:
    """Make one call of the model's; whatever goes wrong is for the model to read."""
    print(f"model: {call.tool} {json.dumps(call.arguments, ensure_ascii=False)}")
    outcome = _carried_out(session, call)
    print(f"stet:  {'error: ' if outcome.is_error else ''}{outcome.text}")
    return outcome


def _carried_out(session: stet.Session, call: ToolCall) -> Outcome:
    if call.trouble is not None:
        return Outcome(call, call.trouble, is_error=True)
    params = call.arguments | ({"request_id": call.id} if call.tool in WRITING else {})
    try:
        result = session.request(call.tool, params)
    except stet.TransportError:
        raise  # nothing that a model could mend
    except stet.StetError as refused:
        return Outcome(call, refused.message, is_error=True)
    return Outcome(call, _for_the_model(result), is_error=False)


def _for_the_model(result: Mapping[str, Any]) -> str:
    """Edits have a text for models, ``read`` has the file's; all else is told as it is."""
    for name in ("message", "text"):
        if isinstance(result.get(name), str):
            return str(result[name])
    return json.dumps(result)


def look_back(session: stet.Session) -> None:
    """What the history has of this session; then all of it is taken back."""
    made = list(session.history(session=session.session, kind="edit"))
    print("\nIn the history, newest first:")
    for commit in made:
        what, _, why = commit.message.partition("\n\n")
        print(f"  {commit.commit[:8]}  {what}{' (' + why + ')' if why else ''}")
    if made:
        undone = session.undo([commit.commit for commit in made], message="the example is over")
        print(f"Taken back, in the commit {(undone.commit or '')[:8]}.")
    print(f"A person sees this with: stet log --session {session.session}")


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description="An agent loop with a scripted model.")
    parser.add_argument("directory", help="an allowed workspace (stet init DIR)")
    parser.add_argument("--api", choices=sorted(APIS), default="chat")
    arguments = parser.parse_args()
    api = APIS[arguments.api]
    name = f"example-{uuid.uuid4().hex[:8]}"
    try:
        with stet.connect(arguments.directory, session=name, agent="scripted-model") as session:
            work(session, ScriptedModel(arguments.api, api), api, TASK)
            look_back(session)
    except stet.StetError as refused:
        sys.exit(refused.message)


if __name__ == "__main__":
    main()
