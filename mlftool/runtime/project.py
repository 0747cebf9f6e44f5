"""An archive as a project for CMake and Make: a static library of its modules, alone or with the
C runtime that they call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlftool.errors import MlfError, Problem
from mlftool.mlf import Bundle
from mlftool.mlf.archive import read
from mlftool.mlf.interface import Interface, stated
from mlftool.mlf.runtime_tree import runtime_files
from mlftool.runtime.library import library_files
from mlftool.runtime.sources import FOREIGN_CFLAGS
from mlftool.runtime.toolchain import compiler_of
from mlftool.targets import CFLAGS, TARGETS, Target

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_FILE = r"[A-Za-z0-9_][A-Za-z0-9_.+/-]*"
_TEMPLATE = "templates/crt_config.h.template"
# Of the C runtime, in link order.
LIBRARIES = "aot_executor graph_executor common memory"
# Of C itself and of the runtime: a project cannot have two libraries of a name.
_TAKEN = ("c", "m", *LIBRARIES.split(), "aot_executor_module", "graph_executor_module")


def project_files(bundle: Bundle, name: str, file: str = "") -> dict[str, bytes]:
    """The project's files by their names in its folder; the library is called `name`.

    Raises MlfError for what cannot be written into a CMakeLists.txt or Makefile.
    """
    archive = read(bundle, file)
    parts = library_files(bundle, file)
    files = {f"{folder}/{n}": data for folder, part in parts.items() for n, data in part.items()}
    _check(name, files, file)
    units = sorted(n for n in files if n.endswith((".c", ".cc", ".cpp", ".o")))
    interfaces = [stated(m, file) for m in archive.modules]
    # Only our own C interface needs nothing but itself.
    with_runtime = any(i is None or i.interface_api != "c" for i in interfaces)
    if with_runtime:
        crt = runtime_files()
        files |= {n: data for n, data in crt.items() if n.startswith("runtime/")}
        files["config/crt_config.h"] = crt[_TEMPLATE]
    flags = CFLAGS if None not in interfaces else FOREIGN_CFLAGS
    modules = ", ".join(m.name for m in archive.modules)
    cmake = _CMAKE + (_CMAKE_RUNTIME if with_runtime else "")
    make = _MAKE_RUNTIME if with_runtime else _MAKE
    target = _target(interfaces)
    if target and target.toolchain:
        # As the compiler is called, with what every use of it needs.
        compiler = compiler_of(target)
        cross = {
            "cross": target.toolchain,
            "target": target.name,
            "needed": "".join(f" {flag}" for flag in compiler.flags),
            "system": "Linux" if "linux" in target.toolchain else "Generic",
        }
        files["toolchain.cmake"] = _filled(_TOOLCHAIN, cross)
        cmake = _filled(_CMAKE_CROSS, cross).decode() + cmake
        make += _filled(_MAKE_CROSS, cross).decode()
    words = {
        "name": name,
        "modules": modules,
        "flags": " ".join(flags),
        "cflags": " ".join(f"$<$<COMPILE_LANGUAGE:C>:{flag}>" for flag in flags),
        "languages": "C" if all(n.endswith((".c", ".o")) for n in units) else "C CXX",
        "given": " ".join(f"$(HERE){n}" for n in units if n.endswith(".o")),
        "machine": " ".join(target.cflags) if target else "",
        "libraries": LIBRARIES,
        "optimise": _optimise(interfaces),
    }
    files["CMakeLists.txt"] = _filled(cmake, {**words, "units": "\n  ".join(units)})
    made = " ".join(f"$(BUILD_DIR)/{n}.o" for n in units if not n.endswith(".o"))
    words |= {"made": made, "runtime": _RUNTIME_TOO if with_runtime else ""}
    files["Makefile"] = _filled(make + _MAKE_RULES, words)
    return files


def _check(name: str, files: Sequence[str] | dict[str, bytes], file: str) -> None:
    """Names appear in two languages with different quoting rules, so they must need no quotes."""
    if not re.fullmatch(_NAME, name):
        text = f"'{name}' is not a library name; expected letters, digits and '_'"
        raise MlfError(Problem("MLF0400", text))
    if name in _TAKEN:
        text = (
            f"'{name}' is the name of another library; expected a name other than "
            f"{', '.join(_TAKEN)}"
        )
        raise MlfError(Problem("MLF0400", text))
    strange = [n for n in files if not re.fullmatch(_FILE, n)]
    if strange:
        text = f"'{strange[0][:200]}' cannot be named in a Makefile"
        raise MlfError(Problem("MLF0607", text, file))


def _target(interfaces: Sequence[Interface | None]) -> Target | None:
    """The target of the modules, as far as it is known."""
    known = [i.target for i in interfaces if i is not None]
    return TARGETS.get(known[0]) if known else None


def _optimise(interfaces: Sequence[Interface | None]) -> str:
    """-Os if that is what all modules are made for, else -O2."""
    return "-Os" if interfaces and all(i and i.flag == "-Os" for i in interfaces) else "-O2"


def _filled(template: str, words: dict[str, str]) -> bytes:
    for word, value in words.items():
        template = template.replace(f"@{word}@", value)
    return re.sub(r"[ \t]+$", "", template, flags=re.MULTILINE).encode()


_CMAKE = """# Library @name@ with @modules@:
#
#   add_subdirectory(path/to/this/folder)
#   target_link_libraries(application @name@)
cmake_minimum_required(VERSION 3.13)
project(@name@ @languages@)

# CMake compiles unoptimised without a build type and for Debug: several times slower. Set
# MLF_OPTIMISE (empty: by the build type) or MLF_MACHINE to decide for all such libraries.
if(NOT DEFINED MLF_OPTIMISE)
  set(MLF_OPTIMISE "@optimise@")
endif()
separate_arguments(MLF_OPTIMISE_FLAGS UNIX_COMMAND "${MLF_OPTIMISE}")
if(NOT DEFINED MLF_MACHINE)
  set(MLF_MACHINE "@machine@")
endif()
separate_arguments(MLF_MACHINE_FLAGS UNIX_COMMAND "${MLF_MACHINE}")
add_library(@name@ STATIC
  @units@)
set_target_properties(@name@ PROPERTIES LINKER_LANGUAGE C)
target_include_directories(@name@ PUBLIC include)
# Results are the same bits on every target only without fused multiply-add.
target_compile_options(@name@ PRIVATE
  @cflags@ -ffp-contract=off ${MLF_OPTIMISE_FLAGS} ${MLF_MACHINE_FLAGS})
target_link_libraries(@name@ PUBLIC m)
"""
_CMAKE_RUNTIME = """
# The C runtime that the modules call, once for all such libraries. The application defines the
# functions of tvm/runtime/crt/platform.h, and may set its own CRT_CONFIG_PATH.
if(NOT DEFINED CRT_CONFIG_PATH)
  set(CRT_CONFIG_PATH "${CMAKE_CURRENT_LIST_DIR}/config")
endif()
if(NOT TARGET common)
  add_subdirectory(runtime)
endif()
target_link_libraries(@name@ PUBLIC @libraries@)
"""
# A compiler for the target, unless the caller names one.
_TOOLCHAIN = """# cmake -DCMAKE_TOOLCHAIN_FILE=toolchain.cmake: the usual compiler for @target@.
set(CMAKE_SYSTEM_NAME @system@)
set(CMAKE_C_COMPILER @cross@-gcc)
set(CMAKE_CXX_COMPILER @cross@-g++)
set(CMAKE_C_FLAGS_INIT "@needed@")
set(CMAKE_CXX_FLAGS_INIT "@needed@")
# Without a linker script nothing but libraries can be made to try the compiler with.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
"""
_CMAKE_CROSS = """# For @target@: unless your project has a toolchain file of its own, call
#   cmake -DCMAKE_TOOLCHAIN_FILE=path/to/this/folder/toolchain.cmake
#
"""
_MAKE_CROSS = """# make's own defaults are for this computer.
ifeq ($(origin CC),default)
CC = @cross@-gcc@needed@
endif
ifeq ($(origin CXX),default)
CXX = @cross@-g++@needed@
endif
ifeq ($(origin AR),default)
AR = @cross@-ar
endif
"""
_MAKE = """# lib@name@.a with @modules@:
#
#   make -C path/to/this/folder BUILD_DIR=/path/to/build [CC=... AR=... CFLAGS=... MACHINE=...]
#
# Compile what uses it with -I include of this folder, and link with -lm.
INCLUDES = -I$(HERE)include
"""
_MAKE_RUNTIME = """# lib@name@.a with @modules@, and the C runtime they call:
#
#   make -C path/to/this/folder BUILD_DIR=/path/to/build [CC=... AR=... CFLAGS=... MACHINE=...]
#
# Compile what uses it with -I include, runtime/include and config of this folder, define what
# tvm/runtime/crt/platform.h declares, and link with -l@name@, then @libraries@, then -lm.
# If the modules have a system library: -Wl,-u,TVMSystemLibEntryPoint.
CRT_CONFIG_PATH ?= $(HERE)config
INCLUDES = -I$(HERE)include -I$(HERE)runtime/include -I$(CRT_CONFIG_PATH)
"""
_RUNTIME_TOO = """	$(MAKE) -C $(HERE)runtime BUILD_DIR=$(abspath $(BUILD_DIR)) \\
	CRT_CONFIG_PATH=$(abspath $(CRT_CONFIG_PATH)) CFLAGS="$(CFLAGS) $(MACHINE)" \\
	CC="$(CC)" AR="$(AR)"
"""
_MAKE_RULES = """BUILD_DIR ?= build
CFLAGS ?= @optimise@
MACHINE ?= @machine@
HERE := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
OBJECTS = @made@
GIVEN = @given@

.PHONY: all clean
all: $(BUILD_DIR)/lib@name@.a
@runtime@
$(BUILD_DIR)/lib@name@.a: $(OBJECTS) $(GIVEN)
	@mkdir -p $(dir $@)
	rm -f $@
	$(AR) rcs $@ $^

$(BUILD_DIR)/%.c.o: $(HERE)%.c
	@mkdir -p $(dir $@)
	$(CC) $(CFLAGS) $(MACHINE) @flags@ $(INCLUDES) -MMD -MP -c $< -o $@

$(BUILD_DIR)/%.cc.o: $(HERE)%.cc
	@mkdir -p $(dir $@)
	$(CXX) $(CFLAGS) $(MACHINE) -ffp-contract=off $(INCLUDES) -MMD -MP -c $< -o $@

$(BUILD_DIR)/%.cpp.o: $(HERE)%.cpp
	@mkdir -p $(dir $@)
	$(CXX) $(CFLAGS) $(MACHINE) -ffp-contract=off $(INCLUDES) -MMD -MP -c $< -o $@

-include $(OBJECTS:.o=.d)

clean:
	rm -f $(BUILD_DIR)/lib@name@.a $(OBJECTS)
"""
