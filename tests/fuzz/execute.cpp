// SPDX-License-Identifier: Apache-2.0
// A case through the public API.
#include "tests/fuzz/execute.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "fusec/engine.h"
#include "fusec/jit.h"
#include "fusec/session.h"
#include "ir/eval/graph.h"
#include "ir/graph/model_internal.h"
#include "tests/fuzz/random.h"

namespace fusec::fuzz {
namespace {

using Tensors = std::vector<Tensor>;

// Memory that outlives a run.
struct Memory {
  std::vector<std::unique_ptr<std::vector<char>>> blocks;
  char* take(std::size_t bytes) {
    blocks.push_back(std::make_unique<std::vector<char>>(bytes + 64));
    return blocks.back()->data();
  }
};

bool next(std::vector<int64_t>& at, const std::vector<int64_t>& shape) {
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (++at[i] < shape[i]) return true;
    at[i] = 0;
  }
  return false;
}

// dst = src element by element, whatever the strides.
void copy_elements(const Tensor& src, Tensor& dst) {
  if (src.num_elements() == 0) return;
  const std::size_t size = size_of(src.dtype());
  std::vector<int64_t> at(src.shape().size(), 0);
  do {
    const auto offset = [&](const Tensor& t) {
      return std::inner_product(at.begin(), at.end(), t.strides().begin(), int64_t{0}) * static_cast<int64_t>(size);
    };
    std::memcpy(dst.as<char>() + offset(dst), src.as<char>() + offset(src), size);
  } while (next(at, src.shape()));
}

// A tensor of these extents in memory of a random layout: permuted, reversed or spaced axes, at an odd address.
Tensor scattered(Random& random, Memory& memory, DType dtype, const std::vector<int64_t>& shape) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0U);
  if (random.chance(0.7)) random.shuffle(order);
  std::vector<int64_t> strides(shape.size());
  int64_t stride = random.chance(0.2) ? 2 : 1, first = 0;
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const std::size_t axis : order) {
    const int64_t extent = empty ? 1 : shape[axis];  // what has no elements needs no room
    strides[axis] = stride;
    stride *= extent;
    if (random.chance(0.1)) stride += 3;
    if (!random.chance(0.1)) continue;
    first += (extent - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  const auto size = static_cast<int64_t>(size_of(dtype));
  char* data = memory.take(static_cast<std::size_t>((stride + 8) * size)) + random.below(4) * size;
  return Tensor::borrow(dtype, shape, data + first * size, strides);
}

Tensor relaid(Random& random, Memory& memory, const Tensor& from) {
  Tensor out = scattered(random, memory, from.dtype(), from.shape());
  copy_elements(from, out);
  return out;
}

Options make_options(const Setting& s) {
  Options o;
  o.numerics = s.numerics;
  o.threads = s.threads;
  o.use_cache = !s.cache_dir.empty();
  if (o.use_cache) o.cache_dir = s.cache_dir;
  o.disabled_passes = s.disabled_passes;
  o.verify_each_pass = true;
  o.use_library = s.use_library;
  o.fuse = s.fuse;
  o.specialize = s.specialize ? Specialize::now : Specialize::off;
  o.target = s.narrow ? "x86-64-v3" : s.target;
  o.device = s.device;
  o.codegen = s.codegen;
  return o;
}

Result<Tensors> row_major(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& t : tensors) {
    FUSEC_ASSIGN(Tensor dense, ir::contiguous(t));
    out.push_back(std::move(dense));
  }
  return out;
}

// An output lies over the first input of its type, as Session allows; inputs are copies then.
Status run_in_place(Session& session, Tensors& inputs, Tensors& outputs) {
  for (Tensor& in : inputs) {
    Tensor copy;
    FUSEC_ASSIGN(copy, Tensor::make(in.dtype(), in.shape()));
    copy_elements(in, copy);
    in = copy;
  }
  std::vector<bool> taken(inputs.size());
  for (Tensor& out : outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (taken[i] || inputs[i].dtype() != out.dtype() || inputs[i].shape() != out.shape()) continue;
      taken[i] = true;
      out = inputs[i];
      break;
    }
  }
  FUSEC_TRY(session.bind_io(inputs, outputs));
  return session.run_bound();
}

Result<Tensors> make_outputs(const Session& session, const Tensors& inputs) {
  std::vector<TensorShape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  FUSEC_ASSIGN(const std::vector<TensorShape> made, session.output_shapes(shapes));
  Tensors out;
  for (std::size_t i = 0; i < made.size(); ++i) {
    FUSEC_ASSIGN(Tensor t, Tensor::make(session.engine().outputs()[i].dtype, made[i]));
    out.push_back(std::move(t));
  }
  return out;
}

Result<Tensors> call(Session& session, const JitFunction* function, Call how, const Run& run, uint64_t seed) {
  Random random(seed);
  Memory memory;
  Tensors inputs = run.inputs;
  FUSEC_ASSIGN(Tensors outputs, make_outputs(session, inputs));
  if (how == Call::strided || how == Call::jit) {
    for (Tensor& t : inputs) t = relaid(random, memory, t);
    for (Tensor& t : outputs)
      if (random.chance(0.5)) t = scattered(random, memory, t.dtype(), t.shape());
  }
  Status status;
  if (how == Call::in_place) {
    status = run_in_place(session, inputs, outputs);
  } else {
    status = function != nullptr ? (*function)(inputs, outputs) : session.run(inputs, outputs);
  }
  if (!status.ok()) return status;
  if (how == Call::session) {  // once more into the same outputs: the same bits
    FUSEC_ASSIGN(const Tensors again, session.run(inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].bytes() != again[i].bytes() ||
          std::memcmp(outputs[i].data(), again[i].data(), again[i].bytes()) != 0)
        return Status(StatusCode::internal, "output " + std::to_string(i) + " has other bits in a second run");
    }
  }
  FUSEC_ASSIGN(Tensors dense, row_major(outputs));
  for (Tensor& t : dense) {  // out of borrowed memory
    FUSEC_ASSIGN(Tensor own, Tensor::make(t.dtype(), t.shape()));
    std::copy_n(t.as<char>(), t.bytes(), own.as<char>());
    t = own;
  }
  return dense;
}

}  // namespace

Result<std::vector<Tensors>> execute(const Case& c) {
  if (c.setting.kernel_evaluator) return execute_kernels(c);
  const Model model = ir::make_model(c.graph);
  const Options options = make_options(c.setting);
  FUSEC_ASSIGN(const Engine engine, Engine::compile(model, options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  std::optional<JitFunction> function;
  if (c.setting.call == Call::jit) {
    FUSEC_ASSIGN(function, jit(model, options));
  }
  std::vector<Tensors> out;
  for (const Run& run : c.runs) {
    FUSEC_ASSIGN(Tensors outputs,
                 call(session, function ? &*function : nullptr, c.setting.call, run, c.seed + out.size()));
    out.push_back(std::move(outputs));
  }
  return out;
}

}  // namespace fusec::fuzz
