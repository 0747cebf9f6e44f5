"""TensorFlow Lite: a file is read (reader.py), and each operator becomes nodes (lower.py) whose
integers are those of TensorFlow Lite Micro's reference kernels."""
