"""How a module is called and what its archive contains, in TVM's terms."""

from __future__ import annotations

from dataclasses import dataclass

from mlftool.errors import MlfError, Problem


@dataclass(frozen=True)
class Options:
    """`unpacked_api`: the module's own calls are plain C calls. `link_params`: constants are C
    arrays, not entries of the .params file. `system_lib`: packed functions are found by name."""

    module: str
    interface_api: str = "c"
    unpacked_api: bool = True
    link_params: bool = True
    system_lib: bool = False
    weights: str = "auto"  # of weights.MODES
    model_sha256: str = ""  # of the file, external data inside
    marks: bool = False  # the plain aot executor reads the board's counter around each call


def aot_options(
    module: str,
    interface_api: str | None,
    unpacked_api: bool | None,
    link_params: bool | None,
    system_lib: bool,
) -> Options:
    """Options of the aot executor. Raises MlfError for what TVM or mlftool does not support."""
    interface = interface_api or "c"
    unpacked = interface == "c" if unpacked_api is None else unpacked_api
    if interface not in ("c", "packed"):
        raise _error(f"interface '{interface}'; expected c or packed")
    if interface == "c" and not unpacked:
        raise _error(
            'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) '
            "when targeting c runtime",
            "leave unpacked-api out: it is 1 with interface c",
        )
    if link_params is False:
        raise _error(
            "the aot executor reads its parameters from C arrays only; got link-params 0",
            "use --executor graph for parameters in a file",
        )
    return Options(module, interface, unpacked, True, system_lib)


def graph_options(
    module: str,
    interface_api: str | None,
    unpacked_api: bool | None,
    link_params: bool | None,
    system_lib: bool,
) -> Options:
    """Options of the graph executor, whose functions are always packed."""
    if interface_api not in (None, "packed") or unpacked_api:
        raise _error(
            "the graph executor calls packed functions by name; got another interface or "
            "unpacked-api 1",
            "leave both out, or use --executor aot",
        )
    return Options(module, "packed", False, bool(link_params), system_lib)


def vm_options(
    module: str,
    interface_api: str | None,
    unpacked_api: bool | None,
    link_params: bool | None,
    system_lib: bool,
) -> Options:
    """Options of the vm executor, whose modules are called through structs of pointers."""
    if interface_api not in (None, "c") or unpacked_api is False or system_lib:
        raise _error(
            "the vm executor is called through its C interface; got interface packed, "
            "unpacked-api 0 or a system library",
            "leave them out, or use --executor aot",
        )
    if link_params is False:
        raise _error(
            "the vm executor reads its parameters from C arrays only; got link-params 0",
            "use --executor graph for parameters in a file",
        )
    return Options(module)


def _error(message: str, help: str = "") -> MlfError:
    return MlfError(Problem("MLF0405", message, help=help))
