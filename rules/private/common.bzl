"""What Bazel gives every rule, and to which of a macro's targets it goes."""

# Where actions may run and for whom targets are: of every target.
_OF_ALL = ["compatible_with", "exec_compatible_with", "exec_properties", "restricted_to", "tags", "testonly"]

# Of what is named by others.
_OF_PUBLIC = ["deprecation", "visibility"]

# Of what compiles or links for the platform of the target that needs it.
_OF_C = ["features", "target_compatible_with"]

# Of tests.
_OF_TESTS = ["flaky", "local", "size", "timeout"]

COMMON = _OF_ALL + _OF_PUBLIC + _OF_C + _OF_TESTS

# What Bazel reads before there is a configuration, and a macro reads, too.
NOT_CONFIGURABLE = [
    "compatible_with",
    "deprecation",
    "exec_compatible_with",
    "features",
    "flaky",
    "local",
    "restricted_to",
    "size",
    "tags",
    "testonly",
    "timeout",
    "visibility",
]

def _some(given, names):
    return {name: value for name, value in given.items() if value != None and name in names}

def for_hidden(given, c = False):
    """The attributes for a target that is not named by users, built for what uses it only.

    Args:
      given: dict: what a macro was called with.
      c: whether it compiles or links.

    Returns:
      dict.
    """
    found = _some(given, _OF_ALL + (_OF_C if c else []))
    return dict(found, tags = found.get("tags", []) + ["manual"], visibility = ["//visibility:private"])

def for_public(given, c = False, test = False):
    """The attributes for a target that users name.

    Args:
      given: dict: what a macro was called with.
      c: whether it compiles or links.
      test: whether it is a test.

    Returns:
      dict.
    """
    return _some(given, _OF_ALL + _OF_PUBLIC + (_OF_C if c else []) + (_OF_TESTS if test else []))

def for_alias(found):
    """What an alias takes of these: it runs nothing.

    Args:
      found: dict: what `for_hidden` or `for_public` gave.

    Returns:
      dict.
    """
    return {name: value for name, value in found.items() if not name.startswith("exec_")}

def split_common(given):
    """What Bazel gives every rule, and what remains.

    Args:
      given: dict: what a macro was called with.

    Returns:
      (dict, dict).
    """
    common = _some(given, COMMON)
    return common, {name: value for name, value in given.items() if name not in COMMON}
