"""A worker for BuildGrid, which brings none: `bot.py HOST:PORT INSTANCE FOLDER`.

Asks for leases by the Remote Worker API and runs each as the Remote Execution API says: in a folder
that holds the action's inputs and nothing else, with the command's environment and nothing else.
What lies outside of the folder, such as compilers, is this machine's. One lease at a time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as rex
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2_grpc as rex_grpc
from buildgrid._protos.google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import (
    bots_pb2,
    bots_pb2_grpc,
    worker_pb2,
)

PIECE = 1 << 20  # bytes per message of a stream
BATCH = 3 << 20  # bytes per message of many blobs; gRPC's own limit is 4 MiB
LONG_POLL = 20.0
FAILED = 9  # google.rpc.Code.FAILED_PRECONDITION


def digest_of(data: bytes) -> Any:
    return rex.Digest(hash=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


class Store:
    """The content-addressable storage, with every blob that was fetched kept in a folder."""

    def __init__(self, channel: grpc.Channel, instance: str, folder: Path) -> None:
        self.instance, self.folder = instance, folder
        self.blobs = rex_grpc.ContentAddressableStorageStub(channel)
        self.streams = bytestream_pb2_grpc.ByteStreamStub(channel)

    def path(self, digest: Any, executable: bool = False) -> Path:
        """Where the blob is kept. Links to one file share its mode, so each mode has its own."""
        return self.folder / (digest.hash + ("x" if executable else ""))

    def message(self, kind: Any, digest: Any) -> Any:
        self.fetch([(digest, False)])
        return kind.FromString(self.path(digest).read_bytes())

    def fetch(self, wanted: Iterable[tuple[Any, bool]]) -> None:
        """Have all of them in the folder."""
        missing = {self.path(d, x): (d, x) for d, x in wanted if not self.path(d, x).exists()}
        batch: list[tuple[Any, bool]] = []
        for digest, executable in missing.values():
            if digest.size_bytes > PIECE:
                self._keep(digest, executable, b"".join(self._read(digest)))
                continue
            if batch and sum(d.size_bytes for d, _ in batch) + digest.size_bytes > BATCH:
                self._fetch_batch(batch)
                batch = []
            batch.append((digest, executable))
        if batch:
            self._fetch_batch(batch)

    def _read(self, digest: Any) -> Iterator[bytes]:
        name = f"{self.instance}/blobs/{digest.hash}/{digest.size_bytes}"
        for piece in self.streams.Read(bytestream_pb2.ReadRequest(resource_name=name)):
            yield piece.data

    def _fetch_batch(self, batch: list[tuple[Any, bool]]) -> None:
        digests = {d.hash: d for d, _ in batch}
        request = rex.BatchReadBlobsRequest(
            instance_name=self.instance, digests=list(digests.values())
        )
        found = {r.digest.hash: r for r in self.blobs.BatchReadBlobs(request).responses}
        for digest, executable in batch:
            answer = found[digest.hash]
            if answer.status.code:
                raise FileNotFoundError(f"{digest.hash}: {answer.status.message}")
            self._keep(digest, executable, answer.data)

    def _keep(self, digest: Any, executable: bool, data: bytes) -> None:
        path = self.path(digest, executable)
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.chmod(0o555 if executable else 0o444)
        part.rename(path)

    def add(self, data: bytes) -> Any:
        """Stores `data`; its digest."""
        digest = digest_of(data)
        if len(data) <= PIECE:
            request = rex.BatchUpdateBlobsRequest(instance_name=self.instance)
            request.requests.add(digest=digest, data=data)
            self.blobs.BatchUpdateBlobs(request)
        else:
            self.streams.Write(self._pieces(digest, data))
        return digest

    def _pieces(self, digest: Any, data: bytes) -> Iterator[Any]:
        name = f"{self.instance}/uploads/{uuid.uuid4()}/blobs/{digest.hash}/{len(data)}"
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            yield bytestream_pb2.WriteRequest(
                resource_name=name, write_offset=at, data=piece,
                finish_write=at + len(piece) == len(data),
            )  # fmt: skip


def lay_out(store: Store, root: Any, folder: Path) -> None:
    """The input tree under `folder`: files are links to what the store keeps."""
    files: list[tuple[Any, bool]] = []
    places: list[tuple[Path, Any, bool]] = []
    folders = [(folder, root)]
    while folders:
        here, digest = folders.pop()
        here.mkdir(parents=True, exist_ok=True)
        directory = store.message(rex.Directory, digest)
        folders += [(here / d.name, d.digest) for d in directory.directories]
        for link in directory.symlinks:
            (here / link.name).symlink_to(link.target)
        for file in directory.files:
            files.append((file.digest, file.is_executable))
            places.append((here / file.name, file.digest, file.is_executable))
    store.fetch(files)
    for place, digest, executable in places:
        os.link(store.path(digest, executable), place)


def tree_of(store: Store, folder: Path, below: list[Any]) -> Any:
    """The Directory message of a folder; those of its folders are appended to `below`."""
    message = rex.Directory()
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            child = tree_of(store, path, below)
            below.append(child)
            message.directories.add(name=path.name, digest=digest_of(child.SerializeToString()))
        else:
            message.files.add(
                name=path.name, digest=store.add(path.read_bytes()), is_executable=is_program(path)
            )
    return message


def is_program(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)


def collect(store: Store, command: Any, folder: Path, result: Any) -> None:
    """Stores the outputs that the command has made; those it has not made are left out."""
    for name in [*command.output_files, *command.output_directories, *command.output_paths]:
        path = folder / name
        if path.is_dir():
            below: list[Any] = []
            tree = rex.Tree(root=tree_of(store, path, below), children=below)
            digest = store.add(tree.SerializeToString())
            result.output_directories.add(path=name, tree_digest=digest)
        elif path.exists():
            digest = store.add(path.read_bytes())
            result.output_files.add(path=name, digest=digest, is_executable=is_program(path))


def patiently(call: Callable[..., Any], request: Any) -> Any:
    """The answer; a busy service may need several calls. Saying a thing twice is fine."""
    for _ in range(4):
        try:
            return call(request, timeout=LONG_POLL)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
                raise
    return call(request, timeout=LONG_POLL)


@dataclass
class Bot:
    """A session with the service."""

    channel: grpc.Channel
    store: Store
    instance: str
    folder: Path

    def execute(self, action: Any) -> Any:
        """The ActionResult of an action."""
        command = self.store.message(rex.Command, action.command_digest)
        root = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            lay_out(self.store, action.input_root_digest, root)
            home = root / command.working_directory
            home.mkdir(parents=True, exist_ok=True)
            for name in [*command.output_files, *command.output_paths]:
                (home / name).parent.mkdir(parents=True, exist_ok=True)
            for name in command.output_directories:
                (home / name).mkdir(parents=True, exist_ok=True)
            result = self._run(command, home, action.timeout.seconds or 600)
            collect(self.store, command, home, result)
            return result
        finally:
            shutil.rmtree(root)

    def _run(self, command: Any, home: Path, seconds: int) -> Any:
        done = subprocess.run(
            list(command.arguments), cwd=home, capture_output=True, check=False,
            stdin=subprocess.DEVNULL, timeout=seconds,
            env={v.name: v.value for v in command.environment_variables},
        )  # fmt: skip
        result = rex.ActionResult(exit_code=done.returncode)
        for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
            if text:
                getattr(result, f"{name}_digest").CopyFrom(self.store.add(text))
        result.execution_metadata.worker = "tests/remote/bot.py"
        return result

    def complete(self, lease: Any) -> None:
        """Run the lease; whatever goes wrong is told in its status."""
        try:
            action = rex.Action()
            if not lease.payload.Unpack(action):
                digest = rex.Digest()
                lease.payload.Unpack(digest)
                action = self.store.message(rex.Action, digest)
            lease.result.Pack(self.execute(action))
        except (OSError, subprocess.SubprocessError, grpc.RpcError) as error:
            lease.status.code, lease.status.message = FAILED, f"bot: {error}"
        lease.state = bots_pb2.LeaseState.COMPLETED

    def serve(self) -> NoReturn:
        bots = bots_pb2_grpc.BotsStub(self.channel)
        session = bots_pb2.BotSession(
            bot_id=f"bot-{os.getpid()}",
            status=bots_pb2.BotStatus.OK,
            worker=worker_pb2.Worker(devices=[worker_pb2.Device(handle="here")]),
        )
        create = bots_pb2.CreateBotSessionRequest(parent=self.instance, bot_session=session)
        session = patiently(bots.CreateBotSession, create)
        while True:
            for lease in session.leases:
                if lease.state == bots_pb2.LeaseState.ACTIVE:
                    self.complete(lease)
            update = bots_pb2.UpdateBotSessionRequest(name=session.name, bot_session=session)
            session = patiently(bots.UpdateBotSession, update)


def main(arguments: list[str]) -> NoReturn:
    address, instance, name = arguments
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder = Path(name)
    (folder / "blobs").mkdir(parents=True)
    channel = grpc.insecure_channel(address)
    grpc.channel_ready_future(channel).result(timeout=60)
    Bot(channel, Store(channel, instance, folder / "blobs"), instance, folder).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
