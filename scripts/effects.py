"""The names by which Python and its libraries reach out of a value: clock, files, network, processes.

`scripts.laws` says for which rooms. Whole modules are permitted there by name; these are what is refused of
modules that are permitted, of builtins, and of values that came from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLAIN: Final = frozenset(
    {
        *("__future__", "abc", "array", "base64", "binascii", "bisect", "collections", "collections.abc"),
        *("contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions"),
        *("functools", "hashlib", "heapq", "ipaddress", "itertools", "json", "math", "operator", "posixpath"),
        *("re", "struct", "textwrap", "tomllib", "types", "typing", "unicodedata", "urllib.parse"),
        "zlib",
    }
)
"""Of the standard library, the modules that work on values alone."""
PLAIN_NAMES: Final = frozenset({"io.BytesIO", "io.StringIO", "pathlib.PurePath", "pathlib.PurePosixPath"})
"""Names that are values, out of modules that are not: a text that reads as a file, a path that only names."""
ONLY: Final[Mapping[str, frozenset[str]]] = {
    "posixpath": frozenset({"dirname", "join", "normpath", "relpath"}),
    "asyncio": frozenset(
        {
            *("CancelledError", "Event", "FIRST_COMPLETED", "Future", "Lock", "Queue", "Task", "TaskGroup"),
            *("create_task", "ensure_future", "gather", "get_running_loop", "sleep", "to_thread", "wait"),
        }
    ),
    "logging": frozenset({"Logger", "getLogger"}),
}
"""All that is permitted of these modules: the rest asks files, the clock, sockets, processes, other loops."""

BUILTINS: Final = frozenset(
    {
        *("open", "input", "print", "exec", "eval", "compile", "breakpoint", "exit", "quit", "help"),
        *("globals", "locals", "vars", "setattr", "delattr"),
        *("__import__", "__builtins__", "__loader__", "__spec__", "__file__", "__cached__"),
        *("SystemExit", "KeyboardInterrupt"),
        "hash",  # of a text it is another in each process
    }
)
"""Built-in names that reach out of a value, or around this check."""
BY_NAME: Final = frozenset({"getattr", "hasattr", "operator.attrgetter", "operator.methodcaller"})
"""What takes an attribute's name as text: to be called with the text itself, and never passed on."""
CALLED_ALONE: Final = BY_NAME | {"asyncio.sleep", "asyncio.wait"}
"""What is judged by its arguments, so that it is never passed on."""
OF_FILES: Final = frozenset(
    {
        *("read_text", "read_bytes", "write_text", "write_bytes", "open", "iterdir", "glob", "rglob", "walk"),
        *("unlink", "mkdir", "rmdir", "touch", "symlink_to", "hardlink_to", "readlink", "chmod", "lchmod"),
        *("exists", "is_file", "is_dir", "is_symlink", "is_mount", "is_socket", "is_fifo", "is_block_device"),
        *("is_char_device", "stat", "lstat", "samefile", "expanduser", "cwd", "home", "getcwd"),
        *("tofile", "fromfile", "memmap", "absolute", "resolve", "dump", "parse_file"),
        *("fileno", "readline", "readlines", "flush", "isatty"),
    }
)
"""Attributes of paths and files, whatever the value is called that has them."""
CLOCKS: Final = frozenset({"datetime.datetime", "datetime.date"})
"""Classes that ask the clock: not to be inherited from, since `self.now` may be a field."""
OF_CLOCKS: Final = frozenset(
    {
        *("utcnow", "today", "fromtimestamp", "GetCurrentTime", "localtime", "gmtime", "process_time"),
        *("time_ns", "monotonic_ns", "perf_counter_ns"),
    }
)
"""And `now`, `astimezone` where they are called: see `scripts.law_reader`."""
OF_GIVEN_CLOCKS: Final = frozenset({"monotonic", "perf_counter", "sleep"})
"""What loops ask of the clock that they are given, and rooms without effects of none."""
CLOCKS_OF_LOOPS: Final = frozenset({"clock", "_clock"})
"""What a loop calls the clock that it is given, the only thing of which it asks `now`."""
HOLDERS_OF_NOW: Final = frozenset({"snapshot", "kubelet", "gpu", "self"})
"""Values that have a field `now`: there it is a moment that was passed in, or a count."""
OF_THE_MACHINE: Final = frozenset(
    {
        *("getenv", "environ", "environb", "putenv", "urlopen", "urlretrieve", "Popen", "check_output"),
        *("check_call", "popen", "system", "spawnv", "execv", "execve", "posix_spawn"),
        *("start_new_thread", "run_in_executor", "run_coroutine_threadsafe", "submit", "acquire"),
        *("communicate", "recv", "sendall"),
    }
)
AROUND: Final = frozenset(
    {
        *(
            "import_module",
            "reload",
            "f_globals",
            "f_builtins",
            "f_locals",
            "gi_frame",
            "cr_frame",
            "ag_frame",
        ),
        *("tb_frame", "f_back"),
    }
)
"""Attributes that lead around this check."""
DUNDERS: Final = frozenset(
    {
        *("__name__", "__qualname__", "__class__", "__doc__", "__init__", "__post_init__", "__wrapped__"),
        *(
            "__getitem__",
            "__len__",
            "__iter__",
            "__contains__",
            "__eq__",
            "__lt__",
        ),
        *("__enter__", "__exit__", "__new__", "__repr__", "__str__", "__call__", "__or__", "__and__"),
        *("__struct_fields__", "__dataclass_fields__", "__members__", "__args__", "__origin__"),
    }
)
"""The only attributes between double underscores that a pure room may name."""

_NUMPY: Final = (
    *(
        "load",
        "save",
        "savez",
        "savez_compressed",
        "loadtxt",
        "savetxt",
        "genfromtxt",
        "fromfile",
        "fromregex",
    ),
    *("memmap", "DataSource", "datetime64", "show_config", "test", "info", "seterrcall", "seterr"),
    *("set_printoptions", "setbufsize"),
)
_PYDANTIC: Final = (
    *("FilePath", "DirectoryPath", "NewPath", "SocketPath", "ImportString"),
    *("PastDate", "FutureDate", "PastDatetime", "FutureDatetime"),
)
_YAML: Final = (
    *("Loader", "UnsafeLoader", "FullLoader", "CLoader", "CUnsafeLoader", "CFullLoader", "load", "load_all"),
    *("unsafe_load", "unsafe_load_all", "full_load", "full_load_all"),
)
REFUSED: Final = frozenset(
    {
        *(f"numpy.{name}" for name in _NUMPY),
        *(f"pydantic.{name}" for name in _PYDANTIC),
        *(f"yaml.{name}" for name in _YAML),
        *("contextlib.chdir", "contextlib.redirect_stdout", "contextlib.redirect_stderr"),
        *(f"pathlib.Path.{name}" for name in ("replace", "rename", "owner", "group", "link_to")),
        *("decimal.getcontext", "decimal.setcontext", "decimal.localcontext", "functools.RLock"),
        *("hashlib.file_digest", "typing.get_type_hints", "typing.ForwardRef"),
        *("types.CodeType", "types.FunctionType", "types.ModuleType", "types.coroutine"),
    }
)
"""Of permitted modules: what reads files, asks the clock, prints, changes others, or runs a text."""
OF_EVENT_LOOPS: Final = frozenset(
    {
        *("time", "call_later", "call_at", "add_signal_handler", "subprocess_exec", "subprocess_shell"),
        *(
            "connect_read_pipe",
            "connect_write_pipe",
            "add_reader",
            "add_writer",
            "getaddrinfo",
            "getnameinfo",
        ),
        *("create_connection", "create_server", "create_unix_connection", "create_unix_server"),
        *("create_datagram_endpoint", "sock_connect", "sock_accept", "sendfile", "set_default_executor"),
        "connect_accepted_socket",
    }
)
