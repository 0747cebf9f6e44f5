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
        "The content is not a model: another format under this name, an incomplete download, or a "
        "pointer of Git LFS. Protocol buffers have at most 2 GB.",
        "Look at the file with `file` and `ls -l`; export the model again.",
        command="mlftool compile notes.onnx -o out.tar",
    ),
    "MLF0203": Explanation(
        "External data files must be in the model's folder, as plain files, not links.",
        "Copy the data into the model's folder; name a file that is a link with --data.",
        message="kws.onnx: error[MLF0203]: tensor 'w': external data 'kws.bin' cannot be read: "
        "No such file or directory",
    ),
    "MLF0204": Explanation(
        "A model states the opset, the version of the standard that its operators follow. The "
        "installed `onnx` package supports opsets up to some version.",
        "Update the `onnx` package, or export with an older opset (`opset_version=21`).",
        message="kws.onnx: error[MLF0204]: opset 99; expected 1 to 28",
    ),
    "MLF0205": Explanation(
        "A tensor is sparse, a map, or has a type without kernels.",
        "Cast it in the exporter; `mlftool ops` lists the types of each operator.",
        message="kws.onnx: error[MLF0205]: input 'x': expected a tensor; got: sparse tensor type",
    ),
    "MLF0206": Explanation(
        "The size of a C array must be known when the model is compiled. A dimension is missing "
        "or only a name, or a shape does not fit its data.",
        "Give inputs a shape: --input-shape NAME:1,3,32,32, or input_shapes in a manifest.",
        message="kws.onnx: error[MLF0206]: input 'x': shape batch,40 is not known before run time",
    ),
    "MLF0207": Explanation(
        "A node reads a value that no node computes, two nodes compute the same value, or nodes "
        "form a cycle.",
        "The program that wrote or edited the model has a bug; `onnx.checker.check_model` may say "
        "more.",
        message="kws.onnx: error[MLF0207]: node 'conv1': input 'w9' is not defined",
    ),
    "MLF0208": Explanation(
        "--input-shape names an input that does not exist, another number of dimensions, or a "
        "size that contradicts the model.",
        "Give an input of the message and each of its dimensions: `--input-shape x:1,3,32,32`. "
        "Those that the model fixes keep their size.",
        command=f"{_COMPILE} --input-shape nothing:1,2",
    ),
    "MLF0209": Explanation(
        "--input-value turns an input into a constant: one number for all elements, or one for "
        "each, in the range of its type. The message says what does not fit.",
        "Give an input of the message and numbers of its type: `--input-value rate:16000`, or "
        "`--input-value mask:1,1,0` for three elements.",
        command=f"{_COMPILE} --input-value nothing:1",
    ),
    "MLF0301": Explanation(
        "mlftool has no kernel and no expansion for the operator: it is misspelt, of another "
        "domain, random, or newer than this mlftool.",
        "`mlftool ops MODEL` lists all such nodes. Replace the operator in the exporter, or add "
        "it to mlftool: docs/adding_an_operator.md.",
        message="kws.onnx: error[MLF0301]: node 'stft_1': operator 'MyOp' is not supported yet",
    ),
    "MLF0302": Explanation(
        "The operator has kernels, but not for these attributes, types or operands. Often a value "
        "is known only at run time.",
        "Change the model to a form that the message names. Fixed input shapes (`--input-shape`) "
        "turn many such values into constants.",
        message="kws.onnx: error[MLF0302]: node 'sum_1' (ReduceSum): axes are known only at run "
        "time",
    ),
    "MLF0303": Explanation(
        "The node contradicts the standard: shapes of inputs do not fit each other, an axis does "
        "not exist, or a constant cannot be computed.",
        "Compare the shapes in the message with the exporter's: the model is wrong at this node or "
        "before. `onnx.checker.check_model(model, full_check=True)` says what Python's onnx finds.",
        message="kws.onnx: error[MLF0303]: node 'mm_1' (MatMul): an input of shape 4x5; "
        "expected 6 along axis 0",
    ),
    "MLF0304": Explanation(
        "The interfaces of executors support different things, such as strings or subgraphs.",
        "Use the executor that the message names; `--executor aot` with interface c can run every "
        "model.",
        message="kws.onnx: error[MLF0304]: 'y' holds strings, which packed functions do not take",
    ),
    "MLF0305": Explanation(
        "The pools given with --pool are too small in total, or no pool has room for one of the "
        "tensors.",
        "Give a larger pool, remove a limit, or reduce the memory: `mlftool memmap` shows how.",
        command=f"{_COMPILE} --pool tiny=16",
    ),
    "MLF0311": Explanation(
        "A quantised layer becomes integer arithmetic if its data, weights and result are all "
        "quantised. Here one of them is not, so the layer uses float multiplications and float "
        "weights.",
        "Let the quantiser handle the operator and its result; `mlftool profile` shows the cost.",
        message="kws.onnx: warning[MLF0311]: node 'conv_3' (Conv): this quantised Conv is computed "
        "in float: 55,296 multiply-adds",
    ),
    "MLF0312": Explanation(
        "The scale must cover the channel with the largest weights, so the weights of other "
        "channels lose bits.",
        "quantize_static(..., per_channel=True). It costs at most four bytes for each channel.",
        message="kws.onnx: warning[MLF0312]: node 'conv_3' (Conv): one scale for all 24 channels "
        "of the weights: the smallest channel is rounded to 9 steps, the largest to 127",
    ),
    "MLF0313": Explanation(
        "If weights have a zero point, the kernel must also add up every window of the data and "
        "correct every sum.",
        "quantize_static(..., extra_options={'WeightSymmetric': True}).",
        message="kws.onnx: warning[MLF0313]: node 'conv_3' (Conv): weights with a zero point: "
        "4,608 additions more, of the data of each window",
    ),
    "MLF0314": Explanation(
        "A batch normalisation after a convolution should be folded into its weights before the "
        "model is quantised. Otherwise each element is computed and rounded a second time.",
        "Run onnxruntime.quantization.shape_inference.quant_pre_process first, then quantise.",
        message="kws.onnx: warning[MLF0314]: node 'mul_3' (Mul): this Mul was not folded into node "
        "'conv_3' (Conv) before the model was quantised: 3,072 elements are computed and rounded a "
        "second time",
    ),
    "MLF0315": Explanation(
        "Some exporters declare a wrong shape for an output. onnxruntime warns about it and "
        "returns the shape that the nodes compute, and so does the compiled module.",
        "Export the model with the right shape, or use the computed one.",
        message="kws.onnx: warning[MLF0315]: output 'y': is declared as float32[?x6], but the "
        "model computes float32[1x1]",
    ),
    "MLF0317": Explanation(
        "quantize_dynamic stores weights in bytes and leaves the data floats: each inference finds "
        "their range, rounds them, and scales every sum back. Memory holds floats, and each layer "
        "takes several steps.",
        "Calibrate with samples: quantize_static, or `mlftool quantize` of the float model.",
        message="kws.onnx: warning[MLF0317]: node 'x_QuantizeLinear' (DynamicQuantizeLinear): "
        "quantised at run time: each inference looks at 640 floats for their range, rounds them, "
        "and keeps 2,560 bytes of them",
    ),
    "MLF0318": Explanation(
        "The model casts float16 or bfloat16 weights to float, or multiplies bytes with scales. "
        "For speed each weight is stored as the float that it becomes, in four bytes.",
        "Use `--optimize size`, or `weights_budget`, which keep two bytes or one for each weight.",
        message="kws.onnx: warning[MLF0318]: node 'dense' (Gemm): float weights here and 2 more "
        "layers are exactly float16, bfloat16 or scaled bytes, and take 48,320 bytes of flash as "
        "float32",
    ),
    "MLF0316": Explanation(
        "The model returns an input as an output, or one tensor as two outputs. Test vectors and "
        "generated code need a name for each, so the output is a copy with another name.",
        "Use the output's name in the warning, or put an Identity node before it.",
        message="kws.onnx: warning[MLF0316]: 'x' is an input and an output; the output is 'x.out'",
    ),
    "MLF0319": Explanation(
        "Whether an optional input holds something, and how many tensors a sequence holds, is "
        "decided when the model is compiled. Without a shape for it the input holds nothing.",
        "Give the shape of what it holds: --input-shape x:2,3 for an optional 'x', "
        "--input-shape x.0:2,3 for the first element of a sequence 'x'.",
        message="kws.onnx: warning[MLF0319]: input 'mask': is an optional, and taken as absent",
    ),
}
