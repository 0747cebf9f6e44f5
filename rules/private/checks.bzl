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
