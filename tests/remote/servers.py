"""Real servers on the loopback interface, each for one test session in a folder of its own.

nginx as HTTP cache; BuildGrid as gRPC cache and, with PostgreSQL and bot.py, as execution service.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(os.path.abspath(__file__)).parent
# The packages of requirements-remote.lock as Bazel lays them; without Bazel, those of this Python.
SITE = HERE.parents[2] / "mlf_python_remote" / "site"
POSTGRES = Path("/usr/lib/postgresql")
INSTANCE = "main"
LOCAL = "127.0.0.1"


class MissingError(Exception):
    """A server that is not installed."""


def port() -> int:
    """A free one; somebody else could take it before the server does, which then ends at once."""
    with socket.socket() as one:
        one.bind((LOCAL, 0))
        return int(one.getsockname()[1])


def environment() -> dict[str, str]:
    site = {"PYTHONPATH": str(SITE)} if SITE.exists() else {}
    return {**os.environ, **site, "PYTHONUNBUFFERED": "1"}


@contextmanager
def process(command: Sequence[object], log: Path, user: str | None = None) -> Iterator[None]:
    """Runs while the block does; its talk goes to `log`."""
    with log.open("ab") as out:
        running = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env=environment(), user=user, cwd="/",
        )  # fmt: skip
        try:
            yield
        finally:
            running.terminate()
            try:
                running.wait(timeout=20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def wait_for(number: int, log: Path, seconds: float = 60) -> None:
    """Until somebody listens at the port."""
    end = time.monotonic() + seconds
    while True:
        with socket.socket() as one:
            if one.connect_ex((LOCAL, number)) == 0:
                return
        assert time.monotonic() < end, log.read_text()[-4000:]
        time.sleep(0.05)


NGINX = """daemon off; worker_processes 2; pid {folder}/pid; {user}
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen {local}:{port};
    root {folder}/data;
    client_max_body_size 0;
    location / {{
      dav_methods PUT;
      create_full_put_path on;
      client_body_in_file_only off;
    }}
  }}
}}
"""


@contextmanager
def nginx(folder: Path) -> Iterator[str]:
    """The cache's address."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if not program:
        raise MissingError("nginx is not installed: apt-get install nginx-light")
    (folder / "data").mkdir(parents=True)
    number, log = port(), folder / "error.log"
    # As root nginx gives its workers to another user, who could write nothing here.
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, local=LOCAL, port=number, user=user))
    with process([program, "-p", folder, "-c", config, "-e", log], log):
        wait_for(number, log)
        yield f"http://{LOCAL}:{number}"


@contextmanager
def postgres() -> Iterator[str]:
    """A new database's address, as SQLAlchemy spells it."""
    versions = sorted(POSTGRES.glob("*/bin/initdb"))
    if not versions:
        raise MissingError("PostgreSQL is not installed: apt-get install postgresql")
    programs = versions[-1].parent
    # PostgreSQL refuses to run as root, and its user cannot reach into pytest's private folders.
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="mlf_postgres_"))
    try:
        shutil.chown(folder, user)
        data, log, number = folder / "data", folder / "log", port()
        init = [
            programs / "initdb",
            "-D",
            data,
            "-A",
            "trust",
            "-U",
            "bgd",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(
            init, user=user, check=True, capture_output=True, cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        server = [programs / "postgres", "-D", data, "-p", number, "-k", folder]
        server += [
            "-c",
            f"listen_addresses={LOCAL}",
            "-c",
            "fsync=off",
            "-c",
            "shared_buffers=32MB",
        ]
        with process(server, log, user):
            wait_for(number, log)
            yield f"postgresql+psycopg2://bgd@{LOCAL}:{number}/postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


BUILDGRID = """server:
  - !channel {{address: "{address}", insecure-mode: true}}
thread-pool-size: 200
monitoring: {{enabled: false}}
connections: [{connections}]
storages:
  - !lru-storage &storage {{size: 2G}}
caches:
  - !lru-action-cache &cache
    {{storage: *storage, max-cached-refs: 10000, cache-failed-actions: false, allow-updates: true}}
{schedulers}
instances:
  - name: {instance}
    services:
      - !action-cache {{cache: *cache}}
      - !cas {{storage: *storage}}
      - !bytestream {{storage: *storage}}
{execution}
"""
SCHEDULERS = """schedulers:
  - !sql-scheduler &scheduler
    sql: *sql
    storage: *storage
    action-cache: *cache
    poll-interval: 0.1
    bot-poll-interval: 0.1
    property-set: !dynamic-property-set
      match-property-keys: [OSFamily]
    assigners:
      - !priority-age-assigner {count: 1, interval: 0.05, jitter-factor: 0.1}
"""
EXECUTION = "      - !execution {scheduler: *scheduler}"


@dataclass
class Service:
    """Where BuildGrid listens; `log` is for messages about failures."""

    address: str
    log: Path

    def cache_options(self) -> list[str]:
        return [f"--remote_cache=grpc://{self.address}", f"--remote_instance_name={INSTANCE}"]

    def execution_options(self) -> list[str]:
        return [f"--remote_executor=grpc://{self.address}", f"--remote_instance_name={INSTANCE}"]


def bgd(*arguments: object) -> list[object]:
    """BuildGrid's command line, whichever folder its packages lie in."""
    start = "import sys; from buildgrid.server.app import cli; sys.argv[0] = 'bgd'; cli()"
    return [sys.executable, "-c", start, *arguments]


@contextmanager
def buildgrid(folder: Path, database: str | None = None) -> Iterator[Service]:
    """CAS and action cache; with a database also execution."""
    if not SITE.exists():
        try:
            import buildgrid  # noqa: F401
        except ImportError:
            remedy = "pip install --require-hashes -r requirements-remote.lock"
            raise MissingError(f"BuildGrid is not installed: {remedy}") from None
    folder.mkdir(parents=True)
    number, log, config = port(), folder / "log", folder / "config.yml"
    address = f"{LOCAL}:{number}"
    sql = f"!sql-connection &sql {{connection-string: '{database}', pool-size: 20}}"
    config.write_text(
        BUILDGRID.format(
            address=address,
            instance=INSTANCE,
            connections=sql if database else "",
            schedulers=SCHEDULERS if database else "",
            execution=EXECUTION if database else "",
        )
    )
    if database:
        subprocess.run(
            list(map(str, bgd("migrate", "apply", database))), check=True, env=environment(),
            timeout=120, stdout=log.open("wb"), stderr=subprocess.STDOUT,
        )  # fmt: skip
    with process(bgd("server", "start", config), log):
        wait_for(number, log)
        yield Service(address, log)


@contextmanager
def execution(folder: Path, bots: int = 2) -> Iterator[Service]:
    """BuildGrid with its database and as many bots."""
    with ExitStack() as stack:
        database = stack.enter_context(postgres())
        service = stack.enter_context(buildgrid(folder, database))
        for i in range(bots):
            bot = [sys.executable, HERE / "bot.py", service.address, INSTANCE, folder / f"bot{i}"]
            stack.enter_context(process(bot, folder / f"bot{i}.log"))
        yield service
