"""Mistakes in attributes, found before anything is built; every message names label, attribute and value."""

load(":labels.bzl", "shown")

# What the names of targets end in that make something for all configurations: see shared.bzl.
SHARED = ".shared"

# And of what links an image, which its `mlf_firmware` stands for: see firmware.bzl.
IMAGE = ".image"

def _without(text):
    for suffix in [SHARED, IMAGE]:
        text = text[:-len(suffix)] if text.endswith(suffix) else text
    return text

def public_name(ctx):
    """The name that users know a target by.

    Args:
      ctx: the rule's context.

    Returns:
      string.
    """
    return _without(ctx.label.name)

def public_label(ctx):
    """The label that users know a target by.

    Args:
      ctx: the rule's context.

    Returns:
      string.
    """
    return _without(shown(ctx.label))

def check_source(ctx, attribute):
    """The file of an attribute that is compared with what the build makes; fails if it is made, too.

    Args:
      ctx: the rule's context.
      attribute: a label of a single file.

    Returns:
      File.
    """
    file = getattr(ctx.file, attribute)
    if not file.is_source:
        fail("%s: error[MLF0414]: %s: %s is made by the build; expected a file of the source tree" %
             (public_label(ctx), attribute, shown(getattr(ctx.attr, attribute).label)))
    return file

def check_extension(ctx, attribute, extensions, suffix = ""):
    """Fails for a file whose name says that it is another kind of file.

    Args:
      ctx: the rule's context.
      attribute: a label of a single file, or none.
      extensions: list of what its name may end in.
      suffix: what a macro put after the name that its caller gave.
    """
    file = getattr(ctx.file, attribute)
    if file and file.extension not in extensions:
        label = public_label(ctx)
        fail("%s: error[MLF0414]: %s: got %s, expected one .%s file" % (
            label[:-len(suffix)] if suffix else label,
            attribute,
            shown(getattr(ctx.attr, attribute).label),
            " or .".join(extensions),
        ))

_LOWER = "abcdefghijklmnopqrstuvwxyz"

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

# What the files end in that a library of modules has for each of them among its linker's inputs; they are
# in a folder with the name of the processor.
MODULE_MARK = "mlf_module"

def check_modules(ctx, contexts, cpu, cpus):
    """Fails for models that do not belong into one image, or into this one.

    Of two with one name the linker would take both functions from the first; one for another processor
    may link and fail where it runs.

    Args:
      ctx: context of a rule that links `deps`.
      contexts: their linking contexts.
      cpu: the image's processor, or "".
      cpus: the processors that models can be for; others are for any.
    """
    owners = {}
    for linker_input in [i for context in contexts for i in context.linker_inputs.to_list()]:
        library = str(linker_input.owner)[:-len("_sources")]
        for file in linker_input.additional_inputs:
            if file.extension != MODULE_MARK:
                continue
            name, device = file.basename.lower(), file.dirname.rpartition("/")[2]
            if owners.setdefault(name, library) != library:
                fail("%s: error[MLF0414]: deps: got two modules '%s', of %s and %s; set module_name of one of them" %
                     (public_label(ctx), name.rpartition(".")[0], owners[name], library))
            if cpu and device in cpus and device != cpu:
                fail("%s: error[MLF0414]: deps: got %s, a model for %s, in an image for %s; compile the model with target = '%s' (in a manifest: targets)" %
                     (public_label(ctx), library, device, cpu, cpu))

# Attribute -> what has the provider that is wanted of it.
_MAKERS = {
    "archive": "an mlf_compile, mlf_package or mlf_import (<name>_archive) target; mlf_import makes one of a .tar",
    "facts": "mlf_analysis targets of kind 'facts'",
    "firmware": "an mlf_firmware",
    "modules": "mlf_module targets",
    "report": "an mlf_report",
    "reports": "mlf_report targets",
    "runner": "an mlf_runner",
}

def _called(ctx, suffix):
    """The label that a macro was called with."""
    label = public_label(ctx)
    return label[:-len(suffix)] if suffix else label

def infos_of(ctx, attribute, provider, suffix = ""):
    """The providers of the targets that an attribute names.

    Bazel could ask for the provider, and would then name it instead of the rules that have it. So the
    attribute lets every file and target in.

    Args:
      ctx: the rule's context.
      attribute: a label or list of labels, of those in `_MAKERS`.
      provider: the provider.
      suffix: what a macro put after the name that its caller gave.

    Returns:
      list of providers, at least one.
    """
    targets = getattr(ctx.attr, attribute)
    targets = targets if type(targets) == "list" else [targets]
    wrong = [shown(target.label) for target in targets if provider not in target]
    if wrong or not targets:
        fail("%s: error[MLF0414]: %s: got %s, expected %s" % (_called(ctx, suffix), attribute, ", ".join(wrong) or "none", _MAKERS[attribute]))
    return [target[provider] for target in targets]

def info_of(ctx, attribute, provider, suffix = ""):
    """The provider of the one target that an attribute names.

    Args:
      ctx: the rule's context.
      attribute: a label, of those in `_MAKERS`.
      provider: the provider.
      suffix: as of `infos_of`.

    Returns:
      The provider.
    """
    return infos_of(ctx, attribute, provider, suffix)[0]

def check_numbers(ctx, names):
    """Fails unless string attributes are numbers of 0 or more.

    Args:
      ctx: the rule's context.
      names: list of attributes.
    """
    for name in names:
        value = getattr(ctx.attr, name)
        if not _is_number(value):
            fail("%s: error[MLF0414]: %s: got '%s', expected a number of 0 or more, such as 0.5 or 1e-5" % (public_label(ctx), name, value))

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
            fail("%s: error[MLF0414]: %s: got %d, expected bytes or a count, 0 or more; leave it out for no limit" %
                 (public_label(ctx), name, limit))
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
            fail("%s: error[MLF0414]: input_shapes: got '%s' for input '%s', expected extents, such as \"1,3,32,32\"" %
                 (public_label(ctx), shape, name))

def check_values(ctx):
    """Fails unless `input_values` has numbers.

    Args:
      ctx: context of a rule with that attribute.
    """
    for name, text in ctx.attr.input_values.items():
        for number in text.replace(" ", "").split(","):
            if not _is_number(number[1:] if number.startswith("-") else number):
                fail("%s: error[MLF0414]: input_values: got '%s' for input '%s', expected numbers, such as \"16000\" or \"0.5,1\"" %
                     (public_label(ctx), text, name))

def check_module_name(label, name, origin):
    """Fails for what cannot be part of a C identifier.

    Args:
      label: of the target.
      name: the module's.
      origin: where the name comes from, and what to do.
    """
    if [c for c in name.elems() if c not in _LOWER + "_0123456789"] or name[0].isdigit():
        fail("%s: error[MLF0414]: module_name: got '%s' from the %s, expected lower-case letters, digits and '_', no digit first" %
             (label, name, origin))

def check_patches(ctx):
    """Fails unless `patches` is `off`, `auto` or a number of bands.

    Args:
      ctx: context of a rule with that attribute.
    """
    value = ctx.attr.patches
    if value not in ["off", "auto"] and not (_digits(value) and 2 <= int(value) and int(value) <= 64):
        fail("%s: error[MLF0414]: patches: got '%s', expected off, auto or 2 to 64" % (public_label(ctx), value))

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
            fail("%s: error[MLF0414]: pools: got '%s', expected NAME=BYTES or NAME=BYTES@SECTION, such as dtcm=64KiB@.dtcm" %
                 (public_label(ctx), pool))
        if name in names:
            fail("%s: error[MLF0414]: pools: got '%s' twice; give each memory a name of its own" % (public_label(ctx), name))
        names.append(name)

def _is_word(text):
    return text[:1] in _LOWER.elems() and not [c for c in text.elems() if c not in _LOWER + "_0123456789"]

def check_file_name(ctx, name, value, suffix = ""):
    """Fails unless an attribute can be part of a file's name on every system.

    Args:
      ctx: the rule's context.
      name: the attribute.
      value: what it says.
      suffix: as of `infos_of`.
    """
    if not value or [c for c in value.elems() if not c.isalnum() and c not in "_-.+"] or not value[0].isalnum():
        fail("%s: error[MLF0414]: %s: got '%s', expected letters, digits and any of '_-.+', a letter or digit first" %
             (_called(ctx, suffix), name, value))
