"""The paths of a module's files: the names of version 7, and those of every other version."""

from __future__ import annotations

import re

from mlftool.frozen import frozen
from mlftool.mlf.records import OPERATOR

CODE = re.compile(r"(codegen/host/(?:src|lib)/)(?P<module>.*)_lib(?P<index>\d+\.(?:c|cc|cpp|o))")
_OLD_CODE = re.compile(r"(codegen/host/(?:src|lib)/)lib(?P<index>\d+\.(?:c|cc|cpp|o))")


@frozen
class Layout:
    """The names of one archive's version and style."""

    version: int
    style: str

    @property
    def bare_code(self) -> bool:
        """Whether code files are lib<N> without the module's name."""
        return self.version < 3 or self.style == OPERATOR

    @property
    def config(self) -> str:
        return "runtime-config" if self.version < 5 else "executor-config"

    def graph(self, module: str) -> str:
        name = f"{module}.graph" if self.version >= 7 else "graph.json"
        return f"{self.config}/graph/{name}"

    def relay(self, module: str) -> str:
        if self.version >= 7:
            return f"src/{module}.relay"
        return "src/relay.txt" if self.version >= 4 else "relay.txt"

    def name(self, canonical: str, module: str) -> str:
        """What this layout calls the file that version 7 calls `canonical`."""
        if canonical == f"executor-config/graph/{module}.graph":
            return self.graph(module)
        if canonical == f"src/{module}.relay":
            return self.relay(module)
        code = CODE.fullmatch(canonical)
        if code and code["module"] == module and self.bare_code:
            return f"{code[1]}lib{code['index']}"
        if canonical.startswith("executor-config/"):
            return canonical.replace("executor-config", self.config, 1)
        return canonical

    def owned(self, name: str, module: str) -> str | None:
        """The canonical name of a file of `module`; None if it is not this module's."""
        if name == self.graph(module):
            return f"executor-config/graph/{module}.graph"
        if name == self.relay(module):
            return f"src/{module}.relay"
        if self.bare_code and (code := _OLD_CODE.fullmatch(name)):
            return f"{code[1]}{module}_lib{code['index']}"
        code = None if self.bare_code else CODE.fullmatch(name)
        if code and code["module"] == module:
            return name
        if self.style == OPERATOR and re.fullmatch(r"src/tir-\d+\.txt", name):
            return name
        stem = re.escape(module)
        config = rf"{self.config}/[a-z0-9_]+/{stem}\.[a-z0-9]+"
        if re.fullmatch(config, name):
            return name.replace(self.config, "executor-config", 1)
        if re.fullmatch(rf"parameters/{stem}\.params", name):
            return name
        # TVM lower-cases the header's name; the module's own case is found too.
        if name in (f"codegen/host/include/tvmgen_{n}.h" for n in (module, module.lower())):
            return name
        if name == f"codegen/host/include/tvmgen_{module}.weights":
            return name
        return None
