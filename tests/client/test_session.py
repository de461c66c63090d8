"""The blocking session against a real socket: what it sends, and what it does about faults."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

import stet
from client.scripted_daemon import (
    HalfReply,
    HangUp,
    Raw,
    Refusal,
    ScriptedDaemon,
    Silence,
    empty_edit,
    in_turn,
    own_directories,
    scripted,
)
from stet import calls
from stet.session import retrying
from stet.session.conversation import Conversation
from stet.terminal.refusals import helpful_command
from stet.version import __version__
from stet.wire.failures import Kind
from stet.wire.framing import Encoding, enclose
from stet.wire.messages import Request, encode_error, encode_result
from stet.wire.results import EditResult

PATCH = [stet.replace("a", "b")]


def opened(daemon: ScriptedDaemon, **options: object) -> stet.Session:
    return stet.connect("/ws", "s1", "tester", endpoint=daemon.endpoint, start=False, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
def test_hello_comes_first_and_says_who_is_there(encoding: str) -> None:
    with scripted(in_turn({"version": "9", "protocol": 1})) as daemon:
        with opened(daemon, secret="x", encoding=encoding) as session:
            assert session.status().version == "9"
        assert daemon.hellos == [
            {
                "protocol": 1,
                "client": {"name": "stet-python", "version": __version__},
                "workspace": "/ws",
                "session": "s1",
                "agent": "tester",
                "secret": "x",
            }
        ]
        assert [(r.method, r.params) for r in daemon.requests] == [("status", {})]
        assert (session.session, session.workspace) == ("s1", "/ws")


def test_a_patch_carries_a_request_id_that_no_other_has() -> None:
    with scripted(in_turn(empty_edit("c" * 40), empty_edit())) as daemon:
        with opened(daemon) as session:
            assert session.patch("f", PATCH, message="why").commit == "c" * 40
            session.patch("f", PATCH)
        first, second = (r.params.pop("request_id") for r in daemon.requests)
        assert len(first) == 32
        assert first != second
        assert daemon.requests[0].params == {
            "path": "f",
            "patches": [{"operation": "replace", "oldText": "a", "newText": "b"}],
            "message": "why",
        }


@pytest.mark.parametrize("fault", [HangUp(), HalfReply(empty_edit("c" * 40))])
def test_a_lost_connection_is_retried_once_with_the_same_request_id(fault: object) -> None:
    with scripted(in_turn(fault, empty_edit("d" * 40))) as daemon:
        with opened(daemon) as session:
            assert session.patch("f", PATCH).commit == "d" * 40
        assert len(daemon.requests) == len(daemon.hellos) == 2
        assert daemon.requests[0].params == daemon.requests[1].params
        assert "request_id" in daemon.requests[0].params


def test_a_call_that_always_loses_the_connection_is_given_up() -> None:
    with scripted(lambda request: HangUp()) as daemon:
        with opened(daemon) as session, pytest.raises(stet.ConnectionLost) as lost:
            session.patch("f", PATCH, request_id="mine")
        assert (lost.value.request_id, lost.value.data["request_id"]) == ("mine", "mine")
        assert len(daemon.requests) == 3


def test_after_a_lost_connection_a_refused_hello_does_not_hide_that_it_may_be_carried_out() -> None:
    def lose(request: Request) -> object:
        daemon.turn_away = Refusal(Kind.OVERLOADED, "too many connections")
        return HangUp()

    with scripted(lose) as daemon, opened(daemon) as session:
        with pytest.raises(stet.ConnectionLost, match="too many connections") as lost:
            session.patch("f", PATCH, request_id="mine")
        assert lost.value.request_id == "mine"
        assert isinstance(lost.value.__cause__, stet.Overloaded)
        assert len(daemon.hellos) == 2, "a refusal is not asked for again"
        with pytest.raises(stet.Overloaded):
            session.patch("f", PATCH)


def test_after_a_lost_connection_a_daemon_that_is_gone_does_not_hide_it_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "PATIENCE", 0.3)

    def lose(request: Request) -> object:
        daemon.stop_listening()
        return HangUp()

    with scripted(lose) as daemon, opened(daemon) as session:
        with pytest.raises(stet.ConnectionLost, match="no stet daemon answers") as lost:
            session.patch("f", PATCH, request_id="mine")
        assert lost.value.request_id == "mine"
        with pytest.raises(stet.DaemonUnreachable):
            session.patch("f", PATCH)


def test_after_a_lost_connection_no_answer_in_time_is_told_as_such() -> None:
    script = in_turn(HangUp(), Silence())
    with scripted(script) as daemon, opened(daemon, timeout=2) as session:
        with pytest.raises(stet.TimedOut):
            session.patch("f", PATCH)
        assert len(daemon.requests) == 2


def test_after_a_lost_connection_the_answer_to_the_call_itself_is_told() -> None:
    script = in_turn(HangUp(), Refusal(Kind.NO_CHANGE))
    with scripted(script) as daemon, opened(daemon) as session, pytest.raises(stet.NoChange):
        session.patch("f", PATCH)


def test_a_connection_that_is_closed_for_what_it_holds_is_no_refusal_of_the_call() -> None:
    script = in_turn(Refusal(Kind.OVERLOADED, nobody=True), empty_edit("c" * 40))
    with scripted(script) as daemon, opened(daemon) as session:
        assert session.patch("f", PATCH).commit == "c" * 40
        assert daemon.requests[0].params == daemon.requests[1].params


def test_a_connection_that_is_closed_right_after_an_answer_does_not_spoil_the_answer() -> None:
    def answer_and_close(request: Request) -> object:
        answer = encode_result(Encoding.MSGPACK, request.id, empty_edit("c" * 40))
        closed = encode_error(Encoding.MSGPACK, None, -32000, "holds", {"kind": "overloaded"})
        return Raw(b"".join(enclose(Encoding.MSGPACK, each) for each in (answer, closed)))

    with scripted(answer_and_close) as daemon, opened(daemon, timeout=None) as session:
        for _ in range(2):
            assert session.patch("f", PATCH).commit == "c" * 40
        assert len(daemon.hellos) == 2


def test_a_request_id_is_sent_as_given() -> None:
    """An empty one, too, which the daemon refuses: with another one nothing is done only once."""
    for call in (calls.undo(request_id=""), calls.observe("stop", request_id="")):
        assert call.params["request_id"] == ""


def test_what_cannot_be_repeated_is_not_sent_twice() -> None:
    unnamed = calls.request("undo", {"request_id": None})
    with scripted(lambda request: HangUp()) as daemon:
        with opened(daemon) as session:
            for call in (calls.clipboard_delete("c"), calls.request("shutdown"), unnamed):
                with pytest.raises(stet.ConnectionLost):
                    session.perform(call)
        assert [r.method for r in daemon.requests] == ["clipboard_delete", "shutdown", "undo"]


def test_an_idle_connection_that_was_cut_is_noticed_before_anything_is_sent() -> None:
    with scripted(lambda request: {"name": "c"}) as daemon, opened(daemon) as session:
        session.clipboard_set("c", "text")
        daemon.hang_up()
        time.sleep(0.05)
        session.clipboard_delete("c")  # not repeatable: must not be lost to the dead connection
        assert [r.method for r in daemon.requests] == ["clipboard_set", "clipboard_delete"]
        assert len(daemon.hellos) == 2


def test_a_session_name_made_up_by_the_daemon_is_kept_after_reconnecting() -> None:
    with scripted(in_turn(HangUp(), {"version": "9", "protocol": 1})) as daemon:
        with stet.connect("/ws", endpoint=daemon.endpoint, start=False) as session:
            session.status()
        assert [hello.get("session") for hello in daemon.hellos] == [None, "made-up"]


GARBAGE = {
    "no frame": b"\x00\x00\x00\x00",
    "no message": b"\x00\x00\x00\x01\xc1",
    "a number": b"\x00\x00\x00\x01\x07",
    "an answer to nothing": b"\x00\x00\x00\x0d\x82\xa2id\x63\xa6result\xc0",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_garbled_reply_is_not_retried_and_the_next_call_reconnects(name: str) -> None:
    script = in_turn(Raw(GARBAGE[name]), {"version": "9", "protocol": 1})
    with scripted(script) as daemon, opened(daemon) as session:
        with pytest.raises(stet.GarbledReply) as garbled:
            session.patch("f", PATCH, request_id="mine")
        assert garbled.value.kind == "garbled_reply"
        assert garbled.value.request_id == "mine"
        assert len(daemon.requests) == 1
        assert session.status().version == "9"
        assert len(daemon.hellos) == 2


def test_a_result_of_another_shape_is_garbled_and_says_which_method() -> None:
    shape = pytest.raises(stet.GarbledReply, match="result of patch has another shape")
    with scripted(in_turn({"commit": 7})) as daemon, opened(daemon) as session, shape as error:
        session.patch("f", PATCH)
    assert helpful_command(error.value, "stet undo") == "stet doctor"


def test_a_refusal_is_raised_as_the_class_of_its_kind() -> None:
    data = {"failures": [{"kind": "old_text_not_unique", "message": "m", "candidates": [3, 9]}]}
    refusal = Refusal(Kind.OLD_TEXT_NOT_UNIQUE, "stands twice", data)
    with scripted(lambda request: refusal) as daemon, opened(daemon) as session:
        with pytest.raises(stet.OldTextNotUnique, match="stands twice") as refused:
            session.patch("f", PATCH)
        assert refused.value.kind == "old_text_not_unique"
        assert refused.value.failures[0].candidates == [3, 9]
        assert len(daemon.requests) == 1


def test_a_refusal_that_names_no_request_ends_the_call() -> None:
    refusal = Refusal(Kind.FRAME_TOO_LARGE, "too large", nobody=True)
    too_large = pytest.raises(stet.FrameTooLarge)
    with scripted(lambda request: refusal) as daemon, opened(daemon) as session, too_large:
        session.patch("f", PATCH)


def test_a_refusal_that_names_no_request_is_no_answer_to_several() -> None:
    refusal = Refusal(Kind.PARSE_ERROR, "no request", nobody=True)
    answers = in_turn(Silence(), refusal, empty_edit("c" * 40), empty_edit("d" * 40))
    with scripted(answers) as daemon, opened(daemon) as session:
        both = session.perform_all([calls.patch("f", PATCH), calls.patch("g", PATCH)])
        assert [done.commit for done in both if not isinstance(done, stet.StetError)] == [
            "c" * 40,
            "d" * 40,
        ]
        sent = [request.params for request in daemon.requests]
        assert sent[:2] == sent[2:]
        assert len(daemon.hellos) == 2


def test_the_one_that_is_too_large_is_refused_and_the_others_are_carried_out() -> None:
    with scripted(lambda request: empty_edit(request.params["path"] * 40)) as daemon:
        with opened(daemon) as session:
            large = calls.patch("x", [stet.overwrite("x" * 17 * 1024 * 1024)])
            batch = [calls.patch("c", PATCH), large, calls.patch("d", PATCH)]
            one, refused, two = session.perform_all(batch)
        assert isinstance(one, EditResult)
        assert isinstance(two, EditResult)
        assert (one.commit, two.commit) == ("c" * 40, "d" * 40)
        assert isinstance(refused, stet.FrameTooLarge)


def test_of_calls_that_wait_the_largest_is_the_one_that_was_too_large() -> None:
    conversation = Conversation(Encoding.JSON)
    for token in ("x", "x" * 9, "xx"):
        conversation.send(calls.patch("a", [stet.overwrite(token)]), token)
    kind = {"kind": Kind.FRAME_TOO_LARGE.value}
    refusal = encode_error(Encoding.JSON, None, -32600, "too large", kind)
    conversation.feed(enclose(Encoding.JSON, refusal))
    token, outcome = conversation.next_outcome() or ("", None)
    assert token == "x" * 9
    assert isinstance(outcome, stet.FrameTooLarge)
    assert [token for _, token, _ in conversation.waiting.values()] == ["x", "xx"]


def test_what_is_always_refused_among_others_is_given_up_with_the_reason() -> None:
    refusal = Refusal(Kind.PARSE_ERROR, "no request", nobody=True)

    def script(request: Request) -> object:
        return Silence() if request.params["path"] == "f" else refusal

    with scripted(script) as daemon, opened(daemon) as session:
        batch = [calls.patch("f", PATCH, request_id="one"), calls.patch("g", PATCH)]
        one, two = session.perform_all(batch)
        assert isinstance(one, stet.ConnectionLost)
        assert isinstance(two, stet.ConnectionLost)
        assert "no request" in one.message
        assert (one.request_id, two.request_id) == ("one", batch[1].request_id)


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
@pytest.mark.parametrize(
    "value",
    [float("inf"), float("nan"), 2**63, b"x", {1: "x"}, {"x"}, [[[[[[[[1]]]]]]]]],
    ids=["infinity", "no number", "too great", "bytes", "a key", "a set", "too deep"],
)
def test_what_cannot_be_sent_is_refused_here_and_the_rest_of_the_batch_goes_on(
    value: object, encoding: str
) -> None:
    with scripted(in_turn(empty_edit("c" * 40))) as daemon:
        with opened(daemon, encoding=encoding) as session:
            batch = [calls.patch("f", PATCH), calls.request("read", {"path": "f", "start": value})]
            with pytest.raises(stet.InvalidParams, match="the params of read cannot be sent"):
                session.perform(batch[1])
            done, refused = session.perform_all(batch)
        assert isinstance(refused, stet.InvalidParams)
        assert not isinstance(done, stet.StetError)
        assert [request.method for request in daemon.requests] == ["patch"]


def test_a_daemon_that_refuses_while_it_is_being_sent_to_is_heard() -> None:
    with scripted(lambda request: None) as daemon, opened(daemon) as session:
        with pytest.raises(stet.FrameTooLarge, match="16777216"):
            session.clipboard_set("c", "x" * 17 * 1024 * 1024)
        assert daemon.requests == []


def test_no_reply_in_time_is_an_error_that_names_the_request() -> None:
    with scripted(lambda request: Silence()) as daemon, opened(daemon) as session:
        session.timeout = 0.2
        with pytest.raises(stet.TimedOut) as late:
            session.patch("f", PATCH, request_id="mine")
        assert late.value.request_id == "mine"


@pytest.mark.parametrize("timeout", [1e7, float("inf")])
def test_a_very_long_time_is_no_limit(timeout: float) -> None:
    with scripted(lambda request: empty_edit()) as daemon, opened(daemon, timeout=timeout) as s:
        assert s.patch("f", PATCH).commit is None


def test_a_daemon_that_stops_is_waited_for_and_asked_again() -> None:
    answers = in_turn(
        Refusal(Kind.SHUTTING_DOWN), Refusal(Kind.SHUTTING_DOWN), empty_edit("e" * 40)
    )
    with scripted(answers) as daemon, opened(daemon) as session:
        assert session.patch("f", PATCH).commit == "e" * 40
        assert len({r.params["request_id"] for r in daemon.requests}) == 1


def test_a_daemon_that_goes_on_stopping_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "PATIENCE", 0.1)
    stopping = scripted(lambda request: Refusal(Kind.SHUTTING_DOWN))
    given_up = pytest.raises(stet.ShuttingDown)
    with stopping as daemon, opened(daemon) as session, given_up:
        session.patch("f", PATCH)


def test_a_daemon_that_is_restarted_by_somebody_else_is_waited_for() -> None:
    with own_directories() as endpoint:
        first = ScriptedDaemon(endpoint, lambda request: HangUp())
        session = stet.connect("/ws", "s1", endpoint=endpoint, start=False)
        first.close()
        later: list[ScriptedDaemon] = []
        script = in_turn(empty_edit("f" * 40))
        restart = threading.Timer(0.3, lambda: later.append(ScriptedDaemon(endpoint, script)))
        restart.start()
        assert session.patch("f", PATCH).commit == "f" * 40
        session.close()
        restart.join()
        later[0].close()


def test_without_a_daemon_and_without_starting_one_it_fails_at_once() -> None:
    unreachable = pytest.raises(stet.DaemonUnreachable, match="no stet daemon answers at")
    began = time.monotonic()
    with own_directories() as endpoint, unreachable:
        stet.connect("/ws", endpoint=endpoint, start=False)
    assert time.monotonic() - began < retrying.PATIENCE / 2


def test_a_result_that_is_null_is_an_answer() -> None:
    with scripted(lambda request: None) as daemon, opened(daemon) as session:
        assert session.request("later", {"request_id": "r"}) is None
        assert len(daemon.requests) == 1


def test_pipelined_calls_get_their_own_answers() -> None:
    def answer(request: Request) -> object:
        return {"name": request.params["name"], "text": "t" * 100_000}

    with scripted(answer) as daemon, opened(daemon) as session:
        names = [f"c{i}" for i in range(200)]
        results = session.perform_all([calls.clipboard_get(name) for name in names])
        assert [r.name for r in results if not isinstance(r, stet.StetError)] == names


def test_a_reply_may_overtake_another() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> object:
        asked.append(request)
        if len(asked) == 1:
            return Silence()
        replies = [
            encode_result(Encoding.MSGPACK, r.id, {"name": r.params["name"], "text": ""})
            for r in reversed(asked)
        ]
        return Raw(b"".join(enclose(Encoding.MSGPACK, reply) for reply in replies))

    with scripted(answer) as daemon, opened(daemon) as session:
        results = session.perform_all([calls.clipboard_get("a"), calls.clipboard_get("b")])
        assert [r.name for r in results if not isinstance(r, stet.StetError)] == ["a", "b"]


def test_in_a_pipeline_only_what_was_not_answered_is_sent_again() -> None:
    script = in_turn({"name": "a", "text": ""}, HangUp(), {"name": "b", "text": ""})
    with scripted(script) as daemon, opened(daemon) as session:
        results = session.perform_all([calls.clipboard_get("a"), calls.clipboard_get("b")])
        assert [r.name for r in results if not isinstance(r, stet.StetError)] == ["a", "b"]
        assert [r.params["name"] for r in daemon.requests] == ["a", "b", "b"]


def test_a_request_larger_than_the_socket_buffers_arrives_whole() -> None:
    text = "line\n" * 2_000_000
    with scripted(lambda request: {"name": "c"}) as daemon, opened(daemon) as session:
        session.clipboard_set("c", text)
        assert daemon.requests[0].params["text"] == text


def test_text_that_cannot_be_sent_is_refused_here_and_the_session_goes_on() -> None:
    with scripted(in_turn({"version": "9", "protocol": 1})) as daemon, opened(daemon) as session:
        with pytest.raises(stet.InvalidParams, match="must be valid Unicode"):
            session.clipboard_set("c", "\ud800")
        assert session.status().version == "9"
        assert [r.method for r in daemon.requests] == ["status"]


def test_history_turns_the_pages() -> None:
    def page(request: Request) -> object:
        here = int(request.params.get("cursor", "0"))
        commit = {"commit": str(here), "parent": None, "time": "", "kind": "edit"}
        return {"commits": [commit], "cursor": str(here + 1) if here < 2 else None}

    with scripted(page) as daemon, opened(daemon) as session:
        assert [c.commit for c in session.history("f", agent="x")] == ["0", "1", "2"]
        assert daemon.requests[2].params == {"path": "f", "agent": "x", "cursor": "2"}


def test_threads_share_a_session() -> None:
    def echo(request: Request) -> object:
        return {"name": request.params["name"], "text": ""}

    with scripted(echo) as daemon, opened(daemon) as session:
        wrong: list[str] = []

        def ask(name: str) -> None:
            wrong.extend(name for _ in range(50) if session.clipboard_get(name).name != name)

        threads = [threading.Thread(target=ask, args=(f"t{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(daemon.hellos) == 1


def test_a_process_forked_while_a_thread_calls_has_the_session_for_itself() -> None:
    called, answered = threading.Event(), threading.Event()

    def answer(request: Request) -> object:
        if request.params["name"] == "slow":
            called.set()
            answered.wait(60)
        return {"name": request.params["name"], "text": ""}

    with scripted(answer) as daemon, opened(daemon) as session:
        calling = threading.Thread(target=session.clipboard_get, args=("slow",))
        calling.start()
        called.wait(60)
        child = os.fork()
        if not child:
            signal.alarm(30)
            os._exit(0 if session.clipboard_get("own").name == "own" else 1)
        assert os.waitpid(child, 0)[1] == 0
        answered.set()
        calling.join()


def test_a_closed_session_says_so() -> None:
    with scripted(lambda request: None) as daemon:
        session = opened(daemon)
        session.close()
        session.close()
        with pytest.raises(stet.ConnectionLost, match="session is closed"):
            session.status()


def test_an_interrupted_call_does_not_leave_its_answer_to_the_next_one() -> None:
    def late(request: Request) -> object:
        if request.params["name"] == "first":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
            interrupted.wait(60)
        return {"name": request.params["name"], "text": ""}

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    interrupted = threading.Event()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with scripted(late) as daemon, opened(daemon) as session:
            with pytest.raises(KeyboardInterrupt):
                session.clipboard_get("first")
            interrupted.set()
            assert session.clipboard_get("second").name == "second"
            assert len(daemon.hellos) == 2
    finally:
        signal.signal(signal.SIGALRM, before)
