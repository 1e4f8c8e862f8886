# SPDX-License-Identifier: Apache-2.0
"""Classifies the handwritten digits of samples/digits in ONNX Runtime by fusec: python3 samples/python/onnxruntime_digits.py"""
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_ep_fusec

onnxruntime.register_execution_provider_library("fusec", onnxruntime_ep_fusec.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices()
           if device.ep_name == onnxruntime_ep_fusec.get_ep_name() and device.ep_metadata["device"] == "cpu"]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {"strict": "1"})

data = Path(__file__).resolve().parent.parent / "digits"
session = onnxruntime.InferenceSession(str(data / "digits.onnx"), options)
images = np.load(data / "images.npy").astype(np.float32)[:, None] / 16  # [360, 1, 8, 8]; the batch is a symbol
right = int((session.run(None, {"image": images})[0].argmax(axis=1) == np.load(data / "labels.npy")).sum())
print(f"{right / len(images):.2%} ({right} of {len(images)})".replace("%", " %"))
