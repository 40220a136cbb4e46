"""Ask a genuine API server what the cases of tests/data/admission answer, and keep that.

    python -m scripts.record_admission_answers [BEGINNING_OF_ID ...]

Named cases replace what is kept of them. The server's programs are those of `scripts/build_kubernetes.py`.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.admission_cases import ANSWERS, Case, cases, told
from support.genuine import GenuinePlane, control_plane
from support.webhook_server import webhooks

_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


class Server:
    """A control plane that is asked over HTTPS as its administrator."""

    def __init__(self, plane: GenuinePlane) -> None:
        self._url = plane.programs.url
        self._token = plane.token
        self._tls = ssl.create_default_context(cafile=str(plane.files.certificate("ca")))

    def send(self, method: str, path: str, body: Any, kind: str) -> tuple[int, Any, list[str]]:
        """Code, answer and warnings."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
                return answer.status, json.loads(answer.read()), _warnings(answer.headers)
        except urllib.error.HTTPError as error:
            said = error.read()
            status = json.loads(said) if said.startswith(b"{") else {"message": said.decode()}
            return error.code, status, _warnings(error.headers)

    def play(self, case: Case, values: dict[str, str]) -> list[dict[str, Any]]:
        """Every step's answer; what the case made is gone afterwards."""
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        metadata = {"name": case.id, "labels": case.labels}
        self.send("POST", "/api/v1/namespaces", {**namespace, "metadata": metadata}, "application/json")
        answers, made = [], []
        for step in case.steps:
            code, answer, warnings = self.send(step.method, step.path, step.body, step.content_type)
            answers.append(told(code, answer, warnings, step, values))
            if code == 201 and step.cluster_wide:
                made.append(f"{step.path.partition('?')[0]}/{answer['metadata']['name']}")
            time.sleep(step.wait_s if code < 400 else 0)
        for path in reversed(made):
            self.send("DELETE", path, None, "application/json")
        return answers


def _warnings(headers: Any) -> list[str]:
    lines = headers.get_all("Warning") or []
    return [re.sub(r"\\(.)", r"\1", text) for line in lines for text in _WARNING.findall(line)]


def main() -> None:
    """Record the cases named, or all."""
    wanted = set(sys.argv[1:])
    kept = json.loads(ANSWERS.read_text()) if ANSWERS.exists() and wanted else {}
    os.environ["KUBERNETES_VERSION"] = "1.35"
    with (
        tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder,
        control_plane(Path(folder), "--disable-admission-plugins=ServiceAccount") as plane,
        webhooks() as values,
    ):
        server = Server(plane)
        for case in cases(values):
            if not wanted or any(case.id.startswith(one) for one in wanted):
                kept[case.id] = server.play(case, values)
    known = {case.id for case in cases()}
    kept = {key: answers for key, answers in sorted(kept.items()) if key in known}
    ANSWERS.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
