"""A real API server of Kubernetes over a real etcd, and its controllers.

Owns `Cluster`: what it is given it validates, defaults, admits and stores as in any cluster. With
`controllers` there are also the real controllers and scheduler, and a node that is only an entry:
no container ever starts, and a test says itself what a kubelet would (`say_of`). With `has_kubelet`
there is no such entry, for a real one makes its own (harness/kubelet.py). The programs come from
tests/harness/apiserver.sh (`make test-cluster`). All listen on loopback, in a temporary folder.
"""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from halfhitch.embedded import cache_root
from halfhitch.embedded.ports import HeldPorts
from halfhitch.embedded.processes import ServerProcess

if TYPE_CHECKING:
    from types import TracebackType

    from harness.charts import Object

#: As in apiserver.sh.
VERSION: Final = "1.36.0"
_START_S: Final = 120.0
_ANSWER_S: Final = 60.0
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_NODE: Final[Mapping[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node", "labels": {"kubernetes.io/os": "linux"}},
    "status": {
        "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


class Rejected(Exception):
    """The API server said no; the text is its own."""


def program(name: str) -> Path:
    """Where it is; raises with the command that brings it."""
    built = cache_root() / "kubernetes" / VERSION / name
    found = built if built.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not there: `make test-cluster` brings it.")
    return Path(found)


class Cluster:
    """One API server and its etcd, for as long as the block lasts."""

    def __init__(self, *, controllers: bool = False, has_kubelet: bool = False) -> None:
        self._has_controllers = controllers
        self._has_kubelet = has_kubelet
        self._folder = Path(tempfile.mkdtemp(prefix="halfhitch-cluster-"))
        self._ports = HeldPorts()
        self._processes: list[ServerProcess] = []
        self._port = 0
        self._token = secrets.token_hex(16)
        self._kinds: dict[str, dict[str, Object]] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):
            process.kill()
        self._ports.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        api_server, etcd = program("kube-apiserver"), program("etcd")
        clients, peers = (f"http://127.0.0.1:{self._ports.take()}" for _ in range(2))
        self._port = self._ports.take()
        self._run(
            "etcd",
            *(str(etcd), f"--data-dir={self._folder / 'etcd'}", "--unsafe-no-fsync"),
            *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
            *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
            f"--initial-cluster=default={peers}",
        )
        key, tokens = self._folder / "accounts.key", self._folder / "tokens.csv"
        making = ["openssl", "genrsa", "-out", str(key), "2048"]
        subprocess.run(making, check=True, capture_output=True, timeout=_ANSWER_S)
        tokens.write_text(f"{self._token},tests,tests,system:masters\n")
        self._run(
            "kube-apiserver",
            *(str(api_server), f"--etcd-servers={clients}", "--authorization-mode=RBAC"),
            *("--bind-address=127.0.0.1", f"--secure-port={self._port}"),
            *(f"--cert-dir={self._folder / 'certificates'}", f"--token-auth-file={tokens}"),
            "--service-account-issuer=https://kubernetes.default.svc",
            *(f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}"),
            "--service-cluster-ip-range=10.96.0.0/24",
        )
        self.await_true(self._is_ready, _START_S)
        authority = self._folder / "certificates" / "apiserver.crt"
        self._write_kubeconfig(authority)
        if self._has_controllers:
            self._start_controllers(key, authority)

    def _write_kubeconfig(self, authority: Path) -> None:
        server = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority": f"{authority}",
        }
        access = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": self._token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(json.dumps(access))

    def _start_controllers(self, key: Path, authority: Path) -> None:
        common = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0")
        manager, scheduler = program("kube-controller-manager"), program("kube-scheduler")
        keys = (f"--service-account-private-key-file={key}", f"--root-ca-file={authority}")
        self._run("kube-controller-manager", str(manager), *common, *keys)
        self._run("kube-scheduler", str(scheduler), *common)
        if not self._has_kubelet:
            self.create(dict(_NODE))

    @property
    def kubeconfig(self) -> Path:
        """What lets whoever has it do everything."""
        return self._folder / "kubeconfig"

    def _run(self, name: str, *command: str) -> None:
        log = self._folder / f"{name}.log"
        self._processes.append(ServerProcess(name, command, log=log, sweep=self._folder))

    def _is_ready(self) -> bool:
        for process in self._processes:
            assert process.ending is None, f"{process.name} {process.ending}\n{process.log_tail()}"
        try:
            return self._call("GET", "/readyz")[0] == http.client.OK
        except OSError:
            return False

    def await_true(self, question: Any, at_most_s: float = 60.0) -> None:
        """Ask until it is so: what is stored is not at once what is obeyed."""
        deadline_s = time.monotonic() + at_most_s
        while not question():
            if time.monotonic() > deadline_s:
                tails = "\n".join(process.log_tail() for process in self._processes)
                raise TimeoutError(f"not within {at_most_s:.0f} s\n{tails}")
            time.sleep(0.2)

    def _call(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> tuple[int, str]:
        # It has made its certificate itself, and wrote it down before it listened.
        certificate = self._folder / "certificates" / "apiserver.crt"
        if not certificate.is_file():
            raise FileNotFoundError(certificate)
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=_ANSWER_S, context=context
        )
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, body=text, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _asked(self, method: str, path: str, *more: Any) -> Object:
        status, text = self._call(method, path, *more)
        answer: Object = json.loads(text)
        if status >= http.client.BAD_REQUEST:
            raise Rejected(answer.get("message", text))
        return answer

    def knows(self, one: Mapping[str, Any]) -> bool:
        """Whether the API server has this kind."""
        return one["kind"] in self._of_version(one["apiVersion"])

    def _of_version(self, version: str) -> dict[str, Object]:
        """Its kinds by name, as the server tells them."""
        if version not in self._kinds:
            status, text = self._call("GET", _root(version))
            members = json.loads(text)["resources"] if status == http.client.OK else []
            self._kinds[version] = {
                each["kind"]: each for each in members if "/" not in each["name"]
            }
        return self._kinds[version]

    def _path(self, one: Mapping[str, Any]) -> str:
        kind = self._of_version(one["apiVersion"])[one["kind"]]
        namespace = one["metadata"].get("namespace", "shop")
        place = f"/namespaces/{namespace}" if kind["namespaced"] else ""
        return f"{_root(one['apiVersion'])}{place}/{kind['name']}"

    def apply(self, one: Object, *, dry_run: bool = False) -> Object:
        """As `kubectl apply --server-side` does, and no field may be unknown."""
        query = "fieldManager=tests&force=true&fieldValidation=Strict"
        path = f"{self._path(one)}/{one['metadata']['name']}?{query}"
        return self._asked("PATCH", path + ("&dryRun=All" if dry_run else ""), one, _APPLY)

    def create(self, one: Object, *, dry_run: bool = False) -> Object:
        """As `kubectl create` does."""
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self._asked("POST", self._path(one) + query, one)

    def read(self, one: Mapping[str, Any]) -> Object:
        """As it is now."""
        return self._asked("GET", f"{self._path(one)}/{one['metadata']['name']}")

    def all_of(self, version: str, kind: str, selector: str = "") -> list[Object]:
        """What there is of a kind in the namespace `shop`, by labels."""
        path = self._path({"apiVersion": version, "kind": kind, "metadata": {}})
        found: list[Object] = self._asked("GET", f"{path}?labelSelector={selector}")["items"]
        return found

    def say_of(self, pod: Object, status: Object) -> None:
        """What a kubelet would write down of it."""
        whole = {**pod, "apiVersion": "v1", "kind": "Pod"}
        path = f"{self._path(whole)}/{pod['metadata']['name']}/status"
        self._asked("PATCH", path, {"status": status}, _MERGE)

    def evict(self, pod: Object) -> None:
        """As `kubectl drain` does; `Rejected` where a budget does not allow it."""
        path = f"{self._path({**pod, 'apiVersion': 'v1', 'kind': 'Pod'})}/{pod['metadata']['name']}"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": pod["metadata"]}
        self._asked("POST", f"{path}/eviction", eviction)

    def change(self, one: Mapping[str, Any], more: Object) -> Object:
        """As `kubectl patch --type merge` does."""
        return self._asked("PATCH", f"{self._path(one)}/{one['metadata']['name']}", more, _MERGE)

    def delete(self, one: Object, *, in_order: bool = False) -> None:
        """At once, without waiting for a kubelet that is not there; or as the pods have asked."""
        path = f"{self._path(one)}/{one['metadata']['name']}"
        grace: Object = {} if in_order else {"gracePeriodSeconds": 0}
        self._asked("DELETE", path, {"propagationPolicy": "Background", **grace})


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def namespace(name: str, *accounts: str) -> list[Object]:
    """A namespace with its accounts. A controller would make the one that is called `default`."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        *(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": name},
            }
            for account in ("default", *accounts)
        ),
    ]
