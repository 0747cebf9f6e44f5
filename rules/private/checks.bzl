"""Mistakes in attributes, found before anything is built; every message names label, attribute and value."""

def _digits(text):
    return bool(text) and not [c for c in text.elems() if not c.isdigit()]

def _is_number(text):
    mantissa, _, exponent = text.lower().partition("e")
    if exponent[:1] in ["+", "-"]:
        exponent = exponent[1:]
    if "e" in text.lower() and not _digits(exponent):
        return False
    whole, _, fraction = mantissa.partition(".")
    return _digits(whole + fraction)

def check_numbers(ctx, names):
    """Fails unless string attributes are numbers of 0 or more.

    Args:
      ctx: the rule's context.
      names: list of attributes.
    """
    for name in names:
        value = getattr(ctx.attr, name)
        if not _is_number(value):
            fail("%s: %s: got '%s', expected a number of 0 or more, such as 0.5 or 1e-5" % (ctx.label, name, value))

def limits_of(ctx, names):
    """The limits that are set.

    Args:
      ctx: the rule's context.
      names: list of int attributes whose default is -1.

    Returns:
      dict: attribute -> limit.
    """
    found = {}
    for name in names:
        limit = getattr(ctx.attr, name)
        if limit < -1:
            fail("%s: %s: got %d, expected bytes or a count, 0 or more; leave it out for no limit" %
                 (ctx.label, name, limit))
        if limit >= 0:
            found[name] = limit
    return found

def check_shapes(ctx):
    """Fails unless `input_shapes` has shapes.

    Args:
      ctx: context of a rule with that attribute.
    """
    for name, shape in ctx.attr.input_shapes.items():
        extents = shape.replace(" ", "").split(",")
        if [e for e in extents if not _digits(e) or int(e) == 0]:
            fail("%s: input_shapes: got '%s' for input '%s', expected extents, such as \"1,3,32,32\"" %
                 (ctx.label, shape, name))

def check_values(ctx):
    """Fails unless `input_values` has numbers.

    Args:
      ctx: context of a rule with that attribute.
    """
    for name, text in ctx.attr.input_values.items():
        for number in text.replace(" ", "").split(","):
            if not _is_number(number[1:] if number.startswith("-") else number):
                fail("%s: input_values: got '%s' for input '%s', expected numbers, such as \"16000\" or \"0.5,1\"" %
                     (ctx.label, text, name))

_LOWER = "abcdefghijklmnopqrstuvwxyz"

def check_patches(ctx):
    """Fails unless `patches` is `off`, `auto` or a number of bands.

    Args:
      ctx: context of a rule with that attribute.
    """
    value = ctx.attr.patches
    if value not in ["off", "auto"] and not (_digits(value) and 2 <= int(value) and int(value) <= 64):
        fail("%s: patches: got '%s', expected off, auto or 2 to 64" % (ctx.label, value))

def check_pools(ctx):
    """Fails unless `pools` are memories, each by a name of its own.

    Args:
      ctx: context of a rule with that attribute.
    """
    names = []
    for pool in ctx.attr.pools:
        name, _, rest = pool.partition("=")
        size = rest.partition("@")[0]
        for unit in ["KiB", "MiB"]:
            size = size[:-len(unit)] if size.endswith(unit) else size
        if not _digits(size) or int(size) == 0 or not _is_word(name) or rest.endswith("@"):
            fail("%s: pools: got '%s', expected NAME=BYTES or NAME=BYTES@SECTION, such as dtcm=64KiB@.dtcm" %
                 (ctx.label, pool))
        if name in names:
            fail("%s: pools: got '%s' twice; give each memory a name of its own" % (ctx.label, name))
        names.append(name)

def _is_word(text):
    return text[:1] in _LOWER.elems() and not [c for c in text.elems() if c not in _LOWER + "_0123456789"]

def check_file_name(ctx, name, value):
    """Fails unless an attribute can be part of a file's name on every system.

    Args:
      ctx: the rule's context.
      name: the attribute.
      value: what it says.
    """
    if not value or [c for c in value.elems() if not c.isalnum() and c not in "_-.+"] or not value[0].isalnum():
        fail("%s: %s: got '%s', expected letters, digits and any of '_-.+', a letter or digit first" %
             (ctx.label, name, value))
