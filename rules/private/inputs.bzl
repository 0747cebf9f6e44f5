"""What a model leaves open and its user says: attributes of the rules that read one, and their arguments."""

INPUT_ATTRS = {
    "data": attr.label_list(allow_files = True, doc = "Files of ONNX external data."),
    "input_shapes": attr.string_dict(doc = "Shapes of inputs the model leaves open, as of `mlf_compile`."),
    "input_values": attr.string_dict(doc = "Inputs that are constants, as of `mlf_compile`."),
}

def add_inputs(args, attr):
    """Adds the shapes and values of inputs to a command line of mlftool.

    Args:
      args: Args.
      attr: of a rule with `input_shapes` and `input_values`.
    """

    # In one word: a worker's argument that starts with @ would name a file of arguments.
    for name, shape in sorted(attr.input_shapes.items()):
        args.add("--input-shape=%s:%s" % (name, shape.replace(" ", "")))
    for name, numbers in sorted(attr.input_values.items()):
        args.add("--input-value=%s:%s" % (name, numbers.replace(" ", "")))
