"""Recurrent layers of Keras as tf2onnx exports them: Loops that count.

    pip install tensorflow-cpu tf2onnx
    python tests/zoo/exported/export_keras.py     writes keras_*.onnx beside this file

The exports are committed, so that tests need neither package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import onnx
import tensorflow as tf
import tf2onnx

SHAPE = (5, 3)  # steps, features


def export(name: str, *layers: Any) -> None:
    inputs = keras.Input(SHAPE, batch_size=1)
    value = inputs
    for layer in layers:
        value = layer(value)
    model = keras.Model(inputs, value)
    signature = [tf.TensorSpec((1, *SHAPE), tf.float32, name="x")]
    function = tf.function(lambda x: model(x, training=False), input_signature=signature)
    made, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=15)
    onnx.save(made, Path(__file__).with_name(f"keras_{name}.onnx"))


def main() -> None:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    export("gru_seq", layers.GRU(4, return_sequences=True))
    export("gru_before", layers.GRU(4, reset_after=False))
    export("rnn", layers.SimpleRNN(4))
    export("lstm", layers.LSTM(4))
    export("bi_rnn", layers.Bidirectional(layers.SimpleRNN(4, return_sequences=True)))
    export("two", layers.GRU(4, return_sequences=True), layers.LSTM(3))


if __name__ == "__main__":
    main()
