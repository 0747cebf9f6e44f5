"""`mlftool micro create|build|flash|run DIR`: projects of boards, as `tvmc micro` has them."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlftool.cli.inputs import add_fill_mode
from mlftool.cli.options import check_outputs
from mlftool.cli.terminal import printed, put
from mlftool.cli.tvmc_run import largest
from mlftool.errors import MlfError, Problem

HELP = "generate, build, flash and run projects for boards that a host drives"
GROUP = "ship"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for names, text in (
        (("create", "create-project"), "create the project DIR from an archive"),
        (("build",), "compile a project"),
        (("flash",), "write a project's firmware to its board"),
    ):
        action = sub.add_parser(names[0], aliases=names[1:], help=text, description=text)
        action.add_argument("project_dir", metavar="DIR", type=Path)
        if names[0] == "create":
            action.add_argument("mlf", metavar="FILE.tar", type=Path)
            action.add_argument("--template-dir", metavar="TEMPLATE", type=Path,
                help="the folder of a template, where PLATFORM is template")  # fmt: skip
        if names[0] != "flash":
            action.add_argument("-f", "--force", action="store_true", help="replace what is there")
        action.add_argument("platform", metavar="PLATFORM", nargs="?", default="template",
            help="host, qemu or cmake; template for --template-dir")  # fmt: skip
        _add_options(action)
    text = "run a project's model over its line"
    action = sub.add_parser("run", help=text, description=text)
    action.add_argument("project_dir", metavar="DIR", type=Path)
    add = action.add_argument
    add("platform", metavar="PLATFORM", nargs="?", help="not needed: the project knows it")
    add("-i", "--inputs", metavar="IN.npz", type=Path, help="one inference's inputs, by name")
    add("-o", "--outputs", metavar="OUT.npz", type=Path, help="write output_0, output_1, ...")
    add_fill_mode(action)
    add("--print-top", metavar="N", type=int, help="print the N largest of each output")
    _add_options(action)


def _add_options(action: argparse.ArgumentParser) -> None:
    action.add_argument("--list-options", action="store_true",
        help="list the options that --project-option takes for this action")  # fmt: skip
    action.add_argument("--project-option", metavar="NAME=VALUE", nargs="+", action="extend",
        default=[], help="an option of the project; --list-options shows all")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from mlftool.micro.project import option_values

    options = option_values(args.project_option)
    actions = {"build": _build, "flash": _flash, "run": _run}
    actions.get(args.action, _create)(args, options)
    return 0


def _create(args: argparse.Namespace, options: Mapping[str, str]) -> None:
    from mlftool.micro.project import TemplateProject
    from mlftool.mlf import read_tar
    from mlftool.mlf.archive import read

    if args.platform == "template" and args.template_dir is None:
        raise MlfError(Problem("MLF0400", "the platform 'template' needs --template-dir"))
    with TemplateProject.from_directory(_template(args)) as template:
        if args.list_options:
            return _list("generate_project", template.info()["project_options"])
        read(read_tar(args.mlf), str(args.mlf))
        with _out_of_the_way(args.project_dir, args.force):
            template.generate_project_from_mlf(args.mlf, args.project_dir, options).close()
    return None


@contextmanager
def _out_of_the_way(folder: Path, is_forced: bool) -> Iterator[None]:
    """Moves a project that is there aside; it is removed after what makes another, and back where
    it was if that fails. Raises MlfError for what may not be replaced."""
    if not folder.exists():
        yield
        return
    if not is_forced:
        raise MlfError(Problem("MLF0402", "exists already; -f replaces it", str(folder)))
    if not folder.is_dir() or (not (folder / "model.tar").is_file() and any(folder.iterdir())):
        text = "is not a generated project; -f replaces only those"
        raise MlfError(Problem("MLF0402", text, str(folder)))
    with tempfile.TemporaryDirectory(dir=folder.resolve().parent) as aside:
        old = folder.resolve().rename(Path(aside) / "old")
        try:
            yield
        except BaseException:
            old.rename(folder)
            raise


def _template(args: argparse.Namespace) -> Path:
    from mlftool.micro.project import get_microtvm_template_projects

    if args.template_dir is not None:
        return Path(args.template_dir)
    return Path(get_microtvm_template_projects(args.platform))


def _build(args: argparse.Namespace, options: Mapping[str, str]) -> None:
    from mlftool.micro.project import GeneratedProject

    built = args.project_dir / "build"
    with GeneratedProject.from_directory(args.project_dir, options) as project:
        if args.list_options:
            return _list("build", project.info()["project_options"])
        if built.exists():
            if not args.force:
                text = "the project is built already; -f builds it anew"
                raise MlfError(Problem("MLF0402", text, str(built)))
            shutil.rmtree(built)
        project.build()
    return None


def _flash(args: argparse.Namespace, options: Mapping[str, str]) -> None:
    from mlftool.micro.project import GeneratedProject, check_built

    with GeneratedProject.from_directory(args.project_dir, options) as project:
        if args.list_options:
            return _list("flash", project.info()["project_options"])
        check_built(args.project_dir)
        project.flash()
    return None


def _run(args: argparse.Namespace, options: Mapping[str, str]) -> None:
    from mlftool.micro.drive import drive_project
    from mlftool.micro.project import GeneratedProject, archive_of, check_built
    from mlftool.mlf import read_tar
    from mlftool.mlf.archive import read
    from mlftool.runtime import vectors
    from mlftool.runtime.fill import filled
    from mlftool.runtime.interface import interface_of

    if args.list_options:
        with GeneratedProject.from_directory(args.project_dir, options) as project:
            return _list("open_transport", project.info()["project_options"])
    check_outputs(args, args.outputs)
    path = archive_of(args.project_dir)
    check_built(args.project_dir)
    archive = read(read_tar(path), str(path))
    interface = interface_of(archive, None, str(path))
    sample = filled(interface.inputs, args.fill_mode or "random")
    if args.inputs:
        sample |= vectors.load_vectors(args.inputs, interface.inputs)
    samples = vectors.samples_of(sample, interface.inputs, str(args.inputs))
    with GeneratedProject.from_directory(args.project_dir, options) as project:
        done = drive_project(project, archive, interface, samples)
    outputs = {
        f"output_{i}": done.result.outputs[0][t.name] for i, t in enumerate(interface.results)
    }
    if args.print_top or not args.outputs:
        printed(*(f"{name}: {largest(v, args.print_top)}" for name, v in outputs.items()))
    if args.outputs:
        vectors.save_npz(args.outputs, outputs)
    return None


def _list(method: str, options: Sequence[Mapping[str, Any]]) -> None:
    """The options that a method reads, one on a line."""
    taken = [o for o in options if method in (*_names(o, "required"), *_names(o, "optional"))]
    if not taken:
        put("this action takes no options")
    for option in taken:
        is_required = method in _names(option, "required")
        choices = option.get("choices")
        said = f" ({', '.join(map(str, choices))})" if choices else ""
        default = "required" if is_required else f"default: {option.get('default')}"
        put(f"{option['name']}{said}  {default}  {option.get('help') or ''}")


def _names(option: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The methods for which the option is `key`: required or optional."""
    return tuple(option.get(key) or ())
