"""`python -m support.churn.official_program KUBECONFIG [IDENTITY]`: the official client lists and watches.

It says what it sees; with an identity it stands for a Lease as well. Each line of its input asks what it
believes; it ends with its input.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from importlib import import_module
from typing import Any, Final

from support.churn.account import Line
from support.churn.client_lines import answering, say

client: Any = import_module("kubernetes.client")  # where types are checked, the name is a folder's of tests
watch: Any = import_module("kubernetes.watch")
urllib3: Any = import_module("urllib3")
LEASE: Final = "leader-python"
_LONGEST_S: Final = 5


def _follow(believed: dict[str, str]) -> None:
    api = client.CoreV1Api()
    while True:
        try:
            listed = api.list_namespaced_config_map("default")
            objects = {one.metadata.name: one.metadata.resource_version for one in listed.items}
            believed.clear()
            believed.update(objects)
            version = listed.metadata.resource_version
            say(Line("LIST", version=version, objects=objects))
            _watch(api, believed, version)
        except client.ApiException as error:
            say(Line("ERROR", detail=f"{error.status} {error.reason}"))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            say(Line("ERROR", detail=type(error).__name__))
            time.sleep(0.1)


def _watch(api: Any, believed: dict[str, str], version: str) -> None:
    """Watch after watch, each from where the last one ended; until one is refused."""
    while True:
        say(Line("WATCH", version=version))
        watching = watch.Watch()
        options = {"resource_version": version, "timeout_seconds": random.randint(1, _LONGEST_S)}
        try:
            for event in watching.stream(
                api.list_namespaced_config_map, "default", allow_watch_bookmarks=True, **options
            ):
                metadata = event["raw_object"]["metadata"]
                name, version = metadata.get("name", ""), metadata["resourceVersion"]
                say(Line(event["type"], name=name, version=version))
                if event["type"] == "DELETED":
                    believed.pop(name, None)
                elif event["type"] != "BOOKMARK":
                    believed[name] = version
        except (urllib3.exceptions.HTTPError, OSError) as error:
            say(Line("ERROR", detail=type(error).__name__))
            time.sleep(random.random())


def _lead(identity: str) -> None:
    election: Any = import_module("kubernetes.leaderelection.leaderelection")
    settings_of: Any = import_module("kubernetes.leaderelection.electionconfig")
    locks: Any = import_module("kubernetes.leaderelection.resourcelock.leaselock")
    while True:
        settings = settings_of.Config(
            locks.LeaseLock(LEASE, "default", identity),
            lease_duration=4,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lambda: say(Line("leads", name=identity)),
            onstopped_leading=lambda: say(Line("leads no more", name=identity)),
        )
        try:
            election.LeaderElection(settings).run()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            say(Line("ERROR", name=identity, detail=type(error).__name__))
            time.sleep(0.2)


def main() -> None:
    config: Any = import_module("kubernetes.config")
    config.load_kube_config(sys.argv[1])
    believed: dict[str, str] = {}
    threading.Thread(target=_follow, args=(believed,), daemon=True).start()
    for identity in sys.argv[2:]:
        threading.Thread(target=_lead, args=(identity,), daemon=True).start()
    answering(believed)


if __name__ == "__main__":
    main()
