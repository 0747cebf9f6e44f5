"""Codes MLF02nn and MLF03nn: model files and operators."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.explain.text import Explanation

_COMPILE = "mlftool compile model.onnx -o out.tar"

EXPLANATIONS: Mapping[str, Explanation] = {
    "MLF0201": Explanation(
        "The file does not exist, is a folder, or may not be read.",
        "Check the path.",
        command="mlftool compile missing.onnx -o out.tar",
    ),
    "MLF0202": Explanation(
        "The content is no model: another format under this name, a download that broke "
        "off, or the pointer that Git LFS leaves. Protocol buffers end at 2 GB.",
        "Look at the file with `file` and `ls -l`; export the model again.",
        command="mlftool compile notes.onnx -o out.tar",
    ),
    "MLF0203": Explanation(
        "Weights in files of their own lie beside the model, as plain files without links.",
        "Copy the data to where the message says; a file that is a link is named with --data.",
        message="kws.onnx: error[MLF0203]: tensor 'w': its data are in 'kws.bin', "
        "which does not exist",
    ),
    "MLF0204": Explanation(
        "A model says which version of the standard its operators mean. The installed `onnx` "
        "package knows them up to some version.",
        "Update the `onnx` package, or export with an older opset (`opset_version=21`).",
        message="kws.onnx: error[MLF0204]: opset 99; expected 1 to 28",
    ),
    "MLF0205": Explanation(
        "A tensor is sparse, a map, or of a type that no kernel computes with.",
        "Cast it in the exporter; docs/operators.md lists the types of each operator.",
        message="kws.onnx: error[MLF0205]: input 'x': expected a tensor; got: sparse tensor type",
    ),
    "MLF0206": Explanation(
        "C arrays have a size that is known when the model is compiled. A dimension is a name "
        "or missing, or a shape does not fit its data.",
        "Give inputs a shape: --input-shape NAME:1,3,32,32, or input_shapes in a manifest.",
        message="kws.onnx: error[MLF0206]: input 'x': shape [batch, 40] is not known",
    ),
    "MLF0207": Explanation(
        "A node reads a value that nothing makes, two nodes make the same one, or nodes depend on "
        "each other in a circle.",
        "The program that wrote or edited the model has a bug; `onnx.checker.check_model` may say "
        "more.",
        message="kws.onnx: error[MLF0207]: node 'conv1': input 'w9' is not defined",
    ),
    "MLF0208": Explanation(
        "--input-shape names an input that does not exist, another number of dimensions, or a "
        "size that contradicts the model.",
        "`mlftool inspect MODEL` lists the inputs with their shapes.",
        command=f"{_COMPILE} --input-shape nothing:1,2",
    ),
    "MLF0209": Explanation(
        "--input-value makes a constant of an input: one number for all elements, or one for each, "
        "in the range of its type.",
        "`mlftool inspect MODEL` lists the inputs with their types and shapes.",
        command=f"{_COMPILE} --input-value nothing:1",
    ),
    "MLF0301": Explanation(
        "No kernel computes the operator, and nothing else stands for it: it is misspelt, of "
        "another domain, random, or newer than this mlftool.",
        "`mlftool ops MODEL` lists every such node at once. Replace it in the exporter, or write "
        "the operator: docs/adding_an_operator.md.",
        message="kws.onnx: error[MLF0301]: node 'stft_1': operator 'MyOp' is not supported yet",
    ),
    "MLF0302": Explanation(
        "The operator has kernels, but not for these attributes, types or operands; often what is "
        "refused is known only at run time.",
        "Change the model to a form that the message names. Fixed input shapes (--input-shape) "
        "make many such values known.",
        message="kws.onnx: error[MLF0302]: node 'sum_1' (ReduceSum): axes are known only at run "
        "time",
    ),
    "MLF0303": Explanation(
        "The node contradicts the standard: shapes of inputs do not fit each other, an axis does "
        "not exist, or a constant cannot be computed.",
        "The model is wrong before this node: compare the shapes in the message with the "
        "exporter's.",
        message="kws.onnx: error[MLF0303]: node 'mm_1' (MatMul): an input of shape 4x5; "
        "expected 6 along axis 0",
    ),
    "MLF0304": Explanation(
        "Executors differ in what their interfaces can pass: strings or subgraphs, for instance.",
        "Use the executor that the message names; aot with interface c can run every model.",
        message="kws.onnx: error[MLF0304]: executor graph cannot pass strings; use aot",
    ),
    "MLF0305": Explanation(
        "The memories given with --pool are too small together, or none has room for one tensor.",
        "Give a larger pool, leave out a limit, or lower the need: `mlftool memmap` says how.",
        command=f"{_COMPILE} --pool tiny=16",
    ),
    "MLF0311": Explanation(
        "A quantised layer becomes integer arithmetic if its data, weights and result are all "
        "quantised. Here one is not, so it takes float multiplications and float weights.",
        "Let the quantiser handle the operator and its result; `mlftool profile` shows the cost.",
        message="kws.onnx: warning[MLF0311]: node 'conv_3' (Conv): this quantised Conv is computed "
        "in float: 55,296 multiply-adds",
    ),
    "MLF0312": Explanation(
        "One scale has to cover the channel with the largest weights; those of others lose bits.",
        "quantize_static(..., per_channel=True). It costs four bytes for each channel.",
        message="kws.onnx: warning[MLF0312]: node 'conv_3' (Conv): one scale for all 24 channels "
        "of the weights: the smallest channel is rounded to 9 steps, the largest to 127",
    ),
    "MLF0313": Explanation(
        "With a zero point of the weights the kernel has to add up every window of the data, too.",
        "quantize_static(..., extra_options={'WeightSymmetric': True}).",
        message="kws.onnx: warning[MLF0313]: node 'conv_3' (Conv): weights with a zero point: the "
        "sum of each window has to be computed too",
    ),
    "MLF0314": Explanation(
        "A batch normalisation after a convolution is folded into its weights before a model is "
        "quantised; afterwards each element is computed and rounded a second time.",
        "Run onnxruntime.quantization.shape_inference.quant_pre_process first, then quantise.",
        message="kws.onnx: warning[MLF0314]: node 'mul_3' (Mul): this Mul was not folded into node "
        "'conv_3' (Conv) before the model was quantised: 3,072 elements are computed and rounded a "
        "second time",
    ),
    "MLF0315": Explanation(
        "Some exporters declare a wrong shape for an output. onnxruntime warns of it and returns "
        "what the nodes compute, and so does the compiled module.",
        "Export the model with the right shape, or expect the one that is computed.",
        message="kws.onnx: warning[MLF0315]: output 'y': is declared as float32[?x6], but the "
        "model computes float32[1x1]",
    ),
    "MLF0316": Explanation(
        "The model gives an input back as an output. Files of test vectors and generated code need "
        "a name for each, so the output is a copy with another name.",
        "Expect the output under the name in the warning, or put an Identity node before it.",
        message="kws.onnx: warning[MLF0316]: 'x' is an input and an output; the output is 'x.out'",
    ),
}
