"""`arena ARCHIVE MODULE LESS OUT.c`: a workspace that is LESS bytes smaller and has a guard.

OUT.c is the archive's own <module>_lib0.c between a few lines: they make the static workspace
longer by a guard, and put a function around tvmgen_<module>_run that looks at it after every run.
Linked before the module's library it takes the place of that file there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mlftool.errors import MlfError, Problem, exits
from mlftool.mlf import read_tar, write_atomically
from mlftool.mlf.archive import read
from mlftool.runtime.interface import interface_of

# The unit in which memory is planned: a tensor's place is so aligned and so long.
UNIT = 16

SOURCE = """\
/* Module {name} with an arena of {bytes} bytes and a guard after it. Made by mlf_arena_test. */
#define tvmgen_{name}_run tvmgen_{name}_run_unguarded
#include "tvmgen_{name}.h"
#undef TVMGEN_{upper}_WORKSPACE_SIZE
#define TVMGEN_{upper}_WORKSPACE_SIZE ({usable} + 64)

{lib0}
#undef tvmgen_{name}_run

#include "platform.h"

/* Neither 0 nor what an earlier run left; two values in turn, for one may be what is written. */
static uint8_t fill = 0xc9;

int32_t tvmgen_{name}_run({parameters});

int32_t tvmgen_{name}_run({parameters}) {{
  int32_t status;
  uint32_t i;
  fill ^= 0xff;
  for (i = {from_}; i < sizeof global_workspace; i++) {{
    global_workspace[i] = fill;
  }}
  status = tvmgen_{name}_run_unguarded({arguments});
  for (i = {usable}; i < sizeof global_workspace; i++) {{
    if (global_workspace[i] != fill) {{
      platform_complain("runner: {name}: an arena of {bytes} bytes is too small\\n");
      return -1;
    }}
  }}
  return status;
}}
"""


def source(archive: Path, module: str, less: int) -> str:
    """The text of OUT.c. Raises MlfError for a module without a workspace of its own."""
    content = read(read_tar(archive), str(archive))
    interface = interface_of(content, module, str(archive))
    record = content.module(interface.module)
    lib0 = record.files.get(f"codegen/host/src/{record.name}_lib0.c", b"").decode()
    size = interface.workspace_bytes - less
    if (
        interface.interface_api != "c"
        or record.interface is None
        or "global_workspace[" not in lib0
    ):
        text = "has no workspace of its own that could be made smaller"
        hint = "expected a module of mlftool's with interface_api 'c' and a workspace"
        raise MlfError(Problem("MLF0607", text, str(archive), path=module, help=hint))
    name = record.name
    structs = f"struct tvmgen_{name}_inputs *inputs, struct tvmgen_{name}_outputs *outputs"
    usable = size // UNIT * UNIT
    return SOURCE.format(
        name=name,
        upper=name.upper(),
        bytes=size,
        usable=usable,
        lib0=lib0,
        # With workspace_io the inputs are in it already.
        from_=usable if interface.workspace_io else 0,
        parameters="void" if interface.workspace_io else structs,
        arguments="" if interface.workspace_io else "inputs, outputs",
    )


@exits
def main(arguments: list[str]) -> None:
    """Exit code as the command line's."""
    archive, module, less, out = arguments
    write_atomically(Path(out), source(Path(archive), module, int(less)).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
