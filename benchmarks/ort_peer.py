"""An ONNX network in onnxruntime, and turns of a stopwatch; peer_turns.py has the protocol.

python benchmarks/ort_peer.py MODEL.onnx FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime
from peer_turns import inputs_of, serve


def main() -> None:
    folder = Path(sys.argv[2])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(sys.argv[1], options)
    binding = session.io_binding()  # as its documentation has it for the least overhead
    for name, array in inputs_of(folder).items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    serve(folder, binding.copy_outputs_to_cpu(), lambda: session.run_with_iobinding(binding))


if __name__ == "__main__":
    main()
