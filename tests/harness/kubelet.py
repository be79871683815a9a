"""A node that runs pods: Kubernetes' own kubelet over Debian's containerd, joined to a `Cluster`.

Owns `Node`. Pods get addresses of a bridge of this machine, `GATEWAY`, at which a test can serve
them; no other machine is reached, and no name is looked up. Images are those of the engine that
`docker` asks. Root, on Linux, with cgroups of either version: containers have theirs, pods none.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from halfhitch.embedded import EmbeddedKafka
from halfhitch.embedded.ports import HeldPorts
from halfhitch.embedded.processes import ServerProcess
from harness.cluster import Rejected, program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from harness.cluster import Cluster

NAME: Final = "node"
GATEWAY: Final = "10.213.0.1"
_SUBNET: Final = "10.213.0.0/24"
_BRIDGE: Final = "halfhitch0"
#: As containerd names the parent of them all.
_CGROUP: Final = "k8s.io"
_PAUSE: Final = "halfhitch-pause:1"
_COMMAND_S: Final = 300
_START_S: Final = 120.0
_GRACE_S: Final = 10.0
_NODE: Final = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}}
#: What keeps a pod's namespaces, and does nothing.
_PAUSING: Final = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit()); signal.pause()"
)


class Node:
    """For as long as the block lasts. `image` is run by pods, also under the names in `more`."""

    def __init__(self, cluster: Cluster, image: str, *more: str) -> None:
        self._cluster = cluster
        self._images = (image, *more)
        self._folder = Path(tempfile.mkdtemp(prefix="halfhitch-node-"))
        self._ports = HeldPorts()
        self._processes: list[ServerProcess] = []

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
        traceback: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):
            process.terminate(grace_s=_GRACE_S)
        self._ports.close()
        self._end_containers()
        _run("ip", "link", "delete", _BRIDGE, may_fail=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{GATEWAY}/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")
        self._start_containerd()
        self._load_images()
        self._start_kubelet()
        self._cluster.await_true(self._is_ready, _START_S)

    @property
    def _socket(self) -> Path:
        return self._folder / "containerd.sock"

    def _serve(self, name: str, *command: str) -> ServerProcess:
        tools = program("node") / "usr"
        path = f"{tools / 'bin'}:{tools / 'sbin'}:{os.environ['PATH']}:/usr/sbin:/sbin"
        log = self._folder / f"{name}.log"
        process = ServerProcess(name, command, log=log, environment={**os.environ, "PATH": path})
        self._processes.append(process)
        return process

    def _start_containerd(self) -> None:
        tools, folder = program("node") / "usr", self._folder
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": _BRIDGE,
                    "isGateway": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(folder / "addresses"),
                        "ranges": [[{"subnet": _SUBNET}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }
        (folder / "network").mkdir()
        (folder / "network" / "pods.conflist").write_text(json.dumps(network))
        settings = folder / "containerd.toml"
        settings.write_text(
            f"""version = 2
root = "{folder / "images"}"
state = "{folder / "running"}"
[grpc]
address = "{self._socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{_PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{tools / "lib" / "cni"}"
conf_dir = "{folder / "network"}"
"""
        )
        containerd = tools / "bin" / "containerd"
        process = self._serve("containerd", str(containerd), "--config", str(settings))
        self._cluster.await_true(lambda: self._answers(process), _START_S)

    def _answers(self, process: ServerProcess) -> bool:
        assert process.ending is None, process.log_tail()
        return self._ctr("version", may_fail=True).returncode == 0

    def _ctr(self, *arguments: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        ctr = program("node") / "usr" / "bin" / "ctr"
        given = ("--address", str(self._socket), "--namespace", "k8s.io", *arguments)
        return _run(str(ctr), *given, may_fail=may_fail)

    def _load_images(self) -> None:
        image, *more = self._images
        pause = f"FROM {image}\nENTRYPOINT {json.dumps(['python', '-c', _PAUSING])}\n"
        _run("docker", "build", "--quiet", "--tag", _PAUSE, "-", text=pause)
        for name in more:
            _run("docker", "tag", image, name)
        saved = self._folder / "images.tar"
        _run("docker", "save", "--output", str(saved), _PAUSE, *self._images)
        self._ctr("images", "import", str(saved))
        saved.unlink()

    def _start_kubelet(self) -> None:
        folder = self._folder
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "address": "127.0.0.1",
            "port": self._ports.take(),
            "healthzPort": 0,
            "authentication": {"webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "podLogsDir": str(folder / "logs"),
            "volumePluginDir": str(folder / "plugins"),
            "resolvConf": str(folder / "resolv.conf"),
            # This machine's own life is none of its business.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "localStorageCapacityIsolation": False,
            "enableControllerAttachDetach": False,
            "evictionHard": {"memory.available": "1Mi"},
            "imageGCHighThresholdPercent": 100,
        }
        given = folder / "kubelet.json"
        given.write_text(json.dumps(settings))
        self._serve(
            "kubelet",
            *(str(program("kubelet")), f"--config={given}", f"--hostname-override={NAME}"),
            *(f"--kubeconfig={self._cluster.kubeconfig}", f"--root-dir={folder / 'kubelet'}"),
            f"--cert-dir={folder / 'certificates'}",
        )

    def _is_ready(self) -> bool:
        for process in self._processes:
            assert process.ending is None, f"{process.name} {process.ending}\n{process.log_tail()}"
        try:
            said = self._cluster.read(_NODE)["status"].get("conditions", ())
        except Rejected:
            return False
        return any(one["type"] == "Ready" and one["status"] == "True" for one in said)

    def _end_containers(self) -> None:
        """They and their shims outlive both; what they have mounted too."""
        for shim in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = shim.read_bytes()
            except OSError:
                continue  # it has just ended
            if b"containerd-shim" in words and os.fsencode(self._socket) in words:
                self._end_shim(int(shim.parent.name))
        mounted = [
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ]
        for place in sorted((p for p in mounted if p.startswith(str(self._folder))), reverse=True):
            _run("umount", "--lazy", place, may_fail=True)
        cgroups = Path("/sys/fs/cgroup")
        for group in (cgroups / _CGROUP, *cgroups.glob(f"*/{_CGROUP}")):
            with contextlib.suppress(OSError):  # somebody else's containers are in it
                group.rmdir()

    @staticmethod
    def _end_shim(pid: int) -> None:
        """Its containers first: it is the parent of their first processes."""
        children = Path(f"/proc/{pid}/task/{pid}/children")
        for child in children.read_text().split() if children.exists() else ():
            _kill(int(child))
        _kill(pid)

    def set_schedulable(self, *, schedulable: bool) -> None:
        """As `kubectl uncordon` and `kubectl cordon` do."""
        self._cluster.change(_NODE, {"spec": {"unschedulable": not schedulable}})

    def told(self) -> str:
        """The ends of the logs, for whoever looks for a cause."""
        return "\n".join(process.log_tail() for process in self._processes)


@contextlib.contextmanager
def kafka_for_pods() -> Iterator[tuple[EmbeddedKafka, str]]:
    """A Kafka, and where pods reach it; while there is a node."""
    ports = HeldPorts()
    own, of_pods, controller = (ports.take() for _ in range(3))
    clients = f"PLAINTEXT://127.0.0.1:{own},PODS://{GATEWAY}:{of_pods}"
    properties = {
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PODS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    try:
        with EmbeddedKafka(ports=[own], properties=properties, short_lived=True) as kafka:
            yield kafka, f"{GATEWAY}:{of_pods}"
    finally:
        ports.close()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _run(
    *command: str, may_fail: bool = False, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=_COMMAND_S
    )
    assert may_fail or done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done
