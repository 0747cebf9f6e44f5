"""TVM's `tvm.micro.project`: projects of a template and a model, built, flashed and driven."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.micro.errors import MicroError, MicroInputError
from mlftool.micro.framing import Unframer
from mlftool.micro.project_api.client import ProjectAPIClient, instantiate_from_dir
from mlftool.micro.transport import Transport, TransportTimeouts
from mlftool.mlf.runtime_tree import crt_root
from mlftool.version import VERSION

_TEMPLATES = Path(__file__).resolve().parent / "templates"


class TemplateProjectError(MicroError):
    """A project was expected, and the folder is a template."""


class NotATemplateProjectError(MicroError):
    """A template was expected, and the folder is a project."""


def template_names() -> tuple[str, ...]:
    """The templates that come with mlftool."""
    return tuple(sorted(p.parent.name for p in _TEMPLATES.glob("*/microtvm_api_server.py")))


def get_microtvm_template_projects(platform: str) -> str:
    """The folder of a template of ours; `crt` is TVM's name of `host`."""
    name = "host" if platform == "crt" else platform
    if name not in template_names():
        hint = f"ours: {', '.join(template_names())}; others by --template-dir, or their folder"
        raise MicroInputError(f"no template '{platform}' comes with mlftool", help=hint)
    return str(_TEMPLATES / name)


def archive_of(project: Path) -> Path:
    """The archive in a generated project. Raises MlfError for another folder."""
    archive = project / "model.tar"
    if os.path.isfile(archive):  # of a name that is too long, too
        return archive
    hint = f"mlftool micro create {shlex.quote(str(project))} FILE.tar PLATFORM makes one"
    text = "is not a generated project: it has no model.tar"
    raise MlfError(Problem("MLF0501", text, str(project), help=hint))


def check_built(project: Path) -> None:
    """Raises MlfError for a project that was not built."""
    if not (project / "build").is_dir():
        hint = shlex.join(["mlftool", "micro", "build", str(project)])
        raise MlfError(
            Problem("MLF0609", "the project has not been built", str(project), help=hint)
        )


def checked_options(
    given: Mapping[str, Any] | None, known: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """All options of a server, with the defaults of those not given. Raises MicroError."""
    defaults = {option["name"]: option.get("default") for option in known}
    for name in given or {}:
        if name not in defaults:
            hint = did_you_mean(name, defaults)
            raise MicroInputError(
                f"unknown project option '{name}'", help=hint or ", ".join(defaults)
            )
    return {**defaults, **{name: _placed(name, value) for name, value in (given or {}).items()}}


def _placed(name: str, value: Any) -> Any:
    """The value of an option for a server, which runs in its own folder: paths that exist here, by
    names such as board_dir, cmsis_path and extra_files_tar, are made absolute."""
    is_path = isinstance(value, str | os.PathLike) and name.endswith(("_dir", "_path", "_tar"))
    return os.path.abspath(value) if is_path and os.path.exists(value) else value


def option_values(words: Sequence[str]) -> dict[str, str]:
    """Options as a command line has them, NAME=VALUE each. Raises MicroError."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise MicroInputError(f"--project-option: got '{word}', expected NAME=VALUE")
        found[name] = value
    return found


class ProjectTransport(Transport):
    """The line of a project, through its server."""

    def __init__(
        self, client: ProjectAPIClient, options: Mapping[str, Any], reads_what_is_there: bool
    ) -> None:
        self._client, self._options = client, dict(options)
        self._timeouts = TransportTimeouts()
        self._reads_what_is_there = reads_what_is_there
        self._frames = Unframer()

    def timeouts(self) -> TransportTimeouts:
        """Of the project; those of 0, for ever, are ours."""
        return self._timeouts

    def open(self) -> None:
        found = self._client.open_transport(self._options)
        ours = vars(TransportTimeouts())
        self._timeouts = TransportTimeouts(**{k: found.get(k) or v for k, v in ours.items()})
        self._frames = Unframer()

    def close(self) -> None:
        if not self._client.is_shutdown:
            self._client.close_transport()

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        """A server of TVM's waits until it has all that it is asked for."""
        if self._reads_what_is_there:
            return self._client.read_transport(n, timeout_sec)
        data = self._client.read_transport(min(n, self._frames.needed()), timeout_sec)
        for _ in self._frames.feed(data):
            pass
        return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        self._client.write_transport(data, timeout_sec)


_S = TypeVar("_S", bound="_Served")


class _Served:
    """What has a server."""

    def __init__(self, client: ProjectAPIClient) -> None:
        self._client = client
        self._info = client.server_info_query(VERSION)

    def info(self) -> dict[str, Any]:
        """What the server says of itself: its platform and options."""
        return self._info

    def close(self) -> None:
        """Ends the server."""
        self._client.shutdown()

    def __enter__(self: _S) -> _S:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class GeneratedProject(_Served):
    """A project that was generated: `build` it, `flash` it, and drive its `transport()`."""

    @classmethod
    def from_directory(
        cls, project_dir: str | os.PathLike[str], options: Mapping[str, Any] | None = None
    ) -> GeneratedProject:
        return cls(instantiate_from_dir(project_dir), options)

    def __init__(
        self, api_client: ProjectAPIClient, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(api_client)
        if self._info["is_template"]:
            self.close()
            raise TemplateProjectError("the folder is a template; generate a project of it")
        self.options = checked_options(options, self._info["project_options"])

    def build(self) -> None:
        self._client.build(self.options)

    def flash(self) -> None:
        self._client.flash(self.options)

    def transport(self) -> ProjectTransport:
        """The line, for a Session."""
        partial = self._info.get("reads_what_is_there") is True
        return ProjectTransport(self._client, self.options, partial)


class TemplateProject(_Served):
    """A template."""

    @classmethod
    def from_directory(cls, template_project_dir: str | os.PathLike[str]) -> TemplateProject:
        return cls(instantiate_from_dir(template_project_dir))

    def __init__(self, api_client: ProjectAPIClient) -> None:
        super().__init__(api_client)
        if not self._info["is_template"]:
            self.close()
            raise NotATemplateProjectError("the folder is a generated project, not a template")

    def generate_project_from_mlf(
        self,
        model_library_format_path: str | os.PathLike[str],
        project_dir: str | os.PathLike[str],
        options: Mapping[str, Any] | None = None,
    ) -> GeneratedProject:
        archive, folder = Path(model_library_format_path).resolve(), Path(project_dir).resolve()
        every = checked_options(options, self._info["project_options"])
        self._client.generate_project(archive, crt_root(), folder, every)
        return GeneratedProject.from_directory(folder, options)

    def generate_project(
        self,
        graph_executor_factory: Any,
        project_dir: str | os.PathLike[str],
        options: Mapping[str, Any] | None = None,
    ) -> GeneratedProject:
        """The same of a module that `mlftool.relay.build` or `mlftool.build` made."""
        from mlftool.api import export_model_library_format

        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "model.tar"
            export_model_library_format(graph_executor_factory, archive)
            return self.generate_project_from_mlf(archive, project_dir, options)


def generate_project(
    template_project_dir: str | os.PathLike[str],
    module: Any,
    generated_project_dir: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
) -> GeneratedProject:
    """TVM's function: a project of a template and a compiled module. The folder must not exist."""
    with TemplateProject.from_directory(template_project_dir) as template:
        return template.generate_project(module, generated_project_dir, options)


def generate_project_from_mlf(
    template_project_dir: str | os.PathLike[str],
    project_dir: str | os.PathLike[str],
    mlf_path: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
) -> GeneratedProject:
    """TVM's function: a project of a template and an archive. The folder must not exist."""
    with TemplateProject.from_directory(template_project_dir) as template:
        return template.generate_project_from_mlf(mlf_path, project_dir, options)
