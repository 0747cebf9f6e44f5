"""Everything for one model on one target, in one call."""

load(":analysis.bzl", "NEEDS_BOARD", "mlf_analysis")
load(":benchmark.bzl", "mlf_benchmark")
load(
    ":calls.bzl",
    "check_board",
    "check_call",
    "check_common",
    "check_new",
    "check_number",
    "check_options",
    "check_plain",
    "check_platform",
    "is_select",
    "label_of",
)
load(":checks.bzl", "check_module_name")
load(":common.bzl", "for_hidden", "for_public", "split_common")
load(":compile.bzl", "mlf_compile")
load(":cpus.bzl", "CPUS", "HOSTS", "device_of", "is_bare")
load(":library.bzl", "ONE_TARGET", "library_of_archive")
load(":options.bzl", "EXECUTORS", "OPTIONS")
load(":run.bzl", "mlf_budget_test", "mlf_device_test", "mlf_host_test", "mlf_report")
load(":runner.bzl", "compiled_runner_source", "program_of_source")
load(":simulation.bzl", "run_tags")

_OPTIONS = dict(OPTIONS, executor = struct(kind = "string", values = list(EXECUTORS)))

def _board_of(device, board, platform):
    """What tags call the board of a test: the name of one of ours, or of the target that makes another."""
    if board:
        return str(board).rpartition(":" if ":" in str(board) else "/")[2]
    return CPUS[device].board if platform and device in CPUS else ""

# Kinds of mlf_analysis that need no more than a model, and vectors where there are some.
_SHOWN = [
    "bench",
    "check",
    "compare",
    "facts",
    "graph",
    "graph_before",
    "inspect",
    "memmap",
    "ops",
    "profile",
    "provenance",
    "report",
    "sbom",
    "size",
    "trace",
]

def _analyses(name, archive, bare, vectors, verified, given):
    """What there is to see of an archive. The names have a dot: an executor may be called `graph`."""
    shown = for_public(given)

    # Not what a wildcard asks for: each simulates a board.
    shown["tags"] = (shown.get("tags") or []) + ["manual"]
    kinds = [kind for kind in _SHOWN if bare or kind not in NEEDS_BOARD]
    for kind in kinds + (["verify"] if verified else []):
        samples = vectors if kind == "report" else None
        mlf_analysis(name = "%s.%s" % (name, kind), archive = archive, kind = kind, vectors = samples, **shown)

def mlf_model(
        name,
        model,
        target = "host",
        module_name = "",
        tuning = None,
        input_shapes = {},
        input_values = {},
        data = [],
        backend_files = [],
        backend_deps = [],
        vectors = None,
        absolute = "",
        relative = "",
        flash_bytes = None,
        ram_bytes = None,
        title = "",
        board = None,
        platform = None,
        copts = [],
        **options):
    """Archive, library, firmware, test and measurements of one model on one target.

    ```starlark
    mlf_model(
        name = "keyword",
        model = "keyword.onnx",
        target = "cortex-m4",
        vectors = "keyword.npz",
    )
    ```

    | target | what it is |
    |---|---|
    | `<name>` | the `cc_library` |
    | `<name>.tar` | the archive; the rule is `<name>_archive` |
    | `<name>_firmware` | `.elf`, `.bin`, `.hex`, `.map`: a program that runs the model on a file of inputs |
    | `<name>_test` | that program against `vectors`, on the host or on the simulated board |
    | `<name>_report` | the measurements of that run, as JSON |
    | `<name>_benchmark` | `bazel run` prints the cost of an inference |
    | `<name>_budget_test` | on a board, the measurements against `flash_bytes` and `ram_bytes` |
    | `<name>_tests` | a suite of these tests |
    | `<name>.check`, `.facts`, `.graph`, `.graph_before`, `.inspect`, `.memmap`, `.ops`, `.provenance`, `.report`, `.sbom`, `.trace` | the `mlf_analysis` targets |
    | `<name>.bench`, `.compare`, `.profile`, `.size` | the same, on simulated boards |
    | `<name>.verify` | the same, with `verify = True` |

    The library of a cross target is for that processor only: link it into an `mlf_firmware`, or build it
    with `--platforms=@mlftool//rules/platforms:<target>`. For other platforms Bazel reports it as
    "incompatible".

    Without `vectors` the macro makes neither tests nor a report. For a target that is neither the
    host nor a simulated board it makes only the archive and the library.

    Args:
      name: the library's name.
      model: the ONNX or TensorFlow Lite file.
      target: what to compile for.
      module_name: the module's name in C; default: `name`.
      tuning: a record of `mlftool tune`, as of `mlf_compile`.
      input_shapes: shapes of inputs the model leaves open.
      input_values: inputs that are constants, as of `mlf_compile`.
      data: files of ONNX external data.
      backend_files: Python files that define backends, as of `mlf_compile`.
      backend_deps: libraries for the code of `backends`, such as a vendor's.
      vectors: `.npz` with inputs and expected outputs.
      absolute: largest difference from the expected outputs, as of `mlf_host_test`.
      relative: allowed difference as a share of the expected outputs, added to `absolute`.
      flash_bytes: the limit for the program's flash on a simulated board.
      ram_bytes: the limit for its static RAM there.
      title: name in tables.
      board: an `mlf_board` of your own with this target; default: the simulated board of the target.
      platform: to build the program for, of a board's processor; default: that of `board` or `target`.
      copts: more options for compiling the library's C.
      **options: `executor` and the other options of `mlf_compile`, except limits. What is compiled
        with `optimize = "size"` is also compiled with `-Os`. And what Bazel gives every rule:
        `tags`, `testonly`, `exec_properties`, `exec_compatible_with`, `restricted_to` and `compatible_with`
        of all targets, `visibility` and `deprecation` of those above, `features` and
        `target_compatible_with` of the library and the programs (what needs them is then left out,
        too), `size`, `timeout`, `flaky` and `local` of the tests.
    """
    common, options = split_common(options)
    check_call(
        name,
        backend_deps = (backend_deps, "list"),
        backend_files = (backend_files, "list"),
        copts = (copts, "string_list"),
        data = (data, "list"),
        flash_bytes = (flash_bytes, "bytes"),
        input_shapes = (input_shapes, "string_dict"),
        input_values = (input_values, "string_dict"),
        model = (model, "label"),
        module_name = (module_name, "string"),
        ram_bytes = (ram_bytes, "bytes"),
        target = (target, "string"),
        title = (title, "string"),
        tuning = (tuning, "label"),
        vectors = (vectors, "label"),
    )
    check_number(name, absolute = absolute, relative = relative)
    check_options(name, options, _OPTIONS)
    check_common(name, common)
    check_plain(name, ONE_TARGET, target = target)
    check_plain(name, "the library's C is compiled as it says; make a target for each", optimize = options.get("optimize"))
    check_plain(name, "its platform is built for, and tags name it; make a target for each board", board = board)
    check_platform(name, platform)
    check_board(name, board, platform)
    check_new(name, [name, name + "_archive", name + "_runner", name + "_test"])
    if (flash_bytes != None or ram_bytes != None) and not vectors:
        fail("%s: error[MLF0414]: flash_bytes, ram_bytes: a budget is checked against a run, so it needs vectors (in a manifest: test)" %
             label_of(name))
    device = device_of(target, "%s: error[MLF0414]: target" % label_of(name))
    origin = "argument" if module_name else "name; set module_name"
    module_name = module_name or name.replace("-", "_")
    if not is_select(module_name):
        check_module_name(label_of(name), module_name, origin)
    archive, runner = name + "_archive", name + "_runner"
    mlf_compile(
        name = archive,
        backend_files = backend_files,
        data = data,
        input_shapes = input_shapes,
        input_values = input_values,
        # What the archive alone says is known long before a board has run it.
        max_constants_bytes = flash_bytes,
        max_workspace_bytes = ram_bytes,
        model = model,
        module_name = module_name,
        out = name + ".tar",
        target = target,
        tuning = tuning,
        **dict(for_public(common), **options)
    )
    c = for_public(common, c = True)
    library_of_archive(
        name = name,
        archive = archive,
        copts = (["-Os"] if options.get("optimize") == "size" else []) + copts,
        deps = backend_deps,
        device = device,
        kwargs = c,
        # What the compiler writes is C, but for this kind of target.
        with_objects = target.split(" ")[0] == "llvm",
    )
    _analyses(name, archive, is_bare(device), vectors, options.get("verify") == True, common)
    if not board and device not in HOSTS and not (device in CPUS and CPUS[device].board):
        return
    if not platform and not board and device not in HOSTS:
        platform = Label("//rules/platforms:" + device)
    compiled_runner_source(name = runner + "_source", archive = archive, **for_hidden(common))
    program_of_source(
        name = runner,
        archive = archive,
        board = board,
        kwargs = c,
        library = name,
        module = "",
        platform = platform,
        program = name + "_firmware",
        srcs = [],
    )
    if not vectors:
        return
    public, tested = for_public(common), for_public(common, test = True)
    check = dict(runner = runner, vectors = vectors, absolute = absolute, relative = relative)
    kind = "device" if platform or board else "host"
    test = mlf_device_test if platform or board else mlf_host_test
    simulated = _board_of(device, board, platform)
    own = tested.get("tags") or []
    test(name = name + "_test", **dict(tested, tags = own + run_tags(kind, simulated)[1:], **check))
    mlf_report(name = name + "_report", title = title, **dict(check, **public))
    mlf_benchmark(name = name + "_benchmark", **dict(check, **public))
    tests = [name + "_test"]
    if (platform or board) and (flash_bytes != None or ram_bytes != None):
        tests.append(name + "_budget_test")
        mlf_budget_test(
            name = name + "_budget_test",
            flash_bytes = flash_bytes,
            ram_bytes = ram_bytes,
            report = name + "_report",
            **dict({"size": "small"}, **dict(tested, tags = own + run_tags("budget", simulated)))
        )
    tags = {"tags": ["manual"]} if "manual" in public.get("tags", []) else {}
    visible = {key: public[key] for key in ["testonly", "visibility"] if key in public}
    native.test_suite(name = name + "_tests", tests = tests, **dict(visible, **tags))
