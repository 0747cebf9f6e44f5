"""Mistakes in calls of macros, found while a package is read.

Bazel's own checks come later and name what a macro made and how that calls an argument; these name the
label, the argument, its value and what is expected. A `select` is passed on, except where the macro must
know the value.
"""

load("@mlf_system//:machines.bzl", "BOARDS")
load(":common.bzl", "COMMON", "NOT_CONFIGURABLE")
load(":cpus.bzl", "CPUS")
load(":words.bzl", "did_you_mean")

# Kind of argument -> the types that it may have, and how it is written.
_KINDS = {
    "bool": (["bool"], "True or False"),
    "bytes": (["int"], "a whole number of bytes, such as 64 * 1024"),
    "int": (["int"], "a whole number"),
    "label": (["string", "Label"], "one label, such as \":keyword\""),
    "list": (["list"], "a list, such as [\"x\"]"),
    "string": (["string"], "a string, such as \"x\""),
    "string_dict": (["dict"], "a dict of strings, such as {\"image\": \"1,3,32,32\"}"),
    "string_list": (["list"], "a list of strings, such as [\"x\"]"),
}

def label_of(name):
    """What Bazel calls a target of the package that is read.

    Args:
      name: the target's name.

    Returns:
      string.
    """

    # The first is newer, and the second deprecated then.
    repository = native.repo_name() if hasattr(native, "repo_name") else native.repository_name()
    if repository and not repository.startswith("@"):
        repository = "@@" + repository
    return "%s//%s:%s" % ("" if repository in ["@", ""] else repository, native.package_name(), name)

def refuse(name, argument, value, expected, hint = ""):
    """Fails for the value of an argument.

    Args:
      name: of the target that the macro makes.
      argument: the argument's name.
      value: what it is.
      expected: what it should be and, if that does not say it, what to do.
      hint: of `did_you_mean`.
    """
    fail("%s: error[MLF0414]: %s: got %r, expected %s%s" % (label_of(name), argument, value, expected, hint))

def is_select(value):
    """Whether a value is known when there is a configuration, and not before.

    Args:
      value: of an argument.

    Returns:
      bool.
    """
    return type(value) == "select"

def check_plain(name, why, **arguments):
    """Fails for a `select` where a macro must know the value.

    Args:
      name: of the target that the macro makes.
      why: what the value decides, and what to do instead.
      **arguments: argument -> value.
    """
    for argument, value in arguments.items():
        if is_select(value):
            refuse(name, argument, value, "a value that is no select(): " + why)

def check_common(name, given):
    """Fails for a `select` in what no rule of Bazel's takes one for.

    Args:
      name: of the target that the macro makes.
      given: argument -> value.
    """
    why = "Bazel reads it before there is a configuration; make a target for each value"
    check_plain(name, why, **{argument: given.get(argument) for argument in NOT_CONFIGURABLE})

def text_of(number):
    """A number as attributes have it.

    Args:
      number: string, int or select.

    Returns:
      string or select.
    """
    return number if is_select(number) else str(number)

def _fits(value, kind):
    types, _ = _KINDS[kind]
    if type(value) not in types or (kind == "bytes" and value < 0):
        return False
    items = value.values() if kind == "string_dict" else value if kind == "string_list" else []
    return not [item for item in items if type(item) != "string"]

def check_call(name, **arguments):
    """Fails unless arguments have the types they should.

    Args:
      name: of the target that the macro makes.
      **arguments: argument -> (value, kind); None is a value that was not given.
    """
    if type(name) != "string":
        fail("error[MLF0414]: name: got %r, expected a string, such as \"keyword\"" % (name,))
    for argument, (value, kind) in arguments.items():
        if value != None and not is_select(value) and not _fits(value, kind):
            refuse(name, argument, value, _KINDS[kind][1])

def check_number(name, **arguments):
    """Fails unless arguments are numbers in quotes: rules of Bazel 4 have no others than whole ones.

    Args:
      name: of the target that the macro makes.
      **arguments: argument -> value.
    """
    for argument, value in arguments.items():
        if type(value) not in ["string", "int", "select"]:
            refuse(name, argument, value, "a number in quotes, such as \"%s\"" % value)

def check_new(name, made):
    """Fails if a target of the name, or one that a macro is about to make beside it, exists already.

    Args:
      name: of the target that the macro makes.
      made: names of targets that it makes.
    """
    for other in made:
        rule = native.existing_rule(other)
        if rule:
            refuse(name, "name", name, "another name: there is a %s '%s' already" % (rule["kind"], other))

def check_attributes(name, given, known):
    """Fails unless arguments are attributes of the rule that a macro calls, and the mandatory ones are there.

    Args:
      name: of the target that the macro makes.
      given: argument -> value.
      known: attribute -> what `attr` made of it.
    """
    for argument, value in given.items():
        if argument not in known and argument not in COMMON:
            refuse(name, argument, value, "one of " + ", ".join(sorted([n for n in known if n[0] != "_"])) +
                                          ", or an attribute of every rule", did_you_mean(argument, list(known) + COMMON))
    for argument in ["model", "modules", "targets"]:
        if argument in known and given.get(argument) == None:
            refuse(name, argument, None, "a value: it is mandatory")

def check_spelling(name, given, known):
    """Fails for arguments that are misspelt. Others are Bazel's to judge: each version has more common ones.

    Args:
      name: of the target that the macro makes.
      given: argument -> value, of those that the macro does not name.
      known: arguments that the macro names.
    """
    for argument, value in given.items():
        hint = "" if argument in COMMON else did_you_mean(argument, known)
        if hint:
            refuse(name, argument, value, "an argument that there is", hint)

def check_options(name, given, options):
    """Fails unless arguments are options of the compiler with values they may have.

    Args:
      name: of the target that the macro makes.
      given: argument -> value.
      options: option -> struct with `kind` and `values`.
    """
    for argument, value in given.items():
        if argument not in options:
            fail("%s: error[MLF0414]: %s: got %r for an option there is not, expected one of %s, or an argument of mlf_model%s" %
                 (label_of(name), argument, value, ", ".join(sorted(options)), did_you_mean(argument, list(options) + COMMON)))
        option = options[argument]
        if not option.values:
            check_call(name, **{argument: (value, option.kind)})
        elif not is_select(value) and value not in option.values:
            known = ", ".join([repr(v) for v in option.values])
            refuse(name, argument, value, "one of " + known, did_you_mean(value, option.values))

def _neighbour(label):
    """The rule that a label of the same package means, if it has been called already."""
    package, _, target = label.rpartition(":")
    own = "//" + native.package_name()
    return native.existing_rule(target) if package in ["", own] and not label.startswith("@") else None

# Our platforms, and how their package is written.
_PLATFORMS = sorted(CPUS) + sorted(BOARDS) + ["host"]
_OURS = [str(Label("//rules/platforms:host")).rpartition(":")[0], "@mlftool//rules/platforms"]

def _package_of(label):
    """The package of a label, as Bazel prints it."""

    # Before 6 no macro can ask what another name of a repository means; since modules it may have any.
    if hasattr(native, "package_relative_label"):
        label = native.package_relative_label(label)
    return str(label).rpartition(":")[0]

def is_ours(platform):  # buildifier: disable=unnamed-macro
    """Whether a platform is one of //rules/platforms, which all say their processor.

    Args:
      platform: a label.

    Returns:
      bool.
    """
    return _package_of(platform) in _OURS

def check_platform(name, platform):
    """Fails for what is certainly no platform; Bazel names neither the argument nor a remedy.

    Args:
      name: of the target that the macro makes.
      platform: a label, or None.
    """
    check_call(name, platform = (platform, "label"))
    check_plain(name, "it decides what selects ask; make a target for each platform", platform = platform)
    text = str(platform)
    target = text.rpartition(":")[2]
    rule = _neighbour(text)
    if text in _PLATFORMS:
        refuse(name, "platform", text, "a label: @mlftool//rules/platforms:" + text)
    elif platform and is_ours(platform) and not (target in _PLATFORMS or target.rpartition("_")[0] in CPUS):
        refuse(name, "platform", text, "one that there is, such as " + ", ".join(_PLATFORMS))
    elif rule and rule["kind"] not in ["alias", "platform"]:
        refuse(name, "platform", text, "a platform; that is a " + rule["kind"])

def check_board(name, board, platform):
    """Fails for what is certainly no board.

    Args:
      name: of the target that the macro makes.
      board: a label, or None.
      platform: a label, or None: that of the board.
    """
    check_call(name, board = (board, "label"))
    if not platform:
        check_plain(name, "its platform is built for; make a target for each board, or give platform", board = board)
    if is_select(board):
        return
    text = str(board)
    rule = _neighbour(text)
    if text in CPUS or text in BOARDS:
        refuse(name, "board", text, "your own mlf_board; for ours say platform = \"@mlftool//rules/platforms:%s\"" % text)
    elif not platform and rule and rule["kind"] not in ["alias", "board_library"]:
        refuse(name, "board", text, "an mlf_board; that is a %s, for which platform must be given, too" % rule["kind"])
