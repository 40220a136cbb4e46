"""The laws of rooms: a breach that is planted is refused whatever its shape, and what only looks like one is not."""
# ruff: noqa: E501 - the tables are read by their rows

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.banned_names import too_many_in_tests
from scripts.laws import breaches, unused_permissions
from support.planted_code import breaches_of

BREACHES = [
    # clock
    ("decide.node", "from datetime import datetime\ndatetime.now()", ".now", "the clock, called"),
    ("diagnose", "import datetime as dt\nprint_at = dt.datetime.now(dt.UTC)", ".now", "the clock by its module"),
    ("decide.cluster", "from datetime import datetime as d\nd.now()", ".now", "the clock under another name"),
    ("model", "from datetime import date\nborn = date.today", ".today", "the day, not called"),
    ("diagnose", "from datetime import datetime\ndef f(at=datetime.now()): ...", ".now", "the clock as a default"),
    (
        "model",
        "from dataclasses import field\nfrom datetime import datetime\nborn = field(default_factory=datetime.now)",
        ".now",
        "the clock as a factory of a default",
    ),
    ("decide.node", "def f(moment): return type(moment).now()", ".now", "the clock of a value's type"),
    ("decide.node", "def f(moment): return map(type(moment).now, [None])", ".now", "the same, passed on"),
    ("decide.node", "def f(moment): return moment.__class__.utcnow()", ".utcnow", "the clock of a value's class"),
    ("diagnose", "from datetime import datetime\ndef f(): return getattr(datetime, 'now')()", ".now", "getattr"),
    ("diagnose", "def f(moment, w='no' + 'w'): return getattr(moment, w)", "not written here", "getattr, composed"),
    ("diagnose", "def f(moment): return getattr(moment, f'{1}now')", "not written here", "getattr, formatted"),
    ("diagnose", "from functools import reduce\ndef f(x): return reduce(getattr, x)", "getattr on", "getattr given on"),
    ("diagnose", "ask = getattr", "getattr on", "getattr under another name"),
    ("decide.cluster", "from operator import attrgetter\nask = attrgetter('datetime.now')", ".now", "attrgetter"),
    ("decide.cluster", "import operator as o\nask = o.methodcaller('today')", ".today", "methodcaller by its module"),
    ("decide.cluster", "from operator import attrgetter as a\nwords = [*map(a, 'now')]", "passes", "attrgetter given on"),
    ("decide.cluster", "from operator import attrgetter\ndef f(w): return attrgetter(w)", "not written", "any attrgetter"),
    ("model", "import time", "imports time", "the module of time"),
    ("model", "from time import monotonic as beat", "imports time.monotonic", "another clock"),
    ("reading", "def f(moment): return moment.astimezone()", "time zone", "the machine's time zone"),
    ("decide.kubernetes", "from google.protobuf.timestamp_pb2 import Timestamp\ndef f(t):\n    t.GetCurrentTime()", "GetCurrentTime", "the clock of protobuf"),
    ("decide.cluster", "import numpy as np\nnow = np.datetime64('now')", "numpy.datetime64", "the clock of numpy"),
    ("documents", "from pydantic import PastDate", "pydantic.PastDate", "a type that asks the clock"),
    ("reading", "def f(moment): return moment.astimezone(None)", "time zone", "the same, said"),
    ("decide.node", "from datetime import datetime\nsnapshot = datetime\nask = snapshot.now", ".now", "the clock as a snapshot"),
    ("decide.node", "def f(x):\n    match x:\n        case int(today=ask): return ask()", ".today", "the day in a pattern"),
    ("decide.node", "from datetime import datetime\nclass A:\n    clock = datetime\n    def f(self): return map(self.clock.now, [])", ".now", "the clock in a class"),
    ("decide.node", "def f(clock): return clock.monotonic()", ".monotonic", "a clock that was passed in"),
    ("decide.node", "import datetime\na = datetime\nb = a.datetime\nc = b\nc.now()", ".now", "an alias of an alias"),
    ("diagnose", "from datetime import datetime\ngetattr(*(datetime, 'now'))()", "not written here", "getattr, unpacked"),
    ("diagnose", "from datetime import datetime\nclass D(datetime):\n    def f(self): return map(self.now, [])", "clock of its base", "a class of moments"),
    ("model", "from datetime import date as d\nclass Day(d): ...\nDay.today()", "clock of its base", "a class of days"),
    ("model", "import time\ndef f(at=time.time): return at()", "imports time", "another clock as a default"),
    ("model", "from datetime import datetime\nf = lambda *, at=datetime.now: at()", ".now", "the clock as a lambda's default"),
    ("model", "from datetime import datetime\nclass A:\n    at = datetime.now", ".now", "the clock as an attribute of a class"),
    ("model", "from datetime import datetime\nBY_NAME = {'now': datetime.now}", ".now", "the clock in a table"),
    ("model", "from datetime import datetime\nask = (datetime if 1 else None)\nask.now()", ".now", "the clock under a condition"),
    ("reading", "def f(moments): return [*map(lambda m: m.astimezone, moments)]", ".astimezone", "the time zone, not called"),
    ("reading", "from operator import methodcaller\nf = methodcaller('astimezone')", ".astimezone", "the time zone by its name"),
    ("reading", "def f(moment): return moment.astimezone(*[])", "time zone", "the time zone, unpacked"),
    # files
    ("documents", "def f(p): return open(p)", "uses open", "open"),
    ("documents", "from functools import partial\nread = partial(open, mode='rb')", "uses open", "open, given on"),
    ("documents", "def f(read=open): ...", "uses open", "open as a default"),
    ("wire", "def f(p):\n    with open(p) as g: return g.read()", "uses open", "open where messages are described"),
    ("ports", "from time import sleep\nsleep(1)", "time", "a wait in a port"),
    ("documents", "class A:\n    read = staticmethod(open)", "uses open", "open in a class"),
    ("documents", "texts = [o(p) for o in (open,) for p in 'ab']", "uses open", "open in a comprehension"),
    ("documents", "read = lambda p: open(p).read()", "uses open", "open in a lambda"),
    ("documents", "@open\ndef f(): ...", "uses open", "open as a decorator"),
    ("model", "import builtins\nbuiltins.open('x')", "imports builtins", "open of builtins"),
    ("model", "__builtins__['open']('x')", "__builtins__", "open of the builtins beneath"),
    ("model", "globals()['op' + 'en']", "uses globals", "open by globals"),
    ("model", "def f(): return f.__globals__['x']", "__globals__", "open by a function's globals"),
    ("model", "x = ().__class__.__base__.__subclasses__()", "__subclasses__", "all classes there are"),
    ("model", "def f(g): return g.gi_frame.f_builtins['open']", "f_builtins", "open by a frame"),
    ("reading", "from io import open as read", "imports io.open", "open of io"),
    ("reading", "import io\nio.StringIO()", "imports io", "all of io for a text"),
    ("reading", "import codecs\ncodecs.open('x')", "imports codecs", "open of codecs"),
    ("model", "from pathlib import Path", "imports pathlib.Path", "paths that read"),
    ("model", "import pathlib\npathlib.PurePath('x')", "imports pathlib", "all of pathlib for a name"),
    ("diagnose", "def f(path): return path.read_text()", ".read_text", "a path that was passed in"),
    ("diagnose", "def f(path):\n    with path.open() as x: return x", ".open", "open of a path"),
    ("diagnose", "def f(path): return path.parent.exists()", ".exists", "whether a file is there"),
    ("diagnose", "from tonnage.model.json import JsonObject\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pathlib import Path", "pathlib.Path", "paths for the type checker alone"),
    ("decide.cluster", "import numpy as np\nnp.load('x')", "numpy.load", "files of numpy"),
    ("decide.cluster", "from numpy import memmap as m", "numpy.memmap", "maps of numpy"),
    ("decide.cluster", "def f(column): column.tofile('x')", ".tofile", "a column that writes itself"),
    ("documents", "from pydantic import FilePath", "pydantic.FilePath", "a type that looks for a file"),
    ("documents", "import yaml\nyaml.load('x', yaml.UnsafeLoader)", "yaml.UnsafeLoader", "YAML that makes objects"),
    ("model.catalog", "from importlib import import_module", "import_module", "imports where data is read"),
    ("decide.node", "from importlib.resources import files", "importlib.resources", "data of others"),
    ("decide.node", "from tonnage.model.catalog import resources", "only imports it", "data by another module"),
    ("decide.node", "from tonnage.model import catalog\ncatalog.resources.files('os')", "only imports it", "the same by dots"),
    ("model", "def f():\n    from builtins import open as read\n    return read", "imports builtins.open", "open of builtins in a function"),
    ("model", "from io import FileIO as f", "imports io.FileIO", "a file of io"),
    ("model", "from os import fdopen as f", "imports os.fdopen", "a file by its number"),
    ("model", "import posix", "imports posix", "files beneath os"),
    ("model", "class A:\n    read = open", "uses open", "open as an attribute of a class"),
    ("model", "A = type('A', (), {'read': open})", "uses open", "open in a class that is made"),
    ("model", "def f(*, read=open): ...", "uses open", "open as a default by name"),
    ("model", "from pathlib import PurePath as p\np('x').open()", ".open", "open of a path that only names"),
    # processes, environment, network, threads, randomness
    ("decide.node", "from os import environ as e", "imports os.environ", "the environment"),
    ("decide.node", "import os.path as p\np.os.environ", "imports os.path", "the environment by paths"),
    ("decide.node", "import typing\ntyping.sys.modules['os']", "typing.sys", "modules of a module"),
    ("decide.node", "from enum import sys", "imports enum.sys", "a module out of a module"),
    ("decide.node", "import contextlib as c\nc.os.system('x')", "contextlib.os", "processes by a module of a module"),
    ("decide.node", "import contextlib\nwide = [contextlib]\nwide[0].os", "passes the module", "a module in a list"),
    ("decide.node", "import json\nwide = json\nwide.codecs.open('x')", "json.codecs", "a module under another name"),
    ("decide.node", "import urllib.parse\nurllib.request.urlopen('x')", "urllib.request", "the network by its neighbour"),
    ("decide.node", "def f():\n    import subprocess", "imports subprocess", "a process inside a function"),
    ("decide.node", "def f(x):\n    if x:\n        from sys import stdout", "imports sys.stdout", "output where it is needed"),
    ("decide.node", "import concurrent.futures", "concurrent.futures", "threads"),
    ("decide.node", "import threading as t", "imports threading", "threads under another name"),
    ("decide.node", "from http.client import HTTPConnection", "http.client", "HTTP"),
    ("decide.node", "import secrets, random", "imports random", "randomness"),
    ("decide.node", "from uuid import uuid4", "uuid.uuid4", "names by chance"),
    ("decide.cluster", "import numpy\nnumpy.random.rand()", "numpy.random", "randomness of numpy"),
    ("decide.cluster", "from numpy import random as r", "numpy.random", "the same under another name"),
    ("decide.cluster", "def f(x): return hash(x) % 7", "uses hash", "what differs in each process"),
    ("decide.node", "import logging", "imports logging", "logs"),
    ("decide.node", "from warnings import warn", "imports warnings", "warnings"),
    ("decide.node", "print('x')", "uses print", "output"),
    ("decide.node", "raise SystemExit", "SystemExit", "the end of the process"),
    ("decide.node", "len.__self__.open('x')", "__self__", "the builtins of a builtin"),
    ("decide.node", "def f(x): return object.__getattribute__(x, 'now')()", "__getattribute__", "an attribute beneath"),
    ("decide.node", "exec('x')", "uses exec", "a program in a text"),
    ("decide.node", "x = __import__('os')", "__import__", "an import by its function"),
    ("decide.node", "async def f(): ...", "is async", "a coroutine"),
    ("decide.node", "def f(x): return [y async for y in x]", "is async", "a comprehension that waits"),
    ("decide.node", "import importlib as i\ni.import_module('os')", "imports importlib", "an import by its name"),
    ("decide.node", "from importlib import import_module as load\nload('os')", "importlib.import_module", "the same under another name"),
    ("decide.node", "load = __import__\nload('os')", "__import__", "an import by its function, renamed"),
    ("decide.node", "__builtins__['__import__']('os')", "__builtins__", "an import out of the builtins"),
    ("decide.node", "N = 0\ndef f():\n    global N\n    N += 1", "changes N", "state of a module"),
    ("decide.node", "SEEN = {}\ndef f(x): SEEN[x] = 1", "changes SEEN", "a dict of the module"),
    ("decide.node", "SEEN = []\ndef f(x): return map(SEEN.append, x)", "changes SEEN", "a list of the module, passed on"),
    ("decide.node", "A = B = set()\nf = lambda x: B.add(x)", "changes B", "a set of the module in a lambda"),
    ("decide.node", "import json\njson.dumps = str", "changes .dumps", "a function of another module"),
    ("decide.node", "from decimal import getcontext as c\nc().prec = 3", "decimal.getcontext", "the precision of all numbers"),
    ("decide.node", "from functools import RLock", "functools.RLock", "a lock of threads"),
    # ports
    ("ports", "def f(x): return x + 1", "has a body", "a function in a port"),
    ("ports", "class A:\n    async def f(self):\n        await self.g()", "has a body", "a coroutine that waits"),
    ("ports", 'from typing import Protocol\nclass A(Protocol):\n    def f(self):\n        """Text."""\n        return self', "has a body", "a method in a port"),
    ("ports", "f = lambda x: x", "has a body", "a lambda in a port"),
    ("ports", "import time as t\nclass A:\n    def f(self, at=t.monotonic): ...", "imports time", "a clock as a port's default"),
    ("ports", "class A:\n    read = open", "uses open", "a file in a port"),
    ("ports", "import asyncio", "imports asyncio", "loops in a port"),
    ("decide.node", "setattr(int, 'x', 1)", "uses setattr", "what changes others"),
    ("decide.node", "from math import *", "everything of math", "all names of a module"),
    ("decide.node", "from . import other", "relative", "a relative name"),
    ("decide.node", "def f(): from .other import x as y", "relative", "the same in a function"),
    ("decide.node", "import tonnage\ntonnage.adapters", "leads to every room", "the package by its name"),
    ("decide.node", "import tonnage.model.json", "leads to every room", "a module by its whole name"),
    ("model", "import msgspec", "imports msgspec", "another room's library"),
    # loops
    ("agent.mig", "from datetime import datetime\ndatetime.now()", ".now", "the clock in a loop"),
    ("agent.mig", "import time", "imports time", "another clock in a loop"),
    ("agent.mig", "import asyncio\nasync def f(): await asyncio.sleep(1)", "sleeps", "sleep in a loop"),
    ("agent.mig", "from asyncio import sleep as rest\nasync def f(x): await rest(x)", "sleeps", "sleep under another name"),
    ("agent.mig", "import asyncio\nasync def f(x):\n    async with asyncio.timeout(1): ...", "asyncio.timeout", "a deadline of the real clock"),
    ("loop", "import asyncio\ndef f(): asyncio.get_running_loop().call_later(1, f)", ".call_later", "a timer in a loop"),
    ("loop", "import asyncio as a\nasync def f(): await a.create_subprocess_exec('x')", "create_subprocess_exec", "a process in a loop"),
    ("agent.mig", "from pathlib import Path\nPath('/x').read_text()", ".read_text", "a file in a loop"),
    ("agent.mig", "import subprocess", "imports subprocess", "a program in a loop"),
    ("agent.mig", "from os import environ", "os.environ", "the environment in a loop"),
    ("loop", "from uuid import uuid4", "uuid.uuid4", "chance in a loop"),
    ("agent.mig", "import asyncio\nasync def f(x): await asyncio.wait(x, timeout=1)", "waits by", "a wait of the real clock"),
    ("agent.mig", "from datetime import datetime\ndef f(): return [datetime][0].now()", ".now", "the clock out of a list"),
    ("agent.mig", "import logging\nlogging.FileHandler('x')", "logging.FileHandler", "a log in a file"),
    ("agent.mig", "import logging\nlogging.os.environ", "logging.os", "the environment by the log"),
    ("loop", "import asyncio\ndef f(): return asyncio.get_running_loop().time()", ".time", "the event loop's clock"),
    ("agent.mig", "from datetime import datetime\nclass A:\n    clock = datetime\ndef f(a): return a.clock.now()", ".now", "the clock in a class of a loop"),
    ("agent.mig", "from datetime import datetime\nmatch datetime:\n    case d: d.now()", ".now", "the clock by a pattern in a loop"),
    ("agent.mig", "from datetime import datetime\nfrom contextlib import nullcontext\nwith nullcontext(datetime) as d: d.now()", ".now", "the clock by a context in a loop"),
    ("agent.mig", "from functools import partial\nimport asyncio\nrest = partial(asyncio.sleep, 1)", "passes asyncio.sleep", "sleep, given on"),
    ("agent.mig", "import asyncio\nclass A:\n    rest = asyncio.sleep", "passes asyncio.sleep", "sleep in a class"),
    ("agent.mig", "import asyncio\ndef f(rest=asyncio.wait): ...", "passes asyncio.wait", "wait as a default"),
    ("agent.mig", "import asyncio\nasync def f(x): await asyncio.tasks.wait_for(x, 1)", "asyncio.tasks", "a deadline by a module of a module"),
    ("agent.mig", "import asyncio\nasync def f(x):\n    for y in asyncio.as_completed(x, timeout=1): ...", "asyncio.as_completed", "another deadline"),
    ("loop", "import asyncio\nasync def f(): await asyncio.get_running_loop().create_connection(f)", ".create_connection", "the network by the event loop"),
    ("loop", "import asyncio\nasync def f(): await asyncio.to_thread(open, 'x')", "uses open", "open in a thread"),
    ("agent.mig", "from pathlib import Path as P\nplace = P('x') / 'y'\nplace.replace('z')", "pathlib.Path.replace", "a file that is put elsewhere"),
    ("agent.mig", "from pathlib import Path\ntexts = map(Path.read_bytes, [])", ".read_bytes", "files by a method of their class"),
    ("agent.mig", "import logging.handlers", "logging.handlers", "logs that are sent"),
    # rooms of the controller and of claims
    ("controller.operator", "from datetime import UTC, datetime\ndef f(policy, at=datetime.now(UTC)): ...", ".now", "the clock as a loop's default"),
    ("controller.operator", "import asyncio\nasync def f(queue):\n    async with asyncio.timeout(30): await queue.get()", "asyncio.timeout", "a wait by the machine's clock"),
    ("controller.operator", "import asyncio\nasync def f(): return (lambda: asyncio.get_running_loop)()().time()", "uses .time", "the time of the event loop"),
    ("controller.webhook", "from pathlib import Path\ndef f(folder): return Path(folder, 'tls.crt').read_bytes()", ".read_bytes", "a certificate's file"),
    ("controller.webhook", "import asyncio\nasync def f(answer): return await asyncio.start_server(answer)", "asyncio.start_server", "a server in a loop"),
    ("controller", "from os import environ as e\nNAMESPACE = e.get('POD_NAMESPACE')", "imports os.environ", "the environment of a pod"),
    ("controller.operator", "from tonnage.ports.kubernetes import KubernetesApi as K", "only the performer may have", "an API that changes objects, renamed"),
    ("agent.claims", "import asyncio\nwait = asyncio.sleep\nasync def f(): await wait(1)", "asyncio.sleep", "a wait under another name"),
    ("agent.claims", "class A:\n    read = open", "uses open", "the book of claims by open"),
    ("agent.exporter", "from threading import Thread as T", "imports threading", "a thread that samples"),
    ("decide.node.claims", "from datetime import datetime as d\nsince = map(d.now, [])", ".now", "the clock of a claim"),
    ("decide.cluster.operate.drivers", "def f(image): return open(f'/etc/{image}').read()", "uses open", "a file of images"),
    ("diagnose.migrate", "from pathlib import Path as p\ndef f(text): p('out').write_text(text)", "pathlib.Path", "a migrated file"),
    ("model.reasons.cluster", "from os import getenv", "imports os.getenv", "a reason of the environment"),
    # actions
    ("agent.mig", "from tonnage.ports.kubernetes import KubernetesApi", "only the performer may have", "an API that changes objects"),
    ("agent.mig", "from tonnage.ports.node import Checkpoints as C", "only the performer may have", "checkpoints under another name"),
    ("agent.mig", "from tonnage.ports import node\ndef f(x: node.DeviceBackend): ...", "DeviceBackend", "a driver by its module"),
    ("agent.mig", "def f():\n    from tonnage.ports.node import MpsDaemons", "MpsDaemons", "daemons inside a function"),
    ("agent", "from tonnage.ports.node import CdiFiles, CdiView", "CdiFiles", "CDI specs beside what reads them"),
    ("agent.labels", "from tonnage.ports.node import LabelLines", "LabelLines", "a labels' file"),
    ("agent.mig", "from tonnage.ports.node import HostPrograms", "HostPrograms", "programs of the host"),
    ("agent.mig", "from tonnage.ports.node import PluginSockets", "PluginSockets", "kubelet's sockets in another loop"),
    ("agent.mig", "from tonnage.loop.effects import have_effect", "without the performer", "an effect without the performer"),
    ("agent", "from tonnage.loop.events import recorder_over", "without the performer", "Events without the performer"),
    ("ports", "from typing import Protocol\nclass Fans(Protocol):\n    async def spin(self): ...", "neither to read nor", "a port that nobody sorted"),
    ("ports", "class HostPrograms(HostView, Protocol):\n    async def kill(self): ...", "other methods than is said", "a change that is not said"),
    # Any
    ("decide.node", "from typing import Any\ndef f(x: Any): ...", "uses Any", "a parameter of any type"),
    ("decide.kubernetes", "from typing import Any\nRow = dict[str, Any]  # noqa", "uses Any", "a comment that gives no reason"),
    # wiring
    ("agent", "def run(loop, plugin): loop.on_change = plugin.wake", "hooks on_change in", "a hook that is set from outside"),
    ("controller.operator", "class Loop:\n    def __init__(self, other): other.on_report = self.look", "hooks on_report in", "a hook that one loop sets in another"),
    ("loop", "def f(loops):\n    for loop in loops: loop.queue, loop.wake = 1, 2", "hooks wake in", "several at once"),
    # vendors
    ("adapters.vendors", "from tonnage.adapters.vendors.nvml_session import Session", "another", "one vendor of another"),
    ("adapters.vendors", "from tonnage.adapters.vendors import nvml as n", "another", "the same by the package"),
    ("adapters.vendors", "import tonnage.adapters.vendors.nvml", "another", "the same by its whole name"),
    # names that say nothing
    ("decide.node", "told = 1", "binds told", "a variable"),
    ("decide.node", "class Request: pass", "binds Request", "a class that says not whose request it is"),
    ("decide.node", "Request = int", "binds Request", "an alias of that name"),
    ("decide.node", "heard = 1", "binds heard", "a participle"),
    ("cli", "def f(found): ...", "binds found", "a parameter, in a room without other laws"),
    ("twin", "def f(*wanted, **given): ...", "binds given", "all other parameters"),
    ("twin", "names = [one for one in ()]", "binds one", "the variable of a comprehension"),
    ("model", "class Page:\n    seen: int = 0", "binds seen", "a field"),
    ("adapters", "class Page:\n    def __init__(self): self._known = {}", "binds _known", "an attribute"),
    ("diagnose", "def _named(pod): ...", "binds _named", "a function"),
    ("documents", "class Asked: ...", "binds Asked", "a class"),
    ("loop", "_KEPT = 3", "binds _KEPT", "a constant"),
    ("cli", "from tonnage.model.pods import Pod as item", "binds item", "another name of an import"),
    ("decide.kubernetes", "class Node:\n    shy: bool", "binds shy", "a metaphor"),
    ("loop", "try: ...\nexcept OSError as what: ...", "binds what", "an error"),
    ("reading", "def f(pod):\n    match pod:\n        case [item, *others]: ...", "binds item", "a part of a pattern"),
    ("cli", "def told_by(context): ...", "binds told_by", "a participle in a function's name"),
    ("diagnose", "class Pods:\n    _last_heard_s: float", "binds _last_heard_s", "a participle in a field's name"),
    ("wire", "class Pod:\n    def f(self, data): ...", "binds data", "a parameter where fields may be so called"),
    # shapes that were holes: each passed once
    ("decide.node", "from datetime import datetime\ndef f(snapshot): return map(snapshot.now, [])\nf(datetime)", "passes datetime.datetime on", "the clock handed over as a snapshot"),
    ("decide.node", "from datetime import date\nDAYS = {'a': date}\ndef f(gpu=DAYS['a']): return gpu.now", "passes datetime.date on", "a class of days in a table"),
    ("agent.mig", "from datetime import datetime\ndef f(clock): return clock.now()\nf(clock=datetime)", "passes datetime.datetime on", "the clock by the name of a loop's clock"),
    ("agent.mig", "from datetime import datetime\nclass A:\n    def __init__(self): self.clock = datetime", "passes datetime.datetime on", "the clock as a field of a loop"),
    ("agent.mig", "import logging\nlogging.makeLogRecord({}).created", "logging.makeLogRecord", "the clock by a line of the log"),
    ("decide.node", "def f(clock): return clock.monotonic_ns()", ".monotonic_ns", "a clock in nanoseconds"),
    ("decide.cluster", "import numpy as np\nx = np.array('now', dtype='datetime64[s]')", "numpy read moments", "the clock by the name of numpy's type"),
    ("decide.cluster", "def f(column): return column.astype('<M8[D]')", "numpy read moments", "the day by its short name"),
    ("decide.cluster", "import numpy as np\nnp.set_printoptions(precision=2)", "numpy.set_printoptions", "how numpy prints for all"),
    ("decide.node", "import posixpath\nposixpath.isfile('/x')", "posixpath.isfile", "whether a file is there, by its path"),
    ("decide.node", "from posixpath import realpath as r", "posixpath.realpath", "links that are followed"),
    ("decide.node", "import posixpath as p\np.expandvars('$HOME')", "posixpath.expandvars", "the environment by a path"),
    ("documents", "def f(model): return model.parse_file('x')", ".parse_file", "a file of pydantic"),
    ("agent.mig", "from pathlib import Path\ndef f(place: Path): place.replace('y')", "pathlib.Path.replace", "a file that was passed in, put elsewhere"),
    ("agent.mig", "from pathlib import Path as P\ndef f(*, place: P): (place / 'x').rename('y')", "pathlib.Path.rename", "the same below a folder"),
    ("decide.node", "def f(peer): return peer.recv(10)", ".recv", "a connection that was passed in"),
    ("decide.node", "def f(program): return program.communicate()", ".communicate", "a program that was passed in"),
    ("decide.node", "def f(pool): return pool.submit(f)", ".submit", "threads that were passed in"),
    ("decide.node", "def f(lock): lock.acquire()", ".acquire", "a lock that was passed in"),
    ("decide.node", "x = 'a'.__hash__()", "__hash__", "what differs in each process, beneath"),
    ("decide.node", "raise KeyboardInterrupt", "KeyboardInterrupt", "the end of the process, as by a key"),
    ("decide.node", "def f(x): return '{0.__init__.__globals__[os]}'.format(x)", "filled in", "the builtins by a text"),
    ("agent.mig", "import asyncio\nasyncio.SelectorEventLoop()", "asyncio.SelectorEventLoop", "another event loop"),
    ("agent.mig", "import asyncio\nasync def f(s): await asyncio.get_running_loop().connect_accepted_socket(f, s)", ".connect_accepted_socket", "a socket by the event loop"),
    ("agent.mig", "import logging\nlogging.disable(50)", "logging.disable", "all logs, turned off"),
    ("decide.node", "def f(): f.count = 1", "changes f", "an attribute of a function"),
    ("decide.node", "class Pods:\n    count = 0\n    @classmethod\n    def f(cls): cls.count += 1", "changes a class", "an attribute of a class"),
    ("decide.node", "class Pods:\n    uids = ()\ndef f(x): Pods.uids = x", "changes Pods", "the same by its name"),
    ("decide.node", "import itertools\nIDS = itertools.count()\ndef f(): return next(IDS)", "changes IDS", "a count of the module"),
    ("decide.node", "PODS = []\ndef f(x):\n    pods = PODS\n    pods.append(x)", "changes PODS", "a list of the module, renamed"),
    ("decide.node", "from heapq import heappush\nPODS = []\ndef f(x): heappush(PODS, x)", "changes PODS", "a heap of the module"),
    ("decide.node", "import operator\nPODS = {}\ndef f(x): operator.setitem(PODS, x, 1)", "changes PODS", "a dict of the module by a function"),
    ("decide.node", "PODS = {}\ndef f(x): dict.update(PODS, x)", "changes PODS", "the same by its class"),
    ("decide.node", "PODS = [[]]\ndef f(x): PODS[0].append(x)", "changes PODS", "a list in a list of the module"),
    ("decide.node", "BOOK = make()\ndef f(x): BOOK.pods.append(x)", "changes BOOK", "a record of the module"),
    ("decide.node", "import typing as t\ndef f(x: t.Any): ...", "uses Any", "Any by its module"),
    ("decide.node", "from typing import Any as A\ndef f(x: A): ...", "under another name", "Any, renamed"),
    ("decide.node", "def f(x: 'dict[str, Any]'): ...", "uses Any", "Any in a text"),
    ("decide.node", "from typing import cast\ndef f(x): return cast('Any', x)", "uses Any", "Any in the text of a cast"),
    ("agent.mig", "from tonnage.ports import node\ndef f(x: 'node.Checkpoints'): ...", "only the performer may have", "checkpoints in a text"),
    ("agent.mig", "from tonnage.ports import node\nX = getattr(node, 'DeviceBackend')", "only the performer may have", "a driver by getattr"),
    ("agent.mig", "from typing import Protocol\nclass Gpus(Protocol):\n    async def apply(self, step): ...", "a port of its own", "a driver under the loop's own name"),
    ("agent", "def f(loop): object.__setattr__(loop, 'on_change', f)", "__setattr__", "a hook beneath"),
    ("agent", "hook = object.__setattr__", "__setattr__", "the same, passed on"),
    ("decide.node", "def f(x):\n    match x:\n        case {'a': 1, **found}: return x", "binds found", "the rest of a pattern"),
    ("twin", "class Pods:\n    @classmethod\n    def f(cls): cls.told = 1", "binds told", "an attribute of a class, by a method"),
    ("shared", "import time", "in no room", "a room without a law"),
    ("decide", "X = open('x')", "in no room", "a module beside the rooms of decisions"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("room", "code", "told"), [pytest.param(*row[:3], id=f"{row[3]} ({row[0]})") for row in BREACHES]
)
def test_a_breach_is_refused(tmp_path: Path, room: str, code: str, told: str) -> None:
    found = breaches_of(tmp_path, room, code)
    assert any(told in what for what in found), found


PERMITTED = [
    ("model.reasons", "class Denied:\n    said: str", "a fact, which is a key of JSON"),
    ("wire", "class ConfigMap:\n    data: dict[str, str]", "a field of an object that is sent"),
    ("adapters", "class Session:\n    def data_received(self, data): ...", "a parameter that a library names"),
    ("diagnose", "def f(reason): return reason.said, dict(told=1)", "a name that is only used"),
    ("cli", "def f(named): ...", "whether there is a name"),
    ("decide.node", "def f(snapshot): return snapshot.now", "the moment that a snapshot was taken"),
    ("decide.node", "from datetime import UTC\ndef f(at): return at.astimezone(tz=UTC)", "a zone that is named"),
    ("decide.node", "from datetime import UTC, datetime\nEPOCH = datetime(1970, 1, 1, tzinfo=UTC)", "a moment as data"),
    ("decide.node", "from operator import attrgetter, itemgetter\nby = sorted([], key=attrgetter('name'))", "a field's name"),
    ("decide.node", "def f(x): return getattr(x, 'name', None)", "a field that may be missing"),
    ("decide.node", "import re\nP = re.compile('x')", "a pattern, compiled"),
    ("decide.node", "from functools import cache, partial", "a cache of answers"),
    ("decide.node", "def f(self): return self.opened, self.system_reserved", "words that only begin so"),
    ("decide.node", "class A:\n    def __init__(self): super().__init__()", "a parent's beginning"),
    ("decide.node", "import json\njson.loads('1')", "text that is read"),
    ("decide.node", "from pathlib import PurePosixPath", "a path that only names"),
    ("decide.node", "from urllib.parse import urlsplit", "the parts of an address"),
    ("decide.node", "from tonnage.model import catalog\nwide = (catalog, catalog)", "modules of our own in a table"),
    ("documents", "class A:\n    open: list[int]\n    def f(self): self.open.pop()", "a field named open"),
    ("documents", "from io import StringIO\nimport csv\ncsv.reader(StringIO('a'))", "a text that is read as a file"),
    ("documents", "import yaml\nyaml.compose('x', Loader=yaml.CSafeLoader)", "YAML with places"),
    ("decide.cluster", "import numpy as np\nimport numpy.typing as npt\nx = np.zeros(3)", "columns"),
    ("decide.kubernetes", "import msgspec\nmsgspec.json.encode(1)", "JSON"),
    ("ports", "from typing import Protocol\nclass Clock(Protocol):\n    async def f(self): ...", "a port's signature"),
    ("agent.mig", "from tonnage.ports.kubernetes import KubernetesReader", "a port that reads"),
    ("agent.plugin", "from tonnage.ports.node import KubeletHolds", "what kubelet says"),
    ("decide.node", "PLAIN = {}\ndef f(x):\n    own = dict(PLAIN)\n    own[x] = PLAIN.get(x)\n    return own", "a table that is read"),
    ("decide.node", "ROWS = []\ndef f(ROWS): ROWS.append(1)", "a parameter of a table's name"),
    ("agent.mig", "import asyncio\ndef f(text): return text.replace('a', 'b')", "a text in which something is replaced"),
    ("model.catalog", "from importlib import resources\nresources.files('x').joinpath('y').read_text()", "the catalogue's data"),
    ("wire.schema", "from importlib.resources import files\nfiles(__name__).joinpath('y').read_bytes()", "the schema tables"),
    ("agent.mig", "import asyncio\nasync def f(clock): await asyncio.sleep(0); clock.now()", "the clock of a loop"),
    ("agent.mig", "import asyncio\nasync def f(x): await asyncio.to_thread(x)", "what takes long, beside the loop"),
    ("agent.mig", "from pathlib import Path\nPLACE = Path('/var/lib') / 'x'", "a place that is passed on"),
    ("loop", "import logging\nlogging.getLogger(__name__)", "a loop's log"),
    ("decide.node", "from typing import Any\ndef f(x: Any): ...  # whatever a file holds", "Any with its reason"),
    ("diagnose", "from typing import Any\ndef f(x: Any): ...", "Any where no decision is made"),
    ("agent", "class _Entry:\n    work: int = 0\ndef f(entry: _Entry): entry.work = 1", "a field of a module's own record"),
    ("twin", "def f(store): store.on_write = print", "a hook where nothing is a loop"),
    ("adapters", "import time, os, subprocess\nopen('x')", "the real world"),
    ("adapters.vendors", "from tonnage.adapters.vendors.driver_thread import X", "what vendors share"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("room", "code"), [pytest.param(*row[:2], id=f"{row[2]} ({row[0]})") for row in PERMITTED]
)
def test_what_is_no_breach_is_not_refused(tmp_path: Path, room: str, code: str) -> None:
    assert breaches_of(tmp_path, room, code) == []


def test_a_name_of_what_is_generated_is_no_way_around(tmp_path: Path) -> None:
    assert breaches_of(tmp_path, "decide.node", "open('x')", name="planted_pb2") == ["decide.node uses open"]
    assert breaches_of(tmp_path, "wire.kubelet", "open('x')", name="planted_pb2") == []


def test_a_folder_that_import_linter_does_not_see_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tonnage/agent/sub").mkdir(parents=True)
    (tmp_path / "tonnage/agent/sub/loop.py").write_text("")
    assert any("without __init__.py" in breach.what for breach in breaches(tmp_path))


def test_the_room_of_rooms_has_no_code(tmp_path: Path) -> None:
    law = '"""Decisions: values in, values out."""\n'
    for code, refused in (("", False), ("open('x')", True)):
        assert bool(breaches_of(tmp_path, "decide", law + code, name="__init__")) is refused


def test_a_package_says_its_law(tmp_path: Path) -> None:
    (tmp_path / "tonnage/decide").mkdir(parents=True)
    place = tmp_path / "tonnage/decide/__init__.py"
    for text, told in (("", True), ('"""LAW."""', True), ('"""Decisions, never effects."""', True)):
        place.write_text(text)
        assert any(breach.path == place for breach in breaches(tmp_path)) is told
    place.write_text('"""Decisions: values in, values out, and never an effect."""')
    assert not any(breach.path == place for breach in breaches(tmp_path))


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        pytest.param("decide/node/pods.py", True, id="in two rooms"),
        pytest.param("model/nodes.py", True, id="in two modules of a room"),
        pytest.param("wire/pods.py", False, id="as it is sent and as the model has it"),
    ],
)
def test_a_public_class_name_stands_for_one_thing(tmp_path: Path, other: str, refused: bool) -> None:
    for place in ("model/pods.py", other):
        file = tmp_path / "tonnage" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("class Pod: ...\n\n\nclass _Own: ...\n")
    doubled = [breach for breach in breaches(tmp_path) if "is also a class of" in breach.what]
    assert len(doubled) == (2 if refused else 0)


def test_data_of_its_own_that_no_package_reads_are_refused(tmp_path: Path) -> None:
    breaches_of(tmp_path, "decide.node", "")
    told = {breach.what for breach in breaches(tmp_path)}
    assert "tonnage.wire.schema reads no data of its own any more" in told


def test_a_permission_that_nothing_uses_is_refused(tmp_path: Path) -> None:
    ports = tmp_path / "tonnage/ports/clock.py"
    breaches_of(tmp_path, "documents", "import yaml")
    ports.parent.mkdir(parents=True)
    ports.write_text("from typing import Protocol\nclass Clock(Protocol): ...\n")
    breaches_of(tmp_path, "agent", "", name="main")
    unused = unused_permissions(tmp_path)
    assert {
        "documents imports no re2 any more",
        "there is no constructor tonnage.controller.main",
        "tonnage.cli.lab.checks binds no seen any more",
        "there is no port KubernetesApi",
    } <= {*unused}
    used = (
        "documents imports no yaml",
        "there is no constructor tonnage.agent.main",
        "there is no port Clock",
    )
    assert [text for text in unused if text.removesuffix(" any more") in used] == []


@pytest.mark.parametrize(
    ("most", "why"),
    [
        pytest.param(3, "", id="as many as may be"),
        pytest.param(2, "binds 3 names", id="one more"),
        pytest.param(103, "", id="fewer"),
        pytest.param(104, "lower MOST_IN_TESTS", id="far fewer"),
    ],
)
def test_names_that_say_nothing_only_get_fewer_in_tests(tmp_path: Path, most: int, why: str) -> None:
    (tmp_path / "test_pods.py").write_text("def test_pod(told):\n    found = [one for one in told]\n")
    problems = [*too_many_in_tests(tmp_path, most)]
    assert len(problems) == bool(why)
    assert all(why in problem for problem in problems)
