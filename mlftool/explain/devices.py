"""Codes MLF04nn to MLF09nn: flags, archives, runs and the machine."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.explain.text import Explanation

_COMPILE = "mlftool compile model.onnx -o out.tar"
_RUN = "mlftool run model.tar --inputs"

EXPLANATIONS: Mapping[str, Explanation] = {
    "MLF0400": Explanation(
        "The command line cannot be understood: an option or command is misspelt, a value is "
        "missing or malformed.",
        "Take what the message suggests, or look at `mlftool COMMAND --help`.",
        command="mlftool compile model.onnx --outptu out.tar",
    ),
    "MLF0401": Explanation(
        "mlftool reads a few variables: MLF_DEBUG, SOURCE_DATE_EPOCH, MLFTOOL_CACHE and those that "
        "name compilers. One has a value that means nothing.",
        "Correct or unset the variable that the message names.",
        message="SOURCE_DATE_EPOCH: error[MLF0401]: got 'today', expected seconds since 1970",
    ),
    "MLF0402": Explanation(
        "The folder does not exist and cannot be made, or may not be written; the disk may be "
        "full. Nothing is left half written.",
        "Give another path, or make room.",
        command="mlftool compile model.onnx -o notes.txt/out.tar",
    ),
    "MLF0403": Explanation(
        "A target is one of mlftool's names or a target string of TVM's.",
        "Take a name from the message; docs/adding_a_target.md says how to add one.",
        command=f"{_COMPILE} --target cortex-m44",
    ),
    "MLF0404": Explanation(
        "The name is part of C symbols (tvmgen_NAME_run): letters, digits and underscores, a "
        "letter first.",
        "Give another one with --module-name.",
        command=f"{_COMPILE} --module-name my-model",
    ),
    "MLF0405": Explanation(
        "An option is of another executor or runtime, or of models while an archive is given.",
        "Leave the option out, or choose the executor that the message names.",
        command="mlftool size model.tar --optimize size",
    ),
    "MLF0406": Explanation(
        "A target string has a kind and attributes: 'c -mcpu=cortex-m4'.",
        "Use a short name such as cortex-m4, or correct the attribute.",
        command=f"{_COMPILE} --target 'c -mcqu=cortex-m4'",
    ),
    "MLF0407": Explanation(
        "Bazel and the persistent worker exchange JSON lines. Something else wrote to the worker.",
        "Build with --strategy=MlfCompile=sandboxed, and report it with Bazel's version.",
        message="mlftool: error[MLF0407]: a work request is not JSON",
    ),
    "MLF0408": Explanation(
        "--tuning takes the JSON file that `mlftool tune` wrote.",
        "Make it again: mlftool tune MODEL -o RECORD.json.",
        command=f"{_COMPILE} --tuning notes.txt",
    ),
    "MLF0409": Explanation(
        "The record's layers or kernels are not those of this build: the model's shapes, the "
        "target, an option or mlftool changed since.",
        "Run `mlftool tune` again; training a model again does not need that.",
        message="kws.json: error[MLF0409]: was measured for cortex-m7; got target cortex-m4",
    ),
    "MLF0410": Explanation(
        "A backend is one of mlftool's, or what a file of --backend-file has as BACKEND. Its name, "
        "device and functions are checked before a model is read.",
        "Name one of those that the message lists, or give the file that defines it.",
        command=f"{_COMPILE} --backend nope",
    ),
    "MLF0411": Explanation(
        "A backend said that it computes a part of the model. Then its compile function raised an "
        "exception, or returned what cannot be written into an archive.",
        "Mend the backend, or compile without it: our kernels compute everything.",
        message="mlftool: error[MLF0411]: fc (QGemm): backend 'npu': no buffer is large enough",
    ),
    "MLF0412": Explanation(
        "No plan that was tried keeps the accuracy within the flash. The message has the best that "
        "fits, and the smallest that is accurate enough.",
        "Ask for less accuracy (--at-least), allow more flash (--flash), or give more samples.",
        message="kws.onnx: error[MLF0412]: cannot be reached: top1 at least 99.00 %; 97.20 % in "
        "24,512 bytes of constants (all float) can; the float model has 97.20 %",
    ),
    "MLF0413": Explanation(
        "The model has no layer with constant float weights, is quantised already, or onnxruntime "
        "cannot run it.",
        "Give the float ONNX model that the exporter wrote.",
        message="kws_int8.onnx: error[MLF0413]: is quantised already; expected the float model "
        "that it was made from",
    ),
    "MLF0414": Explanation(
        "A BUILD file calls a rule or macro of mlftool with an argument or a value that it does "
        "not take, or without one that it needs.",
        "The line says what it takes; docs/rules.md has every argument.",
        message='//app:kws: error[MLF0414]: optimize: got "sise", expected one of "speed", '
        "\"size\"; did you mean 'size'?",
    ),
    "MLF0501": Explanation(
        "The file does not exist, is a folder, or may not be read.",
        "Check the path.",
        command="mlftool inspect missing.tar",
    ),
    "MLF0502": Explanation(
        "The file is no tar, has no metadata.json, or holds what an archive never does: links, "
        "devices, paths that leave it.",
        "Make the archive again; one from elsewhere should not be unpacked with tar either.",
        command="mlftool inspect notes.tar",
    ),
    "MLF0503": Explanation(
        "Every module of an archive needs a name of its own, since symbols are made of it.",
        "Rename one with --module-name or in the manifest.",
        message="all.tar: error[MLF0503]: two modules are called 'kws'",
    ),
    "MLF0504": Explanation(
        "The archive has no member of this kind: no parameters, no graph, no such file.",
        "`mlftool inspect ARCHIVE` lists what it has.",
        message="kws.tar: error[MLF0504]: has no graph; got executor aot",
    ),
    "MLF0505": Explanation(
        "metadata.json lacks a key or has values that the format does not allow. Another program "
        "wrote or changed it.",
        "Make the archive again; docs/mlf.md has the format.",
        message="kws.tar: error[MLF0505]: metadata.json: modules.kws.memory is missing",
    ),
    "MLF0506": Explanation(
        "Older versions of the format have no place for several modules, or for pools.",
        "Leave the version out, or take the one that the message names.",
        message="all.tar: error[MLF0506]: version 5 holds one module; got 2, expected version 7",
    ),
    "MLF0507": Explanation(
        "checksums.json has the SHA-256 of each file, and one differs: the archive was edited or "
        "damaged.",
        "Make the archive again. Edit sources after `mlftool extract`, not inside the archive.",
        message="kws.tar: error[MLF0507]: codegen/host/src/lib1.c was changed",
    ),
    "MLF0508": Explanation(
        "A .params file is a list of named arrays in TVM's binary form. This one ends early, or "
        "counts and lengths contradict each other.",
        "Make the archive again.",
        message="kws.tar: error[MLF0508]: parameters/kws.params: ends in the middle of an array",
    ),
    "MLF0509": Explanation(
        "The graph executor's JSON names nodes, storage and shapes; these do not fit together.",
        "Make the archive again.",
        message="kws.tar: error[MLF0509]: executor-config/graph/kws.graph: node 4 reads node 9",
    ),
    "MLF0510": Explanation(
        "A certificate says what was proven of a module, and which bytes it was proven of. The "
        "archive has none, or it was changed after that, or the proof itself does not hold.",
        "Compile with --verify, and let no other program edit the archive.",
        command="mlftool verify model.tar",
    ),
    "MLF0511": Explanation(
        "A shared library says what it holds in a text of its own. The file has none: another "
        "program made it, or it is no shared library at all.",
        "Make the library with `mlftool library`, of an archive in Model Library Format.",
        command="mlftool run notes.so --inputs model.npz",
    ),
    "MLF0600": Explanation(
        "Vectors are plain arrays in numpy's format. Pickled objects are never loaded.",
        "Write the file with numpy.savez(path, **{'tensor name': array}).",
        command=f"{_RUN} notes.txt",
    ),
    "MLF0601": Explanation(
        "Each input needs an array of its name.",
        "Use the model's names: `mlftool inspect` lists them.",
        command=f"{_RUN} other.npz",
    ),
    "MLF0602": Explanation(
        "An array has the tensor's type, and its shape or one more axis in front for samples.",
        "Convert it: array.astype(numpy.int8), array.reshape(...).",
        command=f"{_RUN} wrong.npz",
    ),
    "MLF0603": Explanation(
        "Arrays with one more axis hold samples; all inputs and references hold as many.",
        "Cut the longer arrays.",
        message="kws.npz: error[MLF0603]: the arrays hold different numbers of samples: 'x' 8, "
        "'y' 7",
    ),
    "MLF0604": Explanation(
        "The result is outside the tolerance: 0 for integers, 1e-5 absolute and relative for "
        "float32. A reference of another arithmetic, such as float sums in another order or an "
        "unoptimised quantised model, may differ by a little.",
        "If the model may differ that much, give --absolute and --relative. If not, "
        "`mlftool compare` names the first layer that goes wrong.",
        command=f"{_RUN} model.npz --expect zeros.npz",
    ),
    "MLF0605": Explanation(
        "The program stopped, did not end in time, or wrote where it may not.",
        "Look at what it printed; with our own kernels it is a bug: please report the model.",
        message="kws.tar: error[MLF0605]: module 'kws' ended with signal 11",
    ),
    "MLF0606": Explanation(
        "--module names a module that is not there, or is needed because there are several.",
        "`mlftool inspect ARCHIVE` lists them.",
        command="mlftool run model.tar --module other --inputs model.npz",
    ),
    "MLF0607": Explanation(
        "Inputs, outputs or the memory plan are not described as a runner needs it; some archives "
        "of other programs lack them.",
        "Make the archive with mlftool, or compile its sources with your own main.",
        message="tvm.tar: error[MLF0607]: module 'default': the inputs' types are not described",
    ),
    "MLF0608": Explanation(
        "The C compiler or linker refused the sources, or flash or RAM of the board are too small; "
        "the message has its words, or what is needed and what is there.",
        "For memory, `mlftool size` and `mlftool memmap` say what takes it. Otherwise check the "
        "version of the compiler.",
        message="vww.tar: error[MLF0608]: does not fit the board: RAM needs 231,424 B, has "
        "65,536 B",
    ),
    "MLF0609": Explanation(
        "A runner or image is an ELF file for the board's processor.",
        "Build it again; `file FIRMWARE` says what it is.",
        command=f"{_RUN} model.npz --runner missing.elf",
    ),
    "MLF0610": Explanation(
        "Only some targets have a board that QEMU simulates, and instructions are counted there.",
        "Choose one that the message names, or describe your own: docs/boards.md.",
        command=f"{_RUN} model.npz --on cortex-m44",
    ),
    "MLF0611": Explanation(
        "TVM's archives may call CMSIS-NN or other libraries that travel separately.",
        "Link the library in your own build: mlf_import has `deps`.",
        message="tvm.tar: error[MLF0611]: needs arm_nnfunctions.h, which is not in the archive",
    ),
    "MLF0612": Explanation(
        "Archives of target kind llvm hold object files, which only fit one machine.",
        "Compile for the machine that runs it, or with target kind c.",
        message="kws.tar: error[MLF0612]: lib/lib0.o is for ARM; expected x86-64",
    ),
    "MLF0613": Explanation(
        "The code uses instructions or a byte order that the board does not have; as a warning, it "
        "runs, but the board's own kernels are better.",
        "Compile the model with the --target that the message names.",
        message="kws.tar: error[MLF0613]: the archive is for cortex-m55; MPS2 is a cortex-m4",
    ),
    "MLF0614": Explanation(
        "board.json lacks a key or has values of the wrong kind.",
        "docs/boards.md has every key.",
        message="boards/mine/board.json: error[MLF0614]: the key 'simulator' is missing",
    ),
    "MLF0615": Explanation(
        "The host talks to the board over a line. It was reset, is busy, or refused a call.",
        "Check the cable and that the firmware is the server's; then open the session again.",
        message="/dev/ttyACM0: error[MLF0615]: the board does not answer",
    ),
    "MLF0616": Explanation(
        "`mlftool diff --fail-on` limits how much a figure may grow; this build exceeds it.",
        "See which layers changed in the same output; then raise the limit or the baseline.",
        message="kws.tar: error[MLF0616]: flash: +3.1 %, expected at most +2 %",
    ),
    "MLF0617": Explanation(
        "Ranges are found on samples: an array is empty, or has a NaN or an infinity, most often "
        "from a division by zero while data were normalised.",
        "Look at the element that the message names, and at what wrote the file.",
        message="train.npz: error[MLF0617]: x: not finite; got nan at [3, 0, 17], expected numbers",
    ),
    "MLF0700": Explanation(
        "A compiler, QEMU or an optional Python package is missing, or not on PATH.",
        "`mlftool doctor` lists what is missing and the line that installs it.",
        message="mlftool: error[MLF0700]: qemu-system-arm is not installed",
    ),
    "MLF0701": Explanation(
        "The system ended a compiling process, most often because memory ran out.",
        "Compile fewer at once (-j 1), or give the machine more memory.",
        message="models.yaml: error[MLF0701]: kws/cortex-m4: the process was killed by signal 9",
    ),
    "MLF0702": Explanation(
        "Built programs are kept in a folder of the user, or in MLFTOOL_CACHE.",
        "Set MLFTOOL_CACHE to a folder that can be written.",
        message="/cache: error[MLF0702]: cannot be written: Read-only file system",
    ),
    "MLF0703": Explanation(
        "Python could not get memory while it compiled the model.",
        "Close other programs, or compile on a larger machine; --max-memory sets a limit.",
        message="big.onnx: error[MLF0703]: not enough memory",
    ),
    "MLF0704": Explanation(
        "Temporary files are in TMPDIR (/tmp).",
        "Make room, or set TMPDIR to another folder; `ulimit -n` is the limit of open files.",
        message="/tmp: error[MLF0704]: cannot be written: No space left on device",
    ),
    "MLF0705": Explanation(
        "Compiling is limited so that no model stops a build farm: 20 seconds of processor time "
        "and 2 GiB, more for large models.",
        "If the model is really that large, raise --max-seconds or --max-memory (0: no limit).",
        message="big.onnx: error[MLF0705]: takes more than 20 s to compile",
    ),
    "MLF0900": Explanation(
        "mlftool has failed where it should not. The report beside the message has a small model "
        "that shows it, where one was found.",
        "Please report it with that file. Another --executor or -O level may work meanwhile.",
        message="mlftool: error[MLF0900]: a bug in mlftool: ValueError: ... (fuse.py:81)",
    ),
}
