"""What our rules tell each other, and rules of others that want to build on them."""

MlfInfo = provider(
    doc = "A Model Library Format archive.",
    fields = {
        "archive": "File: the .tar.",
        "executors": "dict: module -> aot, graph or vm; empty if known only from the archive.",
        "modules": "list of strings: the names of its modules, in order.",
        "target": "string: what it was compiled for, as mlftool spells it.",
    },
)

MlfPartsInfo = provider(
    doc = "What an archive holds, written with it; of one from elsewhere only an action can tell.",
    fields = {
        "parts": "struct: the folders `headers` and `objects`, the File `link_args`, the list `sources`.",
    },
)

MlfSpecsInfo = provider(
    doc = "What an archive was made from, for who compiles its modules again to look at them.",
    fields = {
        "files": "list of Files: the models, their data and what else decides the archive.",
        "specs": "list of structs, as in MlfModuleInfo, in the order of the modules.",
    },
)

MlfModuleInfo = provider(
    doc = "One module of an mlf_package, not compiled yet.",
    fields = {
        "files": "list of Files: the model, its data and all other files that the archive depends on.",
        "spec": "struct: what mlftool.compile.ModuleSpec takes.",
    },
)

MlfBoardInfo = provider(
    doc = "How to run programs of a board.",
    fields = {
        "description": "File: a user's board.json as `mlftool run --on` reads it, or None if it knows the board.",
        "simulator": "list of strings: the command that runs programs; empty without one.",
    },
)

MlfFirmwareInfo = provider(
    doc = "A linked program image.",
    fields = {
        "bin": "File: raw bytes from the start of flash, or None for the host.",
        "cpu": "string: the board's processor, or 'host'.",
        "description": "File: the board.json of a user's board, or None.",
        "elf": "File: the program with its symbols.",
        "hex": "File: Intel HEX, or None for the host.",
        "map": "File: the linker's map.",
        "simulator": "list of strings: the command that runs it; empty without one, None if not known.",
    },
)

MlfRunnerInfo = provider(
    doc = "A program that runs one module on files of inputs.",
    fields = {
        "archive": "File: the archive the module came from.",
        "cpu": "string: where it runs, 'host' or a board's processor.",
        "description": "File: the board.json of a user's board, or None.",
        "elf": "File: the program.",
        "images": "list of Files: the images to flash; empty for the host.",
        "module": "string: the module's name.",
        "simulator": "list of strings, as in MlfFirmwareInfo; None for the host.",
    },
)

MlfFactsInfo = provider(
    doc = "The figures by which two builds of a module are compared.",
    fields = {"facts": "File: JSON as `mlftool diff --save` writes it."},
)

MlfReportInfo = provider(
    doc = "The measurements of one run of one module on one target.",
    fields = {
        "report": "File: JSON as `mlftool run --report` writes it.",
        "runner": "MlfRunnerInfo: the program that ran.",
        "title": "string: the module's name in tables.",
    },
)

MlfSizeInfo = provider(
    doc = "The results of `mlf_size_aspect` for a target.",
    fields = {
        "archives": "depset of Files: the archives of all models the target depends on.",
        "json": "File: the sizes, if the target is a program, else None.",
        "text": "File: the same as a table.",
    },
)
