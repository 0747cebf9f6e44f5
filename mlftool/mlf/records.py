"""The content of an archive as plain data, the same for every version.

Files go by the names that version 7 gives them; mlf/layout.py knows the older names.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.frozen import field, frozen
from mlftool.version import FORMATS

CPU = 1  # DLDeviceType
FULL_MODEL = "full-model"
OPERATOR = "operator"
VERSIONS = FORMATS
LATEST = VERSIONS[-1]
# The last TVM release with microTVM; its C runtime's interface is what runtime/ provides.
CRT_VERSION = "0.18.0"


@frozen
class IoTensor:
    """An input or output as `memory.functions.main` lists it: there is no shape and no order."""

    name: str
    dtype: str
    size_bytes: int


@frozen
class MainMemory:
    """What one run takes on one device. `inputs` and `outputs` are None before TVM 0.11."""

    workspace_bytes: int
    constants_bytes: int
    io_bytes: int
    inputs: tuple[IoTensor, ...] | None = None
    outputs: tuple[IoTensor, ...] | None = None
    device: int = CPU


@frozen
class FunctionMemory:
    """A kernel and its workspace on each device: (device, bytes)."""

    name: str
    workspace: tuple[tuple[int, int], ...] = ((CPU, 0),)


@frozen
class Storage:
    """A storage id of the graph executor: a buffer that tensors share one after the other."""

    storage_id: int
    size_bytes: int
    input_binding: str | None = None


@frozen
class Argument:
    """An argument of an operator archive's function; inputs and outputs look alike."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


@frozen
class Memory:
    """`sids` is for graph executors, `operators` for operator archives, the rest for models."""

    main: tuple[MainMemory, ...] = ()
    functions: tuple[FunctionMemory, ...] = ()
    sids: tuple[Storage, ...] | None = None
    operators: Mapping[str, tuple[Argument, ...]] = field(default_factory=dict)


@frozen
class Dependency:
    """An entry of `external_dependencies`."""

    short_name: str
    url: str
    url_type: str
    version_spec: str


STANDALONE_CRT = Dependency("tvm_standalone_crt", "./runtime", "mlf_path", CRT_VERSION)


@frozen
class TargetString:
    """A target string and the device type it is for, which versions 2 to 5 tell."""

    text: str
    device: int = CPU


@frozen
class ModuleRecord:
    """One module: what metadata.json says of it, and its own files.

    An empty `exported` becomes SOURCE_DATE_EPOCH when the archive is written.
    """

    name: str
    executors: tuple[str, ...]
    targets: tuple[TargetString, ...]
    memory: Memory
    files: Mapping[str, bytes]
    style: str = FULL_MODEL
    dependencies: tuple[Dependency, ...] = ()
    exported: str = ""

    @property
    def executor(self) -> str:
        """The one executor; "" for an operator."""
        return self.executors[0] if self.executors else ""

    @property
    def sources(self) -> dict[str, bytes]:
        """The code by name, sources and objects."""
        folders = ("codegen/host/src/", "codegen/host/lib/")
        return {n: data for n, data in sorted(self.files.items()) if n.startswith(folders)}

    @property
    def graph(self) -> bytes | None:
        return self.files.get(f"executor-config/graph/{self.name}.graph")

    @property
    def params(self) -> bytes | None:
        return self.files.get(f"parameters/{self.name}.params")

    @property
    def relay(self) -> bytes | None:
        return self.files.get(f"src/{self.name}.relay")

    @property
    def interface(self) -> bytes | None:
        """Our description of the module, which TVM's archives lack."""
        return self.files.get(f"executor-config/{self.executor}/{self.name}.json")


@frozen
class Archive:
    """A whole archive. `shared` are the files that belong to no module, such as runtime/."""

    version: int
    modules: tuple[ModuleRecord, ...]
    shared: Mapping[str, bytes] = field(default_factory=dict)

    def module(self, name: str) -> ModuleRecord:
        return next(m for m in self.modules if m.name == name)
