# SPDX-License-Identifier: Apache-2.0
"""Trains the network of the digits sample and writes digits.onnx, images.npy and labels.npy beside this file.

    python3 -m venv venv
    venv/bin/pip install numpy scikit-learn jax onnx onnxruntime
    venv/bin/python train.py [--folds K] [--out DIR]

The network is written once, in `network`, against the operations that `Forward` computes and `OnnxWriter` records, so
the file cannot differ from what was trained. Data: scikit-learn's bundled handwritten digits (1797 images of 8x8
pixels, 0 blank to 16 full); 360 of them, stratified by digit, are held out and take no part in training.
`--folds K` writes nothing: it cross-validates the settings below on the other 1437.
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("NPROC", "1")  # of XLA's thread pool

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, train_test_split

SEED = 2020
HELD_OUT = 360
FULL = 16.0  # pixel value of full ink; the network takes pixel / FULL
REQUIRED_ACCURACY = 0.975  # on the held-out images
CLASSES = 10
EPOCHS = 120
BATCH = 64
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.02
SMOOTHING = 0.05
EPSILON = 1e-5
MOMENTUM = 0.9  # of batch norm's running statistics

# Convolution weights as [out, in / group, height, width]; each is followed by a batch norm.
CONVOLUTIONS = {
    "stem": (24, 1, 3, 3),
    "block1.expand": (48, 24, 1, 1),
    "block1.depthwise": (48, 1, 3, 3),
    "block1.project": (24, 48, 1, 1),
    "block2.expand": (72, 24, 1, 1),
    "block2.depthwise": (72, 1, 3, 3),
    "block2.project": (32, 72, 1, 1),
}
# Squeeze-excite: (channels, squeezed channels), as two 1x1 convolutions with bias.
EXCITES = {"block1.excite": (48, 12), "block2.excite": (72, 20)}
# Fully connected layers as [out, in]; the first reads 32 channels of 4x4.
LINEARS = {"head.hidden": (64, 512), "head.classes": (CLASSES, 64)}


def network(ops, image):
  """image [N,1,8,8] in 0..1 -> logits [N,10]."""
  x = ops.batch_norm(ops.conv(image, "stem"), "stem.norm")
  x = ops.hard_swish_spelled_out(x)

  y = ops.relu(ops.batch_norm(ops.conv(x, "block1.expand"), "block1.expand.norm"))
  y = ops.relu(ops.batch_norm(ops.conv(y, "block1.depthwise", group=48), "block1.depthwise.norm"))
  y = excite(ops, y, "block1.excite", ops.global_average_pool)
  x = ops.add(x, ops.batch_norm(ops.conv(y, "block1.project"), "block1.project.norm"))

  y = ops.relu(ops.batch_norm(ops.conv(x, "block2.expand"), "block2.expand.norm"))
  y = ops.batch_norm(ops.conv(y, "block2.depthwise", stride=2, group=72), "block2.depthwise.norm")
  y = ops.hard_swish(y)
  y = excite(ops, y, "block2.excite", ops.reduce_mean)
  x = ops.batch_norm(ops.conv(y, "block2.project"), "block2.project.norm")

  x = ops.layer_norm(ops.flatten(x), "head.norm")
  x = ops.relu(ops.gemm(x, "head.hidden"))
  return ops.gemm(x, "head.classes")


def excite(ops, x, name, pool):
  gate = ops.relu(ops.conv(pool(x), name + ".squeeze"))
  return ops.mul(x, ops.hard_sigmoid(ops.conv(gate, name + ".expand")))


def initial_weights(rng):
  """He initialisation. Returns (trained, running): what gradients move, and batch norm's running statistics."""
  trained, running = {}, {}

  def weight(name, shape):
    trained[name + ".weight"] = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)

  def bias(name, size):
    trained[name + ".bias"] = np.zeros(size)

  def norm(name, size):
    trained[name + ".weight"] = np.ones(size)
    bias(name, size)

  for name, shape in CONVOLUTIONS.items():
    weight(name, shape)
    norm(name + ".norm", shape[0])
    running[name + ".norm.running_mean"] = np.zeros(shape[0])
    running[name + ".norm.running_var"] = np.ones(shape[0])
  for name, (channels, squeezed) in EXCITES.items():
    weight(name + ".squeeze", (squeezed, channels, 1, 1))
    bias(name + ".squeeze", squeezed)
    weight(name + ".expand", (channels, squeezed, 1, 1))
    bias(name + ".expand", channels)
  norm("head.norm", LINEARS["head.hidden"][1])
  for name, shape in LINEARS.items():
    weight(name, shape)
    bias(name, shape[0])
  return tuple({k: jnp.asarray(v, jnp.float32) for k, v in part.items()} for part in (trained, running))


class Forward:
  """Computes the operations. In training, `running` gathers the updated statistics of the batch norms."""

  def __init__(self, trained, running, training):
    self.weights = trained | running
    self.running = dict(running)
    self.training = training

  def conv(self, x, name, stride=1, group=1):
    weight = self.weights[name + ".weight"]
    height, width = weight.shape[2:]
    if (height, width) == (1, 1):
      y = jnp.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0])
    elif group == x.shape[1]:
      # XLA's grouped convolution is slow on CPUs; a sum of shifted products is not. One input channel broadcasts.
      rows, columns = x.shape[2:]
      padded = jnp.pad(x, ((0, 0), (0, 0), (height // 2,) * 2, (width // 2,) * 2))
      y = sum(padded[:, :, i:i + rows:stride, j:j + columns:stride] * weight[:, 0, i, j, None, None]
              for i in range(height) for j in range(width))
    else:
      raise ValueError(f"{name}: neither 1x1 nor depthwise")
    bias = self.weights.get(name + ".bias")
    return y if bias is None else y + bias[:, None, None]

  def batch_norm(self, x, name):
    mean, var = self.weights[name + ".running_mean"], self.weights[name + ".running_var"]
    if self.training:
      batch_mean, batch_var = jnp.mean(x, (0, 2, 3)), jnp.var(x, (0, 2, 3))
      self.running[name + ".running_mean"] = MOMENTUM * mean + (1 - MOMENTUM) * batch_mean
      self.running[name + ".running_var"] = MOMENTUM * var + (1 - MOMENTUM) * batch_var
      mean, var = batch_mean, batch_var
    scale = self.weights[name + ".weight"] / jnp.sqrt(var + EPSILON)
    return (x - mean[:, None, None]) * scale[:, None, None] + self.weights[name + ".bias"][:, None, None]

  def layer_norm(self, x, name):
    centred = x - jnp.mean(x, -1, keepdims=True)
    scale = 1 / jnp.sqrt(jnp.mean(centred**2, -1, keepdims=True) + EPSILON)
    return centred * scale * self.weights[name + ".weight"] + self.weights[name + ".bias"]

  def gemm(self, x, name):
    return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

  def hard_sigmoid(self, x):
    return jnp.clip(x / 6 + 0.5, 0, 1)

  def hard_swish(self, x):
    return x * self.hard_sigmoid(x)

  hard_swish_spelled_out = hard_swish

  def global_average_pool(self, x):
    return jnp.mean(x, (2, 3), keepdims=True)

  reduce_mean = global_average_pool

  def relu(self, x):
    return jnp.maximum(x, 0)

  def add(self, x, y):
    return x + y

  def mul(self, x, y):
    return x * y

  def flatten(self, x):
    return x.reshape(x.shape[0], -1)


class OnnxWriter:
  """Records the operations as ONNX nodes (opset 17), with batch norms left for the compiler to fold."""

  def __init__(self, weights):
    self.weights = {name: np.asarray(value) for name, value in weights.items()}
    self.nodes = []
    self.initializers = {}

  def node(self, op, inputs, output=None, **attributes):
    name = f"{op}_{len(self.nodes)}"
    output = output or name + "_out"
    self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
    return output

  def weight(self, name):
    self.initializers[name] = numpy_helper.from_array(self.weights[name], name)
    return name

  def scalar(self, value):
    name = f"const_{value:g}"
    self.initializers[name] = numpy_helper.from_array(np.array(value, np.float32), name)
    return name

  def conv(self, x, name, stride=1, group=1):
    height, width = self.weights[name + ".weight"].shape[2:]
    inputs = [x, self.weight(name + ".weight")]
    if name + ".bias" in self.weights:
      inputs.append(self.weight(name + ".bias"))
    return self.node("Conv", inputs, kernel_shape=[height, width], strides=[stride, stride], dilations=[1, 1],
                     pads=[height // 2, width // 2] * 2, group=group)

  def batch_norm(self, x, name):
    weights = [self.weight(name + part) for part in (".weight", ".bias", ".running_mean", ".running_var")]
    return self.node("BatchNormalization", [x, *weights], epsilon=EPSILON, momentum=MOMENTUM)

  def layer_norm(self, x, name):
    return self.node("LayerNormalization", [x, self.weight(name + ".weight"), self.weight(name + ".bias")],
                     axis=-1, epsilon=EPSILON)

  def gemm(self, x, name):
    return self.node("Gemm", [x, self.weight(name + ".weight"), self.weight(name + ".bias")], transB=1)

  def hard_sigmoid(self, x):
    return self.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)

  def hard_swish(self, x):
    return self.node("HardSwish", [x])

  def hard_swish_spelled_out(self, x):
    """x * clip(x + 3, 0, 6) / 6, as exporters wrote it before opset 14."""
    gate = self.node("Clip", [self.node("Add", [x, self.scalar(3)]), self.scalar(0), self.scalar(6)])
    return self.node("Div", [self.node("Mul", [x, gate]), self.scalar(6)])

  def global_average_pool(self, x):
    return self.node("GlobalAveragePool", [x])

  def reduce_mean(self, x):
    return self.node("ReduceMean", [x], axes=[2, 3], keepdims=1)

  def relu(self, x):
    return self.node("Relu", [x])

  def add(self, x, y):
    return self.node("Add", [x, y])

  def mul(self, x, y):
    return self.node("Mul", [x, y])

  def flatten(self, x):
    return self.node("Flatten", [x], axis=1)

  def model(self, logits):
    self.node("Softmax", [logits], "probabilities", axis=-1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", CLASSES])
    graph = helper.make_graph(self.nodes, "digits", [image], [probabilities], list(self.initializers.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="samples/digits/train.py")
    onnx.checker.check_model(model, full_check=True)
    return model


def augment(key, images):
  """Turns, scales and shifts each image [N,1,8,8] by a little, with bilinear sampling and blank surroundings."""
  count = images.shape[0]
  keys = jax.random.split(key, 3)
  angle = jax.random.uniform(keys[0], (count,), minval=-0.2, maxval=0.2)  # radians
  scale = jax.random.uniform(keys[1], (count,), minval=0.9, maxval=1.1)
  shift = jax.random.uniform(keys[2], (count, 2), minval=-0.7, maxval=0.7)  # pixels
  rows, columns = jnp.meshgrid(jnp.arange(8.0) - 3.5, jnp.arange(8.0) - 3.5, indexing="ij")

  def move(image, angle, scale, shift):
    cos, sin = jnp.cos(angle) * scale, jnp.sin(angle) * scale
    where = [cos * rows - sin * columns + 3.5 + shift[0], sin * rows + cos * columns + 3.5 + shift[1]]
    return jax.scipy.ndimage.map_coordinates(image[0], where, order=1, mode="constant")[None]

  return jax.vmap(move)(images, angle, scale, shift)


def loss(trained, running, images, labels):
  """Cross entropy with smoothed labels; also the updated running statistics."""
  ops = Forward(trained, running, training=True)
  log_probabilities = jax.nn.log_softmax(network(ops, images))
  target = jax.nn.one_hot(labels, CLASSES) * (1 - SMOOTHING) + SMOOTHING / CLASSES
  return -jnp.mean(jnp.sum(target * log_probabilities, -1)), ops.running


def adam_w(trained, grads, moments, step, rate):
  """Adam with decoupled weight decay on matrices and filters (Loshchilov and Hutter, 2019)."""
  first = {k: 0.9 * moments[0][k] + 0.1 * g for k, g in grads.items()}
  second = {k: 0.999 * moments[1][k] + 0.001 * g**2 for k, g in grads.items()}

  def moved(name, value):
    update = first[name] / (1 - 0.9**step) / (jnp.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
    return value - rate * (update + (WEIGHT_DECAY * value if value.ndim > 1 else 0))

  return {k: moved(k, v) for k, v in trained.items()}, (first, second)


def train(images, labels):
  """images [N,1,8,8] in 0..1, labels [N] -> (trained, running)."""
  trained, running = initial_weights(np.random.default_rng(SEED))
  zeros = jax.tree.map(jnp.zeros_like, trained)
  moments = (zeros, zeros)
  per_epoch = len(images) // BATCH
  steps = EPOCHS * per_epoch
  order = np.random.default_rng(SEED + 1)

  @jax.jit
  def update(trained, running, moments, step, images, labels):
    images = augment(jax.random.fold_in(jax.random.key(SEED), step), images)
    (value, running), grads = jax.value_and_grad(loss, has_aux=True)(trained, running, images, labels)
    rate = LEARNING_RATE * jnp.minimum(step / 100, 0.5 + 0.5 * jnp.cos(jnp.pi * step / steps))
    trained, moments = adam_w(trained, grads, moments, step + 1.0, rate)
    return trained, running, moments, value

  for epoch in range(EPOCHS):
    shuffled = order.permutation(len(images))
    for batch in range(per_epoch):
      chosen = shuffled[batch * BATCH:(batch + 1) * BATCH]
      trained, running, moments, value = update(trained, running, moments, epoch * per_epoch + batch,
                                                images[chosen], labels[chosen])
    if epoch % 10 == 9:
      print(f"epoch {epoch + 1}: loss {value:.4f}", flush=True)
  return trained, running


def normalized(pixels):
  return (pixels[:, None] / FULL).astype(np.float32)


def forward(trained, running, images):
  return np.asarray(network(Forward(trained, running, training=False), images))


def cross_validate(pixels, labels, folds):
  wrong = 0
  for rest, fold in StratifiedKFold(folds, shuffle=True, random_state=SEED).split(pixels, labels):
    logits = forward(*train(normalized(pixels[rest]), labels[rest]), normalized(pixels[fold]))
    wrong += np.sum(logits.argmax(-1) != labels[fold])
  print(f"{folds}-fold accuracy on the training images: {1 - wrong / len(labels):.4f}")


def check(out):
  """Accuracy of the written files, by ONNX Runtime."""
  session = onnxruntime.InferenceSession(out / "digits.onnx", providers=["CPUExecutionProvider"])
  images, labels = np.load(out / "images.npy"), np.load(out / "labels.npy")
  (probabilities,) = session.run(None, {"image": normalized(images)})
  wrong = int(np.sum(probabilities.argmax(-1) != labels))
  print(f"held out: {len(labels) - wrong} of {len(labels)} right, accuracy {1 - wrong / len(labels):.4f}; "
        f"digits.onnx is {(out / 'digits.onnx').stat().st_size} bytes")
  return probabilities


def main():
  arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  arguments.add_argument("--folds", type=int, default=0, help="cross-validate instead of writing files")
  arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
  arguments = arguments.parse_args()

  digits = load_digits()
  pixels, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
  pixels, held_pixels, labels, held_labels = train_test_split(
      pixels, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED)
  if arguments.folds:
    return cross_validate(pixels, labels, arguments.folds)

  start = time.monotonic()
  trained, running = train(normalized(pixels), labels)
  print(f"trained in {time.monotonic() - start:.0f} s")
  writer = OnnxWriter(trained | running)
  model = writer.model(network(writer, "image"))
  arguments.out.mkdir(parents=True, exist_ok=True)
  onnx.save(model, arguments.out / "digits.onnx")
  np.save(arguments.out / "images.npy", held_pixels)
  np.save(arguments.out / "labels.npy", held_labels)

  expected = jax.nn.softmax(forward(trained, running, normalized(held_pixels)))
  probabilities = check(arguments.out)
  difference = float(np.abs(probabilities - expected).max())
  print(f"largest difference from the trained network: {difference:.1e}")
  if difference > 1e-4:
    raise SystemExit("digits.onnx does not compute the trained network")
  if np.mean(probabilities.argmax(-1) == held_labels) < REQUIRED_ACCURACY:
    raise SystemExit("digits.onnx is less accurate than the sample promises")


if __name__ == "__main__":
  main()
