# ruff: noqa: E501 -- tables, and Starlark as buildifier lays it out.
"""Bazel's globals in Starlark: what `rule`, `attr` and `Label` do while files are loaded.

Functions cannot leave the interpreter, so all that takes or returns one is written here; `py_*` are
Python's (evaluator.py), which take and return plain data. A Label or path is a struct whose `_kind` says
so, a select a list with its branches in it: `type` and `str` know them. Starlark's `%` does not, so a
Label there reads as a struct.
"""

TEXT = '''
_type = type
_str = str

def _is_select(value):
    return _type(value) == "list" and len([v for v in value if _type(v) == "struct" and hasattr(v, "branches")]) > 0

def type_of(value):
    if _is_select(value):
        return "select"
    return getattr(value, "_kind", "struct") if _type(value) == "struct" else _type(value)

def str_of(value):
    kind = type_of(value)
    return value._text if kind in ["Label", "path"] else _str(value)

def _label(found):
    return struct(
        _kind = "Label",
        _text = "@@%s//%s:%s" % (found["repo"], found["package"], found["name"]),
        name = found["name"],
        package = found["package"],
        repo_name = found["repo"],
    )

def _plain(value):
    """Labels as {"label": text} and selects as {"select": branches}, however deep."""
    kind = type_of(value)
    if kind == "Label":
        return {"label": value._text}
    if kind == "select":
        return {"parts": [
            [[_plain(key), _plain(branch)] for key, branch in part.branches.items()] if hasattr(part, "branches") else _plain(part)
            for part in value
        ]}
    if kind in ["list", "tuple"]:
        return [_plain(item) for item in value]
    if kind == "dict":
        return {"dict": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if kind in ["string", "int", "bool", "NoneType"]:
        return value
    return {"other": kind}

def _resolved(repo, package, value):
    """A default of attr.label and its relatives, relative to the file that says it."""
    kind = type_of(value)
    if kind == "string":
        return _label(py_resolve(repo, package, value))
    if kind == "list":
        return [_resolved(repo, package, item) for item in value]
    if kind == "dict":
        return {_resolved(repo, package, key): item for key, item in value.items()}
    return value

def _attributes(repo, package):
    """`attr`: each kind takes what Bazel documents, and remembers it."""
    def kind_of(kind, words):
        def make(**given):
            for word in given:
                if word not in words:
                    fail("attr.%s has no parameter '%s'" % (kind, word))
            default = given.get("default")
            if "label" in kind and default != None and type_of(default) != "function":
                default = _resolved(repo, package, default)
            if given.get("executable") and "cfg" not in given:
                fail("attr.%s: executable = True needs cfg" % kind)
            if given.get("cfg") == "host":
                fail("attr.%s: cfg = \\"host\\" is not in this Bazel" % kind)
            if given.get("mandatory") and default != None:
                fail("attr.%s: mandatory and default exclude each other" % kind)
            for constraint in given.get("providers", []) + given.get("aspects", []):
                if constraint == None:
                    fail("attr.%s: providers or aspects has None" % kind)
            return struct(
                _kind = "Attribute",
                default = default,
                mandatory = given.get("mandatory", False),
                of = kind,
                values = given.get("values", []),
            )
        return make

    return struct(**{kind: kind_of(kind, words) for kind, words in py_attr_kinds().items()})

def _schema(attrs):
    return {
        name: {"of": a.of, "mandatory": a.mandatory, "values": a.values, "default": _plain(a.default)}
        for name, a in attrs.items()
    }

def _rule_function(repo, package, file):
    def rule(implementation, attrs = {}, **given):
        py_check_words("rule", given.keys())
        for toolchain in given.get("toolchains", []):
            if type_of(toolchain) in ["string", "Label"]:
                py_mention(repo, package, str_of(toolchain))
        attributes = dict(attrs)
        for attribute in attributes.values():
            for label in attribute.default if type_of(attribute.default) == "list" else [attribute.default]:
                if type_of(label) == "Label":
                    py_mention(repo, package, label._text)
        setting = given.get("build_setting")
        py_check_attributes(_schema(attributes))
        words = {
            "executable": bool(given.get("executable")),
            "setting": setting.of if setting else None,
            "test": bool(given.get("test") or given.get("analysis_test")),
        }
        schema = _schema(attributes)

        def made(**values):
            py_declare("rule of " + file, words, schema, {key: _plain(value) for key, value in values.items()})

        return made

    return rule

def native_rule(kind):
    def made(**values):
        py_declare_native(kind, {key: _plain(value) for key, value in values.items()})

    return made

def _select(branches, no_match_error = ""):
    if type_of(branches) != "dict":
        fail("select: got %s, expected a dict" % type_of(branches))

    # A list of one, so that lists can be added to it.
    return [struct(branches = branches)]

def _glob(include = [], exclude = [], exclude_directories = 1, allow_empty = None):
    return py_glob(include, exclude, exclude_directories, allow_empty)

def _package(**given):
    py_package({key: _plain(value) for key, value in given.items()})

def _exports_files(srcs, visibility = None, licenses = None):
    py_exports(srcs, _plain(visibility))

def provider(doc = "", fields = None, init = None):
    def make(**values):
        return struct(**values)

    return make

def named(name):
    def use(*args, **kwargs):
        fail("%s was called while files are loaded" % name)

    return use

def _setting(of):
    def make(**given):
        return struct(_kind = "BuildSetting", of = of)

    return make

def _transition_function(repo, package):
    def transition(implementation, inputs, outputs):
        for option in inputs + outputs:
            if not option.startswith("//command_line_option:"):
                py_mention(repo, package, option)
        return struct(_kind = "transition")

    return transition

def _native(rules):
    functions = {
        "existing_rule": py_existing_rule,
        "existing_rules": named("native.existing_rules"),
        "exports_files": _exports_files,
        "glob": _glob,
        "module_name": py_module_name,
        "module_version": named("native.module_version"),
        "package": _package,
        "package_default_visibility": named("native.package_default_visibility"),
        "package_group": native_rule("package_group"),
        "package_name": py_package_name,
        "package_relative_label": lambda text: _label(py_resolve_here(text)) if type(text) == "string" else text,
        "repo_name": py_repo_name,
        "repository_name": named("the deprecated native.repository_name"),
        "subpackages": named("native.subpackages"),
    }
    functions.update({kind: native_rule(kind) for kind in rules})
    return functions

def _repository_rule_function(repo, package):
    def repository_rule(implementation, attrs = {}, **given):
        py_check_words("repository_rule", given.keys())
        schema = _schema(attrs)
        py_check_attributes(schema)

        def made(name, **values):
            plain = {key: _plain(value) for key, value in values.items()}
            made = py_repository(name, schema, plain)
            implementation(_repository_context(made))

        return made

    return repository_rule

def _value(plain):
    kind = _type(plain)
    if kind == "dict" and "label" in plain:
        return _label(py_split(plain["label"]))
    if kind == "dict" and "dict" in plain:
        return {_value(key): _value(item) for key, item in plain["dict"]}
    if kind == "list":
        return [_value(item) for item in plain]
    return plain

def _path_of(found):
    """A path object; its folders are made first, from the root down."""
    path = None
    for text in found["above"] + [found["path"]]:
        path = struct(
            _kind = "path",
            _text = text,
            basename = text.rpartition("/")[2],
            dirname = path,
            exists = py_exists(text),
            get_child = _child(text),
            realpath = text,
        )
    return path

def _child(text):
    def get_child(*names):
        return _path_of(py_path("/".join([text] + list(names))))

    return get_child

def _repository_context(made):
    def path(value):
        return value if type_of(value) == "path" else _path_of(py_path_in(made["folder"], _plain(value)))

    def execute(arguments, timeout = 600, environment = {}, quiet = True, working_directory = ""):
        return struct(**py_execute(made["folder"], [str_of(a) for a in arguments], environment, str_of(working_directory)))

    def which(program):
        found = py_which(program)
        return _path_of(py_path(found)) if found else None

    def report_progress(status = ""):
        pass

    return struct(
        attr = struct(**{name: _value(plain) for name, plain in made["attr"].items()}),
        delete = lambda name: py_delete(made["folder"], str_of(name)),
        execute = execute,
        file = lambda path, content = "", executable = True, legacy_utf8 = False: py_file(made["folder"], str_of(path), content),
        getenv = lambda name, default = None: py_getenv(name, default),
        name = made["name"],
        original_name = made["original"],
        os = struct(arch = "amd64", environ = py_environment(), name = "linux"),
        path = path,
        read = lambda value, watch = "auto": py_read(path(value)._text),
        report_progress = report_progress,
        symlink = lambda target, link: py_symlink(made["folder"], path(target)._text, str_of(link)),
        watch = lambda value: None,
        which = which,
    )

def _module_extension(implementation, tag_classes = {}, **given):
    py_check_words("module_extension", given.keys())
    schemas = {name: tag.attrs for name, tag in tag_classes.items()}
    return struct(
        _kind = "module_extension",
        run = lambda name: _run_extension(name, implementation, schemas),
    )

def _run_extension(name, implementation, schemas):
    modules = []
    for module in py_extension_modules(name, schemas):
        tags = {
            kind: [struct(**{key: _value(plain) for key, plain in tag.items()}) for tag in tags]
            for kind, tags in module["tags"].items()
        }
        modules.append(struct(
            is_root = module["is_root"],
            name = module["name"],
            tags = struct(**tags),
            version = module["version"],
        ))
    implementation(struct(
        extension_metadata = lambda **given: py_metadata(name, given),
        getenv = lambda name, default = None: py_getenv(name, default),
        is_dev_dependency = lambda tag: False,
        modules = modules,
        os = struct(arch = "amd64", environ = py_environment(), name = "linux"),
        path = lambda value: _path_of(py_path_in("/", _plain(value))),
        root_module_has_non_dev_dependency = py_root_uses(name),
    ))

def _tag_class(attrs = {}, doc = ""):
    return struct(_kind = "tag_class", attrs = _schema(attrs))

def bzl(repo, package, file, rules, modules, globals):
    """What a .bzl file sees, `native` and all; `Label` and the defaults of `attr` are relative to it."""
    names = {
        "Label": lambda text: text if type_of(text) == "Label" else _label(py_resolve(repo, package, text)),
        "AnalysisFailureInfo": provider(),
        "AnalysisTestResultInfo": provider(),
        "DefaultInfo": provider(),
        "OutputGroupInfo": provider(),
        "RunEnvironmentInfo": provider(),
        "analysis_test_transition": lambda settings: struct(_kind = "transition"),
        "aspect": lambda **given: struct(_kind = "aspect"),
        "attr": _attributes(repo, package),
        "config": struct(**{of: _setting(of) for of in ["bool", "int", "string", "string_list", "string_set"]}),
        "depset": named("depset"),
        "json": json,
        "module_extension": _module_extension,
        "native": struct(**_native(rules)),
        "provider": provider,
        "repository_rule": _repository_rule_function(repo, package),
        "rule": _rule_function(repo, package, file),
        "select": _select,
        "str": str_of,
        "struct": struct,
        "tag_class": _tag_class,
        "transition": _transition_function(repo, package),
        "type": type_of,
    }
    for name, members in modules.items():
        names[name] = struct(**{member: named(name + "." + member) for member in members})
    for name in globals:
        names[name] = named(name)
    return names

def build(repo, package, rules):
    """What a BUILD file sees: native rules and functions, no `native`, no `rule`."""
    names = {name: f for name, f in _native(rules).items() if name not in ["existing_rules"]}
    names.update({"select": _select, "str": str_of, "type": type_of, "Label": lambda text: _label(py_resolve(repo, package, text))})
    return names
'''
