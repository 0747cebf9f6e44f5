"""The functions of Python that Bazel's globals (prelude.py) call, with plain data."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modern_bazel.facts import ATTR, CC_RULES, COMMON, TEST, WORDS
from modern_bazel.labels import RefusedError, parse
from modern_bazel.modules import Declared
from modern_bazel.packages import Package, Repository, Target, files_of

if TYPE_CHECKING:
    from modern_bazel.evaluator import Evaluator

LABEL_KINDS = ("label", "label_list", "label_dict", "label_keyed_string_dict")
OUTPUT_KINDS = ("output", "output_list")
PROBE = "rules.private.tools.probe"


def executed(command: Sequence[str], environment: Mapping[str, str], where: str) -> dict[str, Any]:
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    return {"return_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


@functools.cache
def probed(command: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """What the machine has: it reads compilers, writes nothing, and versions of Bazel ask alike."""
    return executed(command, dict(environment), "/")


class Calls:
    """The functions of Python that the prelude calls, with plain data."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.of = evaluator

    def py_attr_kinds(self) -> Any:
        return ATTR

    def py_check_words(self, what: str, given: list[str]) -> None:
        wrong = sorted(set(given) - WORDS[what])
        if wrong:
            raise RefusedError(f"{what} has no parameter '{wrong[0]}' in every Bazel from 7 to 9")

    def py_check_attributes(self, schema: dict[str, Any]) -> None:
        for name, about in schema.items():
            if name in ("name", "visibility", "tags", "testonly"):
                raise RefusedError(f"attribute '{name}' is built in")
            if name.startswith("_") and about["default"] is None:
                raise RefusedError(f"attribute '{name}' is private and has no default")

    def py_resolve(self, repo: str, package: str, text: str) -> Any:
        where = f"@@{repo}//{package}: {text}"
        return self.of.mention(where, repo, package, text, target=False)._asdict()

    def py_split(self, text: str) -> Any:
        return parse(text, "", "", {}, self.of.repositories)._asdict()

    def py_resolve_here(self, text: str) -> Any:
        here = self.of.here
        assert here
        return self.of.resolve(here.repo, here.name, text)._asdict()

    def py_mention(self, repo: str, package: str, text: str) -> None:
        self.of.mention(f"@@{repo}//{package}: {text}", repo, package, text)

    # Packages.

    def _package(self) -> Package:
        if self.of.here is None:
            raise RefusedError(
                "a native rule or function was called, and no BUILD file is being read"
            )
        return self.of.here

    def py_declare_native(self, kind: str, given: dict[str, Any]) -> None:
        kinds = {**self.of.version.rules, **CC_RULES}[kind]
        is_test = kind in ("cc_test", "test_suite")
        schema = {
            name: {"of": of, "mandatory": False, "values": [], "default": None}
            for name, of in kinds.items()
        }
        self.py_declare(
            kind, {"executable": False, "setting": None, "test": is_test}, schema, given
        )

    def py_declare(
        self, kind: str, words: dict[str, Any], schema: dict[str, Any], given: dict[str, Any]
    ) -> None:
        package = self._package()
        name = given.get("name")
        where = f"@@{package.repo}//{package.name}:{name}"
        if not isinstance(name, str):
            raise RefusedError(f"{where}: name is mandatory and a string, got {name!r}")
        if name in package.targets:
            raise RefusedError(f"{where}: there is a target of this name already")
        allowed = (
            COMMON
            | (TEST if words["test"] else {})
            | ({"args": "list"} if words["executable"] else {})
        )
        for key, value in given.items():
            about = schema.get(key) or (
                {"of": allowed[key], "values": []} if key in allowed else None
            )
            if key == "build_setting_default" and words["setting"]:
                continue
            if about is None or key.startswith("_"):
                raise RefusedError(f"{where}: {kind} has no attribute '{key}'")
            if about["values"] and isinstance(value, (str, int)) and value not in about["values"]:
                raise RefusedError(
                    f"{where}: {key}: got {value!r}, expected one of {about['values']}"
                )
        for key, about in schema.items():
            if about["mandatory"] and given.get(key) is None:
                raise RefusedError(
                    f"{where}: {kind}: missing value for mandatory attribute '{key}'"
                )
        if words["setting"] and "build_setting_default" not in given:
            raise RefusedError(f"{where}: a build setting needs build_setting_default")
        testonly = bool(given.get("testonly", package.testonly)) or words["test"]
        package.targets[name] = Target(
            kind, given.get("visibility"), testonly and not words["test"]
        )
        for key, value in given.items():
            of = schema[key]["of"] if key in schema else allowed.get(key, "")
            self._use(package, where, of, value, testonly)

    def _use(self, package: Package, where: str, of: str, value: Any, testonly: bool) -> None:
        """Notes the labels, and the outputs, in the value of an attribute."""
        if isinstance(value, dict) and "parts" in value:
            for part in value["parts"]:
                if not isinstance(part, list):  # of a list beside the select
                    self._use(package, where, of, part, testonly)
                    continue
                for condition, branch in part:
                    text = condition["label"] if isinstance(condition, dict) else condition
                    if text != "//conditions:default":
                        self.of.mention(f"{where}: select", package.repo, package.name, text)
                    self._use(package, where, of, branch, testonly)
            return
        if of in OUTPUT_KINDS:
            for output in [value] if isinstance(value, str) else value or []:
                package.targets.setdefault(output, Target("output", None, testonly))
        if of not in LABEL_KINDS:
            return
        if isinstance(value, dict) and "dict" in value:
            value = [key for key, _ in value["dict"]]
        for item in value if isinstance(value, list) else [value]:
            text = item["label"] if isinstance(item, dict) else item
            if text is None:
                continue
            if not isinstance(text, str):
                raise RefusedError(f"{where}: got {text!r}, expected a label")
            label = self.of.mention(where, package.repo, package.name, text, testonly)
            if (label.repo, label.package) == (package.repo, package.name):
                package.files.add(label.name)

    def py_package(self, given: dict[str, Any]) -> None:
        package = self._package()
        package.visibility = given.get("default_visibility", package.visibility)
        package.testonly = given.get("default_testonly", False)

    def py_exports(self, srcs: list[str], visibility: Any) -> None:
        self._package().files.update(srcs)

    def py_existing_rule(self, name: str) -> Any:
        target = self._package().targets.get(name)
        return {"kind": target.kind, "name": name} if target else None

    def py_package_name(self) -> str:
        return self._package().name

    def py_repo_name(self) -> str:
        return self._package().repo

    def py_module_name(self) -> str:
        return self._package().repo.rstrip("~+")

    def py_glob(
        self, include: list[str], exclude: list[str], exclude_directories: int, allow_empty: Any
    ) -> Any:
        package = self._package()
        root = self.of.repositories[package.repo].folder
        assert root
        folder = root / package.name
        found = set(files_of(folder, include)) - set(files_of(folder, exclude))
        if not found and allow_empty is not True and self.of.version.major >= 8:
            raise RefusedError(
                f"@@{package.repo}//{package.name}: glob({include}) matched nothing, which is "
                "refused from Bazel 8 on"
            )
        return sorted(found)

    # Repository rules.

    def py_repository(self, name: str, schema: dict[str, Any], given: dict[str, Any]) -> Any:
        of = self.of
        if not of.making:
            raise RefusedError(f"repository rule '{name}' was called outside of a module extension")
        canonical = of.making + name
        if name in of.made[of.making]:
            raise RefusedError(
                f"a repository named '{name}' is already generated by this extension"
            )
        for key in given:
            if key not in schema or key.startswith("_"):
                raise RefusedError(f"{canonical}: no attribute '{key}'")
        for key, about in schema.items():
            if about["mandatory"] and given.get(key) is None:
                raise RefusedError(f"{canonical}: missing value for mandatory attribute '{key}'")
        folder = of.out / "external" / canonical
        folder.mkdir(parents=True, exist_ok=True)
        of.made[of.making][name] = canonical
        prefix, owner = of.making, of.owner_mapping
        of.repositories[canonical] = Repository(
            canonical, folder, lambda: of.made_mapping(prefix, owner)
        )
        attr = {}
        for key, about in schema.items():
            value = given.get(key)
            if value is None:
                value = _EMPTY.get(about["of"]) if about["default"] is None else about["default"]
            elif "label" in about["of"]:
                value = self._labels(value, of.made_mapping(prefix, of.owner_mapping))
            attr[key] = value
        return {"folder": str(folder), "name": canonical, "original": name, "attr": attr}

    def _labels(self, value: Any, mapping: Mapping[str, str]) -> Any:
        """The value of a label attribute, with the names that a module or an extension sees."""
        if isinstance(value, str):
            return {"label": str(parse(value, mapping[""], "", mapping, self.of.repositories))}
        return [self._labels(v, mapping) for v in value] if isinstance(value, list) else value

    def py_path(self, text: str) -> Any:
        path = Path(os.path.normpath(text))
        return {"path": str(path), "above": [str(p) for p in reversed(path.parents)]}

    def py_exists(self, text: str) -> bool:
        return Path(text).exists()

    def py_path_in(self, folder: str, value: Any) -> Any:
        if isinstance(value, dict):
            label = parse(value["label"], "", "", {}, self.of.repositories)
            file = self.of.file(label)
            if file is None or not file.exists():
                raise RefusedError(f"{label}: no such file")
            self.of.require_package(label)
            return self.py_path(str(file))
        return self.py_path(str(Path(folder) / value))

    def py_read(self, path: str) -> str:
        return Path(path).read_text()

    def py_file(self, folder: str, path: str, content: str) -> None:
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(content)

    def py_delete(self, folder: str, name: str) -> bool:
        file = Path(folder) / name
        there = file.is_symlink() or file.exists()
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)
        return there

    def py_symlink(self, folder: str, target: str, link: str) -> None:
        file = Path(folder) / link
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def py_execute(
        self, folder: str, command: list[str], environment: dict[str, str], where: str
    ) -> Any:
        if any(word.endswith("install_wheels.py") for word in command):
            # pip would fetch them; of the same packages, installed before, what loading comes to.
            for name in ("numpy/__init__.py", "yaml"):
                self.py_symlink(folder, str(self.of.site / name), f"site/{name}")
            return {"return_code": 0, "stdout": "", "stderr": ""}
        given = {**os.environ, **environment}
        if PROBE in command:
            given.pop("PYTEST_CURRENT_TEST", None)
            return probed(tuple(command), tuple(sorted(given.items())))
        return executed(command, given, where or folder)

    def py_which(self, program: str) -> str | None:
        return shutil.which(program)

    def py_getenv(self, name: str, default: Any) -> Any:
        return os.environ.get(name, default)

    def py_environment(self) -> Any:
        return {"PATH": os.environ["PATH"]}

    # Extensions.

    def py_extension_modules(self, name: str, schemas: dict[str, Any]) -> Any:
        found: dict[str, Any] = {}
        for module, use in self.of.users:
            # A module may use an extension twice, once for its development: it is one module.
            about = found.setdefault(
                module.name,
                {
                    "is_root": module.is_root,
                    "name": module.name,
                    "tags": {kind: [] for kind in schemas},
                    "version": module.version,
                },
            )
            for kind, given in use.tags:
                if kind not in schemas:
                    raise RefusedError(f"{module.name}: {use.name} has no tag '{kind}'")
                about["tags"][kind].append(
                    self._tag(module, f"{use.name}.{kind}", schemas[kind], given)
                )
        return list(found.values())

    def _tag(
        self, module: Declared, where: str, schema: dict[str, Any], given: dict[str, Any]
    ) -> dict[str, Any]:
        for key, value in given.items():
            if key not in schema:
                raise RefusedError(f"{module.name}: {where} has no attribute '{key}'")
            if schema[key]["values"] and value not in schema[key]["values"]:
                raise RefusedError(f"{module.name}: {where}: {key}: got {value!r}")
        tag = {}
        for key, about in schema.items():
            value = given.get(key)
            if value is None and about["mandatory"]:
                raise RefusedError(
                    f"{module.name}: {where}: missing value for mandatory attribute '{key}'"
                )
            if value is None:
                value = _EMPTY.get(about["of"]) if about["default"] is None else about["default"]
            elif "label" in about["of"]:
                value = self._labels(value, self.of.visible_to(module))
            tag[key] = value
        return tag

    def py_root_uses(self, name: str) -> bool:
        return any(module.is_root for module, _use in self.of.users)

    def py_metadata(self, name: str, given: dict[str, Any]) -> None:
        wrong = set(given) - {
            "reproducible",
            "root_module_direct_deps",
            "root_module_direct_dev_deps",
        }
        if wrong:
            raise RefusedError(f"extension_metadata has no parameter '{min(wrong)}'")


_EMPTY: dict[str, Any] = {
    "bool": False, "int": 0, "label": None, "label_keyed_string_dict": {"dict": []},
    "label_list": [], "string": "", "string_dict": {"dict": []}, "string_list": [],
    "string_list_dict": {"dict": []},
}  # fmt: skip
