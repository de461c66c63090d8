"""The historian's process: reads the engine's messages and acts on them.

The main thread follows the journal, which is quick. Other threads do what takes longer: one writes
Git (:mod:`stetd.repository.git_writer`), one keeps the query index, some answer questions.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import msgspec

from stet.wire.failures import Refused
from stetd import __version__, failpoints
from stetd.config import logs
from stetd.historian.following import Following
from stetd.historian.index.keeping import Indexer
from stetd.historian.index.request_store import RequestStore
from stetd.historian.questions import Library, answer
from stetd.processes import children
from stetd.processes import historian_messages as messages
from stetd.processes.children import Declined, Failed, Message, attach_to_engine, encoded
from stetd.processes.remembered import fingerprints
from stetd.repository.git_writer import GitWriter
from stetd.storage.disk import Disk, SyncFailed
from stetd.storage.priority import BEHIND_ALL, lower_priority
from stetd.storage.progress import Progress

_log = logging.getLogger(__name__)
#: Questions that are answered at a time, beside one long one.
_MAX_QUESTIONS = 4


def main(arguments: Sequence[str]) -> int:
    """Serve the engine at the other end of this descriptor, until the engine is gone."""
    descriptor, level = arguments
    # Even a hanging historian must end with its engine, or it would hold the directories' locks.
    connected = attach_to_engine(descriptor)
    failpoints.engine = os.getppid()
    os.umask(0o077)
    logs.set_up(level)
    sys.setswitchinterval(0.001)
    status = 1
    try:
        Historian(connected, Disk()).serve()
        status = 0
    except Exception as error:  # noqa: BLE001 - another one is started
        _log.error("the historian can't go on: %s", error, exc_info=error)
    finally:
        # Work that threads have not finished may be lost: the journal has all of it.
        os._exit(status)


class Historian:
    """The historian of one engine."""

    def __init__(self, connected: socket.socket, disk: Disk) -> None:
        self._connected = connected
        self._disk = disk
        self._sending = threading.Lock()
        #: The progress of long work, by its question's id.
        self._works: dict[int, Progress] = {}
        self._readers = ThreadPoolExecutor(_MAX_QUESTIONS, thread_name_prefix="stet-read")
        self._workers = ThreadPoolExecutor(
            1, thread_name_prefix="stet-work", initializer=lower_priority, initargs=(BEHIND_ALL,)
        )

    def serve(self) -> None:
        """Handle messages until the engine sends End or is gone."""
        content = children.receive(self._connected)
        if content is None:
            return
        # Another version's message may have other fields.
        if msgspec.msgpack.decode(content, type=messages.Sender).version != __version__:
            self._send(messages.OtherVersion(version=__version__))
            return
        self._begin(msgspec.msgpack.decode(content, type=messages.Begin))
        try:
            while (said := messages.receive(self._connected)) is not None:
                if isinstance(said, messages.End):
                    self._finish()
                    return
                self._handle(said)
        finally:
            self._connected.close()

    def _begin(self, begin: messages.Begin) -> None:
        self._git_writer = GitWriter(self._disk)
        self._git_writer.on_commits = self._committed
        self._git_writer.on_trouble = lambda reason, failures: self._send(
            messages.Trouble(reason=reason, failures=failures)
        )
        self._following = Following(begin, self._git_writer)
        self._following.set_references(self._disk)
        self._indexer = Indexer()
        for name in begin.base.starts:
            self._indexer.follow(os.path.join(begin.state, "workspaces", name))
        self._requests = RequestStore(
            os.path.join(begin.state, "requests.sqlite3"),
            lambda keys: self._send(messages.StoredReplies(ids=fingerprints(keys))),
        )
        self._library = Library(
            self._disk, self._git_writer, begin.settings, self._indexer.follow,
            self._following.trouble_of, self._requests,
        )  # fmt: skip
        self._following.on_forgotten = lambda shadow: self._library.files.pop(shadow, None)
        try:
            self._requests.open()
        except OSError as error:
            _log.error("answered calls are not known at present: %s", error)

    def _finish(self) -> None:
        # Long work may be given up at any point.
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(cancel_futures=True)
        self._indexer.close()
        self._git_writer.close()
        self._following.close()
        self._requests.close()

    def _handle(self, said: messages.ToHistorian) -> None:
        match said:
            case messages.Durable():
                self._following.advance(said.position)
            case messages.Ask():
                self._ask(said)
            case messages.MakeDurable():
                self._make_durable(said)
            case messages.Reconfigured():
                self._library.settings = said.settings
            case messages.Ping():
                self._send(messages.Pong(work=dict(self._works)))

    def _committed(self, shadow: str) -> None:
        self._indexer.follow(shadow)
        self._send(messages.NewCommits(shadow=shadow))

    def _send(self, message: Message) -> None:
        content = encoded(message)
        # If the engine is gone, the main thread notices.
        with self._sending, suppress(OSError):
            self._connected.sendall(content)

    # -- questions

    def _ask(self, asked: messages.Ask) -> None:
        self._following.try_again()
        if not asked.long:
            self._readers.submit(self._answer, asked, Progress())
            return
        progress = self._works[asked.id] = Progress()

        def work() -> None:
            try:
                self._answer(asked, progress)
            finally:
                del self._works[asked.id]

        self._workers.submit(work)

    def _answer(self, asked: messages.Ask, progress: Progress) -> None:
        outcome: messages.Found | Declined | Failed
        try:
            found = msgspec.msgpack.encode(answer(self._library, asked, progress))
            outcome = messages.Found(result=msgspec.Raw(found))
        except Refused as refusal:
            outcome = Declined.of(refusal)
        except BaseException as error:  # noqa: BLE001 - the engine logs it, and answers
            outcome = Failed(reason=repr(error), traceback=traceback.format_exc())
        self._send(messages.Answer(id=asked.id, outcome=outcome))

    # -- checkpoints

    def _make_durable(self, asked: messages.MakeDurable) -> None:
        def say(outcome: messages.Found | messages.Cannot) -> None:
            self._send(messages.Answer(id=asked.id, outcome=outcome))

        self._following.try_again()
        trouble = self._following.trouble_but_of(asked.without)
        if trouble is not None:
            say(messages.Cannot(reason=trouble))
            return
        requests, self._following.requests = self._following.requests, []
        settings = self._library.settings

        def store() -> None:
            self._requests.add(
                requests,
                keep_calls=settings.request_record_calls,
                forget_before=int(time.time() - settings.request_record_s),
            )

        def tell(done: Future[None]) -> None:
            try:
                done.result()
            except SyncFailed as error:
                reason = error.strerror or str(error)
                say(messages.Cannot(reason=reason, sync_failed=True))
            else:
                say(messages.Found())

        self._git_writer.checkpoint(store).add_done_callback(tell)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
