"""TVM's names of devices and code generators that are not here; ours: mlftool/backends/vendors."""

# Generators of code for other devices or libraries, as TVM knows them.
EXTERNAL = {
    "cmsis-nn": "CMSIS-NN's kernels",
    "ethos-u": "an Ethos-U processor",
    "ethos-n": "an Ethos-N processor",
    "uma": "an accelerator",
    "hexagon": "a Hexagon processor",
    "cuda": "a GPU",
    "opencl": "a GPU",
    "vulkan": "a GPU",
    "metal": "a GPU",
    "dnnl": "oneDNN",
    "arm_compute_lib": "Arm's Compute Library",
}
# TVM's names of devices, of which scripts make one: each says that there is none.
DEVICES = (
    *("cuda", "gpu", "rocm", "opencl", "cl", "metal", "vulkan", "vpi", "ext_dev", "hexagon"),
    *("webgpu", "oneapi"),
)
