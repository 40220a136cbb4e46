"""Tests in several processes: forks of the one that has collected them, so that this is done once.

Each takes a group of tests at a time from one queue: those of a file, or those marked to be kept together.
So fixtures of modules are made once. What a worker reports of a test is reported here, as if it had run here.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Final, NoReturn

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from _pytest.runner import pytest_sessionfinish as tear_down

from support.rewriting import rewritten_from_the_end
from support.sampling import Sampler
from support.unsteady import Reports, SecondTries

GRACE: Final = 30.0
"""Seconds that a test may go on after it has said where it hangs (`--hung-after`)."""
_SAY_WHERE: Final = signal.SIGUSR2
"""Has a worker print where each of its threads is. A timer of its own would cost each test a thread."""
TOGETHER: Final = "together"
"""The marker of tests that one worker is to have: they share what there is once."""


def groups_of(items: Iterable[pytest.Item]) -> dict[str, list[int]]:
    """By file or mark: places in the list of tests, in their order."""
    groups: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        marker = item.get_closest_marker(TOGETHER)
        groups.setdefault(marker.args[0] if marker else item.nodeid.partition("::")[0], []).append(place)
    return groups


@dataclass
class _Worker:
    """A process, and what it has yet to do."""

    pid: int
    connection: Connection[Any, Any]
    places: deque[int] = field(default_factory=deque)
    last: int = 0
    """The place of the test that it has ended last."""
    heard: float = field(default_factory=time.monotonic)
    hangs: bool = False
    """It has been asked where it hangs."""
    killed: bool = False

    def died(self) -> str:
        """How it ended, who has not said that it would."""
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if self.killed:
            return "because it hung: standard error says where"
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"


class WorkersPlugin:
    """Runs the tests in so many processes."""

    def __init__(self, count: int, sampler: Sampler, second_tries: int = 0) -> None:
        self._count = count
        self._sampler = sampler
        self._second_tries = SecondTries(second_tries)
        self._unsteady: dict[str, str] = {}
        self._workers: list[_Worker] = []
        self._limit = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        with rewritten_from_the_end(session.config):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Nothing where pytest's own loop has to say why no test runs."""
        if session.testsfailed or session.config.getoption("collectonly"):
            return None
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
        queue = deque(groups_of(session.items).values())
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
        self._limit = session.config.getoption("hung_after")
        try:
            self._run(session, queue, self._count)
            self._run(session, deque([place] for place in self._second_tries.due()), 1)
        finally:
            self._end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """A test that failed once is a defect, though it costs no run: it is named, with what it said."""
        for name, complaint in self._unsteady.items():
            terminalreporter.write_line(
                f"UNSTEADY {name}: it failed among others and passed alone\n{complaint}"
            )

    def _run(self, session: pytest.Session, queue: deque[list[int]], count: int) -> None:
        for _ in range(min(count, len(queue))):
            self._workers.append(self._fork(session))
        while self._workers:
            for connection in wait([worker.connection for worker in self._workers], timeout=1):
                worker = next(worker for worker in self._workers if worker.connection is connection)
                worker.heard, worker.hangs = time.monotonic(), False
                self._hear(session, worker, queue)
            self._end_what_hangs()

    def _fork(self, session: pytest.Session) -> _Worker:
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's library know of forks
            pid = os.fork()
        if not pid:
            for connection in (ours, *(worker.connection for worker in self._workers)):
                connection.close()  # else none sees its other end close
            _work(session, theirs, self._sampler)
        theirs.close()
        return _Worker(pid, ours)

    def _hear(self, session: pytest.Session, worker: _Worker, queue: deque[list[int]]) -> None:
        """One message: a test has ended, more are asked for, or the worker ends."""
        try:
            message = worker.connection.recv()
        except (EOFError, ConnectionError):
            self._bury(session, worker, queue)
            return
        if message is None:
            places = queue.popleft() if queue and not session.shouldfail else []
            worker.places.extend(places)
            worker.connection.send(places)
        elif isinstance(message, Mapping):
            self._sampler.merge(message)
            self._leave(worker)
            os.waitpid(worker.pid, 0)
        else:
            worker.last = worker.places.popleft()
            self._take(session, worker.last, message)

    def _end_what_hangs(self) -> None:
        """A test that never ends says where it is and fails; the others go on."""
        for worker in self._workers:
            silent_s = time.monotonic() - worker.heard
            if self._limit and silent_s > self._limit and not worker.hangs:
                worker.hangs = True
                os.kill(worker.pid, _SAY_WHERE)
            if self._limit and silent_s > self._limit + GRACE and not worker.killed:
                worker.killed = True
                os.killpg(worker.pid, signal.SIGKILL)

    def _bury(self, session: pytest.Session, worker: _Worker, queue: deque[list[int]]) -> None:
        """The test that it was at has failed; those that it had before it are others'."""
        place = worker.places.popleft() if worker.places else worker.last
        if worker.places:
            queue.appendleft([*worker.places])
            self._workers.append(self._fork(session))  # the others may have ended
        item = session.items[place]
        why = f"the process of this test ended {worker.died()}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        serialized = session.config.hook.pytest_report_to_serializable(config=session.config, report=report)
        self._take(session, place, [serialized])
        self._leave(worker)

    def _take(self, session: pytest.Session, place: int, reports: Reports) -> None:
        if (complaint := self._second_tries.unsteady(place, reports)) is not None:
            self._unsteady[session.items[place].nodeid] = complaint
        for reported, its_reports in self._second_tries.keep(place, reports):
            _report(session, reported, its_reports)

    def _leave(self, worker: _Worker) -> None:
        worker.connection.close()
        self._workers.remove(worker)

    def _end(self) -> None:
        """As Ctrl-C would: each tears down what it has set up. They are out of the terminal's reach.

        Python loses an interrupt that comes while it collects garbage, so each is left without an answer too.
        """
        for worker in self._workers:
            worker.connection.close()
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGINT)
        for worker in self._workers:
            with suppress(ChildProcessError):
                os.waitpid(worker.pid, 0)


def _report(session: pytest.Session, place: int, reports: Reports) -> None:
    config, item = session.config, session.items[place]
    config.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for serialized in reports:
        report = config.hook.pytest_report_from_serializable(config=config, data=serialized)
        config.hook.pytest_runtest_logreport(report=report)
    config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


class _Outbox:
    """What is reported in a worker."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._durations = config.getoption("durations") is not None
        self.reports: Reports = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when != "call" and not (report.sections or self._durations):
            return  # two of three reports, of which nothing is shown
        serialized = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.reports.append(serialized)


def _work(session: pytest.Session, connection: Connection[Any, Any], sampler: Sampler) -> NoReturn:
    """Run what is given out until there is no more, and say what was sampled."""
    status = 1
    try:
        os.setpgid(0, 0)
        faulthandler.register(_SAY_WHERE, session.config.stash[fault_handler_stderr_fd_key])
        _be_silent(session.config)
        _run(session, connection)
        connection.send(sampler.report())
        status = 0
    except (KeyboardInterrupt, EOFError, ConnectionError):
        tear_down(session)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _be_silent(config: pytest.Config) -> None:
    """The terminal is another's, and so are the files into which its output is captured."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()


def _run(session: pytest.Session, connection: Connection[Any, Any]) -> None:
    outbox = _Outbox(session.config)
    session.config.pluginmanager.register(outbox)

    def ask() -> list[int]:
        connection.send(None)
        places: list[int] = connection.recv()
        return places

    places = deque(ask())
    while places:
        item = session.items[places.popleft()]
        places.extend([] if places else ask())
        follows = session.items[places[0]] if places else None  # what it shares with that stays set up
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=follows)
        connection.send(outbox.reports)
        outbox.reports = []
