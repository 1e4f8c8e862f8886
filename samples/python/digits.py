# SPDX-License-Identifier: Apache-2.0
"""Classifies the handwritten digits of samples/digits: python3 samples/python/digits.py"""
from pathlib import Path

import numpy as np

import fusec

data = Path(__file__).resolve().parent.parent / "digits"
engine = fusec.compile(data / "digits.onnx")
images = np.load(data / "images.npy").astype(np.float32)[:, None] / 16  # [360, 1, 8, 8]; the batch is a symbol
right = int((engine(images).argmax(axis=1) == np.load(data / "labels.npy")).sum())
print(f"{right / len(images):.2%} ({right} of {len(images)})".replace("%", " %"))
