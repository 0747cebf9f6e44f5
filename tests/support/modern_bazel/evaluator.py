"""Loads a workspace as a newer Bazel does, up to analysis: modules, extensions, BUILD files.

No such Bazel can be had where this project is tested, so a Starlark interpreter runs the files with
Bazel's globals as documented (facts.py, prelude.py). Repository rules really run: they find the
machine's programs and read the manifests. Every label is resolved with the names that are visible
where it is written; what it means must exist, and be visible there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import starlark

from modern_bazel import prelude
from modern_bazel.calls import Calls
from modern_bazel.facts import CC_COMMON, CC_RULES, REGISTRY, Module, Version
from modern_bazel.labels import Label, Mention, RefusedError, parse
from modern_bazel.modules import Declared, read_module
from modern_bazel.packages import BUILD_FILES, Package, Repository

GLOBALS = starlark.Globals.extended_by(
    [
        starlark.LibraryExtension.StructType,
        starlark.LibraryExtension.Print,
        starlark.LibraryExtension.Json,
    ]
)


def dialect(*, functions: bool) -> starlark.Dialect:
    found = starlark.Dialect.standard()
    found.enable_def = functions
    found.enable_lambda = False
    found.enable_load = True
    return found


ACTION_NAMES = (
    "assemble", "c_compile", "cpp_compile", "cpp_header_parsing", "cpp_link_executable",
    "preprocess_assemble",
)  # fmt: skip
BZL_NAMES = {
    "AnalysisFailureInfo", "AnalysisTestResultInfo", "DefaultInfo", "Label", "OutputGroupInfo",
    "RunEnvironmentInfo", "analysis_test_transition", "aspect", "attr", "config", "depset",
    "module_extension", "native", "provider", "repository_rule", "rule", "select", "str", 
    "tag_class", "transition", "type",
}  # fmt: skip
BUILD_NAMES = {
    "Label", "existing_rule", "exports_files", "glob", "module_name", "package", "package_group",
    "package_name", "repo_name", "repository_name", "select", "str", "subpackages", "type",
}  # fmt: skip


class Evaluator:
    """One Bazel, one root module and those it depends on: module name -> folder.

    `site` is the folder of wheels that stands for what pip would install.
    """

    def __init__(self, version: str, root: Path, others: Mapping[str, Path], out: Path, site: Path):
        self.version = Version(version)
        self.out, self.site = out, site
        self.repositories: dict[str, Repository] = {}
        self.packages: dict[tuple[str, str], Package] = {}
        self.mentions: dict[Mention, None] = {}
        self.asked: set[Mention] = set()
        self.toolchains: list[Label] = []
        self.loaded: dict[Label, Any] = {}
        self.here: Package | None = None
        self.making = ""  # the prefix of canonical names of the extension that runs
        self.made: dict[str, dict[str, str]] = {}  # extension's prefix -> name -> canonical
        self.modules: dict[str, Declared] = {}
        self.seen: dict[str, Mapping[str, str]] = {}
        self.prelude = self.read_prelude()
        for i, (name, folder) in enumerate([("", root), *others.items()]):
            declared = read_module(folder, is_root=i == 0)
            self.modules[name or declared.name] = declared
        self._repositories()
        self._extensions()

    # Modules and repositories.

    def canonical(self, module: str) -> str:
        return "" if self.modules[module].is_root else module + self.version.separator

    def _repositories(self) -> None:
        for name, facts in self.version.built_in.items():
            self.repositories[name] = Repository(name, None, dict, facts)
        for name, facts in REGISTRY.items():
            canonical = name + self.version.separator
            self.repositories[canonical] = Repository(canonical, None, dict, facts)
        for module in self.modules.values():
            canonical = self.canonical(module.name)
            self.repositories[canonical] = Repository(
                canonical, module.folder, lambda module=module: self.visible_to(module)
            )

    def visible_to(self, module: Declared) -> Mapping[str, str]:
        """Apparent -> canonical name of what a module sees."""
        if module.name in self.seen:
            return self.seen[module.name]
        seen = {name: name for name in self.version.built_in}
        seen[""] = self.canonical(module.name)
        seen[module.name] = self.canonical(module.name)
        for name, apparent in module.deps.items():
            if name not in self.modules and name not in REGISTRY:
                raise RefusedError(f"module '{name}' is not in the registry")
            is_ours = name in self.modules
            seen[apparent] = self.canonical(name) if is_ours else name + self.version.separator
        for use in module.uses:
            prefix = self.prefix_of(self.extension_label(module, use.path), use.name)
            for apparent, name in use.repositories.items():
                seen[apparent] = prefix + name
        for repository in module.repositories:
            seen[repository.name] = self.own_prefix(module) + repository.name
        self.seen[module.name] = seen
        return seen

    def extension_label(self, module: Declared, path: str) -> Label:
        visible = {name: name for name in self.version.built_in} | {
            module.name: self.canonical(module.name)
        }
        visible |= {
            apparent: self.canonical(name)
            for name, apparent in module.deps.items()
            if name in self.modules
        }
        return parse(path, self.canonical(module.name), "", visible)

    def prefix_of(self, label: Label, name: str) -> str:
        mark = self.version.separator
        owner = label.repo or ("_main" if self.version.major < 8 else "")
        return f"{owner}{mark}{name}{mark}"

    def own_prefix(self, module: Declared) -> str:
        return self.prefix_of(Label(self.canonical(module.name), "", ""), "_repo_rules")

    def _extensions(self) -> None:
        uses: dict[tuple[Label, str], list[tuple[Declared, Any]]] = {}
        for module in self.modules.values():
            for use in module.uses:
                key = (self.extension_label(module, use.path), use.name)
                uses.setdefault(key, []).append((module, use))
        for (label, name), users in uses.items():
            self.users = users
            self.making = self.prefix_of(label, name)
            self.made[self.making] = {}
            owner = self.repositories[label.repo]
            self.owner_mapping = owner.mapping
            self.run(
                f'load("{label}", extension = "{name}")\nextension.run("{name}")\n',
                label.repo,
            )
            self.check_uses(users)
        for module in self.modules.values():
            self._own_repositories(module)
        self.making = ""

    def check_uses(self, users: list[tuple[Declared, Any]]) -> None:
        made = self.made[self.making]
        for module, use in users:
            for name in use.repositories.values():
                if name not in made:
                    raise RefusedError(
                        f"{module.name}: the extension does not generate repository '{name}', "
                        f"yet it is imported; it has {', '.join(sorted(made))}"
                    )

    def _own_repositories(self, module: Declared) -> None:
        prefix = self.own_prefix(module)
        self.making = prefix
        self.made[prefix] = {}
        self.owner_mapping = lambda: self.visible_to(module)
        for call in module.repositories:
            if call.rule == "local_repository":
                folder = module.folder / call.attributes["path"]
                name = prefix + call.name
                self.made[prefix][call.name] = name
                self.repositories[name] = Repository(name, folder, self.owner_mapping)
                continue
            words = ", ".join(f"{key} = {value!r}" for key, value in call.attributes.items())
            text = (
                f'load("{call.path}", rule = "{call.rule}")\nrule(name = "{call.name}", {words})\n'
            )
            self.run(text, self.canonical(module.name))

    def made_mapping(
        self, prefix: str, owner: Callable[[], Mapping[str, str]]
    ) -> Mapping[str, str]:
        return {**owner(), **self.made[prefix]}

    # Labels.

    def resolve(self, repo: str, package: str, text: str) -> Label:
        try:
            return parse(text, repo, package, self.repositories[repo].mapping(), self.repositories)
        except RefusedError as error:
            raise RefusedError(f"@@{repo}//{package}: {error}") from None

    def mention(
        self,
        where: str,
        repo: str,
        package: str,
        text: str,
        testonly: bool = True,
        target: bool = True,
    ) -> Label:
        label = self.resolve(repo, package, text)
        # The same label from the same package is one question.
        question = Mention("", repo, package, label, testonly, target)
        if question not in self.asked:
            self.asked.add(question)
            self.mentions[question._replace(where=where)] = None
        return label

    # Files.

    def run(self, text: str, repo: str, package: str = "", functions: bool = True) -> None:
        """Evaluates text as a .bzl file of a repository."""
        self.evaluate(f"@@{repo}//{package}:<evaluator>", text, repo, package, functions)

    def evaluate(self, name: str, text: str, repo: str, package: str, functions: bool) -> Any:
        module = starlark.Module()
        names = self.environment(name, text, repo, package, functions)
        header = ", ".join(f'{n} = "bazel_{n}"' for n in names)
        # On the first line, if that can be, so that the lines of messages are those of the file.
        mark = "; " if text.startswith(('"""', "load(")) else "\n"
        source = (f'load("<bazel>", {header}){mark}' if names else "") + text
        file = starlark.parse(name, source, dialect(functions=functions))

        def load(path: str) -> Any:
            if path == "<bazel>":
                return self.globals_of(name, repo, package, names, functions)
            return self.load(self.resolve(repo, package, path))

        starlark.eval(module, file, GLOBALS, starlark.FileLoader(load))
        return module.freeze()

    def environment(
        self, name: str, text: str, repo: str, package: str, functions: bool
    ) -> list[str]:
        """Bazel's names that the text uses and does not define itself."""
        known = BZL_NAMES if functions else BUILD_NAMES
        known = known | (
            set(self.version.modules) | set(self.version.globals)
            if functions
            else set(self.version.rules)
        )
        defined = set(re.findall(r"^(\w+) = ", text, re.MULTILINE)) | set(
            re.findall(r'"(\w+)"', _loads(text))
        )
        return sorted(
            n for n in known if n not in defined and re.search(rf"(?<![\w.\"]){n}\b", text)
        )

    def globals_of(
        self, name: str, repo: str, package: str, names: list[str], functions: bool
    ) -> Any:
        """A module that has Bazel's names for one file, relative to its package."""
        rules = list(self.version.rules)
        given = [repo, package, name, rules, self.version.modules, list(self.version.globals)]
        function = "bzl" if functions else "build"
        lines = [f'load("<prelude>", "{function}")', f"_all = {function}(*_args)"]
        lines += [f'bazel_{n} = _all["{n}"]' for n in names]
        return self.prelude_file(lines, given if functions else [repo, package, rules])

    def prelude_file(self, lines: list[str], given: list[Any]) -> Any:
        module = starlark.Module()
        module["_args"] = given
        file = starlark.parse("<bazel>", "\n".join(lines), starlark.Dialect.extended())
        starlark.eval(module, file, GLOBALS, starlark.FileLoader(lambda _: self.prelude))
        return module.freeze()

    def read_prelude(self) -> Any:
        module = starlark.Module()
        calls = Calls(self)
        for name in dir(calls):
            if name.startswith("py_"):
                module.add_callable(name, getattr(calls, name))
        file = starlark.parse("<prelude>", prelude.TEXT, starlark.Dialect.extended())
        starlark.eval(module, file, GLOBALS)
        return module.freeze()

    def load(self, label: Label) -> Any:
        """A .bzl file, evaluated once."""
        if label not in self.loaded:
            repository = self.repositories[label.repo]
            if repository.facts:
                self.loaded[label] = self.foreign(label, repository.facts)
            else:
                file = self.file(label)
                if file is None or not file.is_file():
                    raise RefusedError(f"{label}: there is no such file")
                self.require_package(label)
                self.loaded[label] = self.evaluate(
                    str(label), file.read_text(), label.repo, label.package, functions=True
                )
        return self.loaded[label]

    def require_package(self, label: Label) -> None:
        folder = self.repositories[label.repo].folder
        assert folder
        if not any((folder / label.package / name).is_file() for name in BUILD_FILES):
            raise RefusedError(f"{label}: '{label.package}' is no package: it has no BUILD file")

    def foreign(self, label: Label, facts: Module) -> Any:
        """A .bzl file of a repository that is not ours: its symbols, as loading needs them."""
        file = f"{label.package}:{label.name}"
        if file not in facts.files:
            raise RefusedError(f"{label}: there is no such file")
        lines = []
        for symbol in facts.files[file]:
            if symbol in CC_RULES:
                lines.append(f'{symbol} = native_rule("{symbol}")')
            elif symbol == "cc_common":
                members = ", ".join(f'{m} = named("{m}")' for m in CC_COMMON)
                lines.append(f"{symbol} = struct({members})")
            elif symbol == "ACTION_NAMES":
                lines.append(
                    f"{symbol} = struct({', '.join(f'{n} = {n!r}' for n in ACTION_NAMES)})"
                )
            elif symbol == "HOST_CONSTRAINTS":
                lines.append(f'{symbol} = ["@platforms//cpu:x86_64", "@platforms//os:linux"]')
            elif symbol == "CC_TOOLCHAIN_TYPE":
                lines.append(f'{symbol} = "@bazel_tools//tools/cpp:toolchain_type"')
            elif symbol.endswith("Info"):
                lines.append(f"{symbol} = provider()")
            else:
                lines.append(f'{symbol} = named("{symbol}")')
        return self.prelude_file(
            ['load("<prelude>", "named", "native_rule", "provider")', *lines], []
        )

    def file(self, label: Label) -> Path | None:
        folder = self.repositories[label.repo].folder
        return folder / label.package / label.name if folder else None

    # Packages.

    def package(self, repo: str, name: str) -> Package:
        """A package of BUILD files, loaded once."""
        if (repo, name) in self.packages:
            return self.packages[repo, name]
        folder = self.repositories[repo].folder
        assert folder
        files = [folder / name / file for file in BUILD_FILES if (folder / name / file).is_file()]
        if not files:
            raise RefusedError(f"no such package '@@{repo}//{name}': BUILD file not found")
        package = self.packages[repo, name] = Package(repo, name)
        package.files.add(files[0].name)
        before, self.here = self.here, package
        try:
            self.evaluate(f"@@{repo}//{name}", files[0].read_text(), repo, name, functions=False)
        finally:
            self.here = before
        return package

    def packages_of(self, repo: str) -> Iterator[str]:
        """All packages of a repository, those that .bazelignore hides left out.

        external/ at its top is never one: other repositories are there, in an execution root as in
        the runfiles of a test.
        """
        folder = self.repositories[repo].folder
        assert folder
        file = folder / ".bazelignore"
        ignored = ["external", *(file.read_text().split() if file.is_file() else [])]
        for path in sorted(p for name in BUILD_FILES for p in folder.rglob(name)):
            name = path.parent.relative_to(folder).as_posix().removeprefix(".")
            hidden = any(name == i or name.startswith(i + "/") for i in ignored)
            if not hidden and not name.startswith("bazel-"):
                yield name

    def load_all(self) -> None:
        """Every package of the root and of what its extensions made, and all that those name."""
        root = next(m for m in self.modules.values() if m.is_root)
        for name in list(self.packages_of("")):
            self.package("", name)
        own = [use.repositories.values() for use in root.uses]
        for apparent in [name for names in own for name in names]:
            repo = next(made[apparent] for made in self.made.values() if apparent in made)
            for name in list(self.packages_of(repo)):
                self.package(repo, name)
        for module in self.modules.values():
            for pattern in module.toolchains:
                text = pattern.removesuffix(":all")
                label = self.resolve(self.canonical(module.name), "", text)
                self.package(label.repo, label.package)
                self.toolchains.append(label)
        checked = 0
        while checked < len(self.mentions):  # which grows meanwhile
            for mention in list(self.mentions)[checked:]:
                self.check(mention)
                checked += 1

    def check(self, mention: Mention) -> None:
        """Raises RefusedError unless a label means something that may be used there."""
        label = mention.label
        repository = self.repositories[label.repo]
        if repository.facts:
            if label.name not in repository.facts.targets.get(label.package, ()):
                raise RefusedError(
                    f"{mention.where}: no such target '{label}' in Bazel {self.version.name}"
                )
            return
        package = self.package(label.repo, label.package)
        target = package.targets.get(label.name)
        same = (mention.repo, mention.package) == (label.repo, label.package)
        if target is None:
            file = self.file(label)
            if file is None or not file.exists():
                raise RefusedError(f"{mention.where}: no such target '{label}'")
            if mention.target and not same and label.name not in package.files:
                raise RefusedError(
                    f"{mention.where}: '{label}' is a file its package does not export"
                )
            return
        visibility = target.visibility if target.visibility is not None else package.visibility
        if not same and not self.sees(mention, label, visibility):
            raise RefusedError(
                f"{mention.where}: '{label}' is not visible from "
                f"'@@{mention.repo}//{mention.package}'"
            )
        if target.testonly and not mention.testonly:
            raise RefusedError(f"{mention.where}: '{label}' is testonly")

    def sees(self, mention: Mention, label: Label, visibility: Iterable[str]) -> bool:
        for text in visibility:
            if text == "//visibility:public":
                return True
            if text == "//visibility:private":
                continue
            of = self.resolve(label.repo, label.package, text)
            if of.name == "__pkg__" and (mention.repo, mention.package) == (of.repo, of.package):
                return True
            inside = not of.package or f"{mention.package}/".startswith(f"{of.package}/")
            if of.name == "__subpackages__" and mention.repo == of.repo and inside:
                return True
        return False


def _loads(text: str) -> str:
    """What stands in load statements."""
    return "".join(re.findall(r"^load\((?:[^()]|\n)*?\)", text, re.MULTILINE))
