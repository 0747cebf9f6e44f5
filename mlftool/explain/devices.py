"""Codes MLF04nn to MLF09nn: flags, archives, runs and the machine."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.explain.text import Explanation

_COMPILE = "mlftool compile model.onnx -o out.tar"
_RUN = "mlftool run model.tar --inputs"

EXPLANATIONS: Mapping[str, Explanation] = {
    "MLF0400": Explanation(
        "An option or command is misspelt, or a value is missing or malformed.",
        "Use the suggestion in the message, or see `mlftool COMMAND --help`.",
        command="mlftool compile model.onnx --outptu out.tar",
    ),
    "MLF0401": Explanation(
        "mlftool reads a few variables: MLF_DEBUG, SOURCE_DATE_EPOCH, MLFTOOL_CACHE and those "
        "that name compilers. One of them has an invalid value.",
        "Correct the variable that the message names, or `unset` it.",
        message="mlftool: error[MLF0401]: SOURCE_DATE_EPOCH is 'today'; expected a number of "
        "seconds since 1970, at most 8589934591",
    ),
    "MLF0402": Explanation(
        "The folder does not exist and cannot be created, or is not writable, or the disk is "
        "full; or the file or project may not be replaced. mlftool leaves no partial file.",
        "Give another path, or free space.",
        command="mlftool compile model.onnx -o notes.txt/out.tar",
    ),
    "MLF0403": Explanation(
        "A target is one of mlftool's names or a target string of TVM's.",
        "Use the name that the message suggests. A target that a manifest declares is built by "
        "`mlftool build`, not by its name; docs/adding_a_target.md says how to add one.",
        command=f"{_COMPILE} --target cortex-m44",
    ),
    "MLF0404": Explanation(
        "The name is part of C symbols (tvmgen_NAME_run): letters, digits and underscores, a "
        "letter first.",
        "Give another one with --module-name.",
        command=f"{_COMPILE} --module-name my-model",
    ),
    "MLF0405": Explanation(
        "An option belongs to another executor or runtime, or applies to models but an archive is "
        "given.",
        "Remove the option, or choose the executor in the message with `--executor`.",
        command="mlftool size model.tar --optimize size",
    ),
    "MLF0406": Explanation(
        "A target string has a kind and attributes: 'c -mcpu=cortex-m4'.",
        "Use a short name such as cortex-m4, or correct the attribute.",
        command=f"{_COMPILE} --target 'c -mcqu=cortex-m4'",
    ),
    "MLF0407": Explanation(
        "Bazel and the persistent worker exchange protobuf messages or JSON. The worker got "
        "something else.",
        "Build with --strategy=MlfCompile=sandboxed, and report it with Bazel's version.",
        message="mlftool: error[MLF0407]: the persistent worker got text that is not a JSON object "
        "instead of a request",
    ),
    "MLF0408": Explanation(
        "--tuning takes a JSON file written by `mlftool tune`.",
        "Write it again: mlftool tune MODEL -o RECORD.json.",
        command=f"{_COMPILE} --tuning notes.txt",
    ),
    "MLF0409": Explanation(
        "The record's layers or kernels differ from those of this build: the model's shapes, an "
        "option or mlftool changed after the measurement.",
        "Run `mlftool tune` again. Retraining a model does not require it.",
        message="kws.tuning.json: error[MLF0409]: cortex-m4: was measured with float mode exact; "
        "got fused",
    ),
    "MLF0410": Explanation(
        "A backend is one of mlftool's, or the BACKEND of a --backend-file. Its name, device and "
        "functions are checked before the model is read.",
        "Use a name in the message, or give the file that defines the backend: `--backend-file "
        "FILE.py`.",
        command=f"{_COMPILE} --backend nope",
    ),
    "MLF0411": Explanation(
        "A backend accepted a part of the model. Then its compile function raised an exception, "
        "or returned something that cannot be written into an archive.",
        "Fix the backend, or compile without it: mlftool's kernels can compute the whole model.",
        message="mlftool: error[MLF0411]: node 'fc' (QGemm): backend 'npu': RuntimeError: no "
        "buffer is large enough",
    ),
    "MLF0412": Explanation(
        "No plan keeps the accuracy within the flash. The message has the most accurate plan that "
        "fits, and the smallest plan that is accurate enough.",
        "Lower the accuracy (--at-least), allow more flash (--flash), or give more samples.",
        message="kws.onnx: error[MLF0412]: cannot be reached: top1 at least 99.00 %; 97.20 % in "
        "24,512 bytes of constants (all float) can; the float model has 97.20 %",
    ),
    "MLF0413": Explanation(
        "The model has no layer with constant float weights, is quantised already, or onnxruntime "
        "cannot run it.",
        "Give the float ONNX model from the exporter.",
        message="kws_int8.onnx: error[MLF0413]: is quantised already; expected the float model "
        "that it was made from",
    ),
    "MLF0414": Explanation(
        "A BUILD file calls a rule or macro of mlftool with an unknown argument or value, or "
        "without a required argument.",
        'Call it with what the message expects, as in `optimize = "size"`; docs/rules.md has every '
        "argument.",
        message='//app:kws: error[MLF0414]: optimize: got "sise", expected one of "speed", '
        "\"size\"; did you mean 'size'?",
    ),
    "MLF0501": Explanation(
        "The file does not exist, is a folder, or may not be read; or a folder is not a project "
        "of `mlftool micro create`.",
        "Check the path.",
        command="mlftool inspect missing.tar",
    ),
    "MLF0502": Explanation(
        "The file is not a tar, has no metadata.json, or contains something that an archive never "
        "does: links, devices, paths outside it.",
        "Make the archive again. Do not unpack such an archive with tar if it comes from someone "
        "else.",
        command="mlftool inspect notes.tar",
    ),
    "MLF0503": Explanation(
        "Every module of an archive needs its own name, since C symbols contain it.",
        "Rename one with --module-name or in the manifest.",
        message="mlftool: error[MLF0503]: Multiple modules should have unique names; got kws, kws",
    ),
    "MLF0504": Explanation(
        "The archive has no such member, or no module with this name or executor.",
        "`mlftool inspect ARCHIVE` lists its contents.",
        message="kws.tar: error[MLF0504]: no member 'codegen/main.c'",
    ),
    "MLF0505": Explanation(
        "metadata.json lacks a key or has values that the format does not allow. Another program "
        "has written or changed it.",
        "Make the archive again: `mlftool compile MODEL -o FILE.tar`; docs/mlf.md has the format.",
        message="kws.tar: error[MLF0505]: metadata.json: modules.kws.memory: is missing",
    ),
    "MLF0506": Explanation(
        "Older versions of the format cannot store several modules, or operators.",
        "Leave `--mlf-version` out, which writes 7, or use the version that the message names.",
        message="mlftool: error[MLF0506]: version 5 holds one module; got kws, vww",
    ),
    "MLF0507": Explanation(
        "checksums.sha256 has the SHA-256 of each file, and one differs: the archive was edited "
        "or damaged.",
        "Make the archive again. Edit sources after `mlftool extract`, not inside the archive.",
        message="kws.tar: error[MLF0507]: codegen/host/src/kws_lib1.c: was changed: its SHA-256 "
        "differs from checksums.sha256",
    ),
    "MLF0508": Explanation(
        "A .params file is a list of named arrays in TVM's binary form. This one ends early, or "
        "counts and lengths contradict each other.",
        "Make the archive again.",
        message="kws.tar: error[MLF0508]: parameters/kws.params: the data claims 4096 bytes at "
        "120; 64 are left",
    ),
    "MLF0509": Explanation(
        "The nodes, storage and shapes in the graph executor's JSON contradict each other.",
        "Make the archive again.",
        message="kws.tar: error[MLF0509]: executor-config/graph/kws.graph: nodes[4].inputs[0]: "
        "names output 0 of node 9, which does not precede it",
    ),
    "MLF0510": Explanation(
        "A certificate lists what was proven of a module, and the bytes of its files. The archive "
        "has no certificate, or was changed later, or the proof does not hold.",
        "Compile with --verify, and let no other program edit the archive.",
        command="mlftool verify model.tar",
    ),
    "MLF0511": Explanation(
        "A shared library of `mlftool library` contains a description of its module. The file has "
        "no description: another program made it, or it is not a shared library.",
        "Make the library with `mlftool library`, from an archive in Model Library Format.",
        command="mlftool run notes.so --inputs model.npz",
    ),
    "MLF0600": Explanation(
        "Test vectors are plain arrays in numpy's format. mlftool never loads pickled objects.",
        "Write the file with numpy.savez(path, **{'tensor name': array}).",
        command=f"{_RUN} notes.txt",
    ),
    "MLF0601": Explanation(
        "Each input needs an array under its name.",
        "Name the arrays as the message does: `np.savez('in.npz', image=image)`. `mlftool inspect "
        "ARCHIVE` lists the inputs of an archive.",
        command=f"{_RUN} other.npz",
    ),
    "MLF0602": Explanation(
        "An array must have the tensor's type, and its shape, with or without a leading axis for "
        "samples.",
        "Convert it: array.astype(numpy.int8), array.reshape(...).",
        command=f"{_RUN} wrong.npz",
    ),
    "MLF0603": Explanation(
        "Arrays with a leading axis hold samples; all inputs and references must have the same "
        "number.",
        "Cut the longer arrays.",
        message="kws.npz: error[MLF0603]: the arrays hold different numbers of samples: 'x' 8, "
        "'y' 7",
    ),
    "MLF0604": Explanation(
        "The result is outside the tolerance: 0 for integers, 1e-5 absolute and relative for "
        "float32. A reference from different arithmetic, such as float sums in another order or "
        "an unoptimised quantised model, may differ slightly.",
        "If the difference is acceptable, give --absolute and --relative. If not, `mlftool "
        "compare` names the first wrong layer.",
        command=f"{_RUN} model.npz --expect zeros.npz",
    ),
    "MLF0605": Explanation(
        "The program crashed, did not end in time, or wrote outside its memory.",
        "See its output in the message. With mlftool's own kernels this is a bug: please report "
        "the model. `mlftool run MODEL --executor debug --dump DIR` writes what each layer gives.",
        message="kws.tar: error[MLF0605]: module 'kws': (the program ended with signal 11)",
    ),
    "MLF0606": Explanation(
        "--module names a module that does not exist, or is required because the archive has "
        "several.",
        "`mlftool inspect ARCHIVE` lists them.",
        command="mlftool run model.tar --module other --inputs model.npz",
    ),
    "MLF0607": Explanation(
        "The archive does not describe its inputs, outputs or parameters well enough for a test "
        "runner. Some archives of other programs lack these facts.",
        "Make the archive with mlftool, or compile its sources with your own main.",
        message="tvm.tar: error[MLF0607]: default: modules of the vm executor cannot be run",
    ),
    "MLF0608": Explanation(
        "The C compiler or linker rejected the sources, or the flash or RAM of the board is too "
        "small. The message has the compiler's first error, or the sizes.",
        "`mlftool size` and `mlftool memmap` show what takes the memory. Otherwise check the "
        "version of the compiler.",
        message="mlftool: error[MLF0608]: module 'vww' does not fit: RAM is 65,536 bytes, "
        "231,424 are needed: 165,888 too many",
    ),
    "MLF0609": Explanation(
        "A runner or image must be an ELF file for the board's processor. A project of "
        "`mlftool micro` has one after it was built.",
        "Build it, or build it again; `file FIRMWARE` says what it is.",
        command=f"{_RUN} model.npz --runner missing.elf",
    ),
    "MLF0610": Explanation(
        "Only some targets have a board that QEMU simulates; instructions are counted there.",
        "Use one in the message, such as `--on cortex-m4`, or describe your own: docs/boards.md.",
        command=f"{_RUN} model.npz --on cortex-m44",
    ),
    "MLF0611": Explanation(
        "TVM's archives may call CMSIS-NN or other libraries that they do not contain.",
        "Link the library in your own build: mlf_import has `deps`.",
        message="mlftool: error[MLF0611]: module 'default' needs the header 'arm_nnfunctions.h', "
        "which the archive does not contain",
    ),
    "MLF0612": Explanation(
        "Archives of target kind llvm contain object files, which are for one machine only.",
        "Compile for the machine that runs it, or with target kind c.",
        message="mlftool: error[MLF0612]: codegen/host/lib/kws_lib0.o: is compiled for armv7l; "
        "this computer is x86_64",
    ),
    "MLF0613": Explanation(
        "The code uses instructions or a byte order that the board does not have. As a warning: "
        "the code runs, but kernels for the board's own processor are better.",
        "Compile the model for the board: `mlftool compile MODEL --target T`, with the target in "
        "the message.",
        message="kws.tar: error[MLF0613]: the code is for cortex-m55; MPS2 is a cortex-m4",
    ),
    "MLF0614": Explanation(
        "board.json lacks a key or has values of the wrong kind.",
        "Add the key that the message names, or give it a value as in mlftool's "
        "`crt/boards/*/board.json`; docs/boards.md has every key.",
        message="boards/mine/board.json: error[MLF0614]: the key 'simulator' is missing",
    ),
    "MLF0615": Explanation(
        "The host drives the board over a line. The board was reset, is busy, or refused a call.",
        "Check the cable, and that the firmware contains the RPC server; then open the session "
        "again.",
        message="mlftool: error[MLF0615]: nothing to read within 10 s",
    ),
    "MLF0616": Explanation(
        "`mlftool diff --fail-on` limits how much a figure may grow; this build exceeds it.",
        "The same output shows which layers changed. Reduce the figure, or raise the limit or the "
        "baseline.",
        message="kws.tar: error[MLF0616]: flash: was 13,140, is 13,548 (+3.1 %); expected at "
        "most what 'flash>+2%' allows",
    ),
    "MLF0617": Explanation(
        "Quantisation takes ranges from the samples. An array is empty, or has a NaN or an "
        "infinity, most often from a division by zero in normalisation.",
        "Look at the element in the message; `np.isfinite(array)` finds the others. Correct the "
        "program that wrote the file.",
        message="train.npz: error[MLF0617]: x: not finite; got nan at [3, 0, 17], expected numbers",
    ),
    "MLF0700": Explanation(
        "A compiler, QEMU or an optional Python package is missing, or not on PATH.",
        "`mlftool doctor` lists what is missing and the line that installs it.",
        message="mlftool: error[MLF0700]: 'cc' is not installed; it is needed to run models on "
        "this computer",
    ),
    "MLF0701": Explanation(
        "The system killed a compiling process, most often because memory ran out.",
        "Compile fewer models at once (-j 1), or use a machine with more memory.",
        message="mlftool: error[MLF0701]: kws/cortex-m4-aot.tar: the compiling process was "
        "killed; got no result, expected an archive",
    ),
    "MLF0702": Explanation(
        "mlftool caches built programs in a folder of the user, or in MLFTOOL_CACHE.",
        "Set MLFTOOL_CACHE to a writable folder.",
        message="/cache: error[MLF0702]: the cache of built programs cannot be written: "
        "Read-only file system",
    ),
    "MLF0703": Explanation(
        "Python ran out of memory while it compiled the model.",
        "Close other programs, or compile on a larger machine; --max-memory sets a limit.",
        message="big.onnx: error[MLF0703]: not enough memory",
    ),
    "MLF0704": Explanation(
        "mlftool writes temporary files to TMPDIR (/tmp).",
        "Free space, or set TMPDIR to another folder; `ulimit -n` is the limit of open files.",
        message="/tmp/mlftool: error[MLF0704]: refused: No space left on device",
    ),
    "MLF0705": Explanation(
        "mlftool limits each compile, so that one model cannot block a build server: 20 seconds "
        "of processor time and 2 GiB, more for large models.",
        "If the model is really that large, raise --max-seconds or --max-memory (0: no limit).",
        message="big.onnx: error[MLF0705]: takes more than 20 seconds of processor time to compile",
    ),
    "MLF0900": Explanation(
        "mlftool has a bug. The report that the message names has a small model that reproduces "
        "it, if one was found.",
        "Please send that file. Until the bug is fixed, another --executor or -O level may work.",
        message="mlftool: error[MLF0900]: ValueError at fuse.py:81: ...",
    ),
}
