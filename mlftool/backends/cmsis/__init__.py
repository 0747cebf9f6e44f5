"""CMSIS-NN: which nodes it computes (`forms`), and the C that calls it (`code`)."""
