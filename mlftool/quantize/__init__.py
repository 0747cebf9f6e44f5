"""From float to int8: calibration, rounding, mixed precision by search, and the QDQ model.

    prepared (folded ONNX) -> Network (what is quantised) -> Studio (measures a Plan) -> QDQ model

Everything that decides is a frozen Plan; a Studio measures plans, and steps turn plans into better
ones. onnxruntime computes the float model and the simulation; it is an optional package.
"""
