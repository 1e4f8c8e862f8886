// SPDX-License-Identifier: Apache-2.0
// Executes the statements of kernels that each thread runs on its own, and their accesses to memory, each of which is
// checked against the buffer's bounds.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "ir/eval/combine.h"
#include "ir/eval/kernel_interpreter.h"

namespace fusec::ir {

char* Interpreter::element(const Stmt& s, BufferId b, std::span<const int64_t> index, bool write) {
  Memory& m = memory(b);
  if (index.size() != m.shape.size()) {
    fail(fmt::format("{} has rank {}, {} indices in {}", k_.buffers[b].name, m.shape.size(), index.size(), where(s)));
    return nullptr;
  }
  int64_t offset = 0;
  for (std::size_t a = 0; a < index.size(); ++a) {
    if (index[a] < 0 || index[a] >= m.shape[a]) {
      fail(fmt::format("index {} of axis {} of {} is outside of [0, {}) in {}", index[a], a, k_.buffers[b].name,
                       m.shape[a], where(s)));
      return nullptr;
    }
    offset += index[a] * m.strides[a];
  }
  const EvalBuffer& info = buffers_[b.index];
  if (!active_.empty() && info.space == Space::shared) touch(s, b, offset, write);
  return m.data + offset * static_cast<int64_t>(info.size);
}

void Interpreter::clamp(const Load& s, const Stmt& stmt, std::span<int64_t> index) {
  if (s.clamp == 0) return;
  for (std::size_t a = 0; a < index.size(); ++a) {
    if (!(s.clamp >> a & 1)) continue;
    const int64_t size = memory(s.buffer).shape[a];
    const int64_t wrapped = index[a] < 0 ? index[a] + size : index[a];
    if ((wrapped < 0 || wrapped >= size) && out_of_range_.empty()) {
      out_of_range_ = fmt::format("index {} is out of range for axis {} of {}, which has {} elements, in {}", index[a],
                                  a, k_.buffers[s.buffer].name, size, where(stmt));
    }
    index[a] = std::max<int64_t>(0, std::min(wrapped, size - 1));
  }
}

void Interpreter::allocate(BufferId b) {
  const Buffer& buffer = k_.buffers[b];
  Memory& m = memory(b);
  m.shape = eval(buffer.shape);
  m.strides = row_major(m.shape);
  int64_t count = 1;
  for (const int64_t e : m.shape) {
    if (e < 0 || __builtin_mul_overflow(count, e, &count) || count > kMaxLocalElements) {
      return fail(fmt::format("{} has a negative or too large extent", buffer.name));
    }
  }
  const std::size_t size = size_of(buffer.dtype);
  m.owned.assign(static_cast<std::size_t>(count) * size, static_cast<char>(0xcd));
  m.data = m.owned.data();
  if (buffer.space == Space::shared) shared_.allocate(b, count);
  if (!is_float(buffer.dtype)) return;
  for (int64_t i = 0; i < count; ++i) {
    store_number(buffer.dtype, m.data + i * static_cast<int64_t>(size), {std::numeric_limits<double>::quiet_NaN(), 0});
  }
}

void Interpreter::run(const Let& s, const Stmt&) {
  const EvalReg& result = regs_[s.dst.index];
  const DType operand = dtype_of(k_, s.args.back());
  Number args[3];
  for (int lane = 0; lane < result.width; ++lane) {
    for (std::size_t i = 0; i < s.args.size(); ++i) args[i] = read(s.args[i], lane);
    write(s.dst, lane, apply(s.op, operand, result.dtype, args, s.args.size()));
  }
}

void Interpreter::run(const IndexValue& s, const Stmt&) {
  const EvalReg& result = regs_[s.dst.index];
  for (int lane = 0; lane < result.width; ++lane) {
    set_lane(lane);
    write(s.dst, lane, cast_number(DType::i64, result.dtype, {0, eval(s.value)}));
  }
}

void Interpreter::run(const Load& s, const Stmt& stmt) {
  const DType dtype = buffers_[s.buffer.index].dtype;
  for (int lane = 0; lane < regs_[s.dst.index].width && ok(); ++lane) {
    set_lane(lane);
    if (!holds(s.guard)) {
      write(s.dst, lane, make_number(s.otherwise));
      continue;
    }
    const std::span<int64_t> index = eval_index(s.index);
    clamp(s, stmt, index);
    if (const char* at = element(stmt, s.buffer, index)) write(s.dst, lane, load_number(dtype, at));
  }
}

void Interpreter::run(const Store& s, const Stmt& stmt) {
  const int width = width_of(k_, s.value);
  for (int lane = 0; lane < width && ok(); ++lane) {
    set_lane(lane);
    if (!holds(s.guard)) continue;
    if (char* at = element(stmt, s.buffer, eval_index(s.index), true)) {
      store_number(buffers_[s.buffer.index].dtype, at, read(s.value, lane));
    }
  }
}

void Interpreter::run(const Reduce& s, const Stmt& stmt) {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (const LoopHead& h : s.loops) {
    sizes.push_back(std::max<int64_t>(0, eval(h.extent)));
    count *= sizes.back();
  }
  const int width = width_of(k_, stmt);
  const bool lane_wise = width > 1 && k_.regs[s.dst[0]].width == width;
  const int64_t per_iteration = lane_wise ? 1 : width;
  TupleTypes types{};
  for (std::size_t i = 0; i < s.dst.size() && i < 3; ++i) types[i] = k_.regs[s.dst[i]].dtype;
  std::vector<TreeCombiner> folds(static_cast<std::size_t>(lane_wise ? width : 1),
                                  TreeCombiner(s.combiner, types, s.tree, count * per_iteration));
  for (int64_t i = 0; i < count && ok(); ++i) {
    int64_t rest = i;
    for (std::size_t l = s.loops.size(); l-- > 0; rest /= sizes[l]) set(s.loops[l].var, rest % sizes[l]);
    block(s.body);
    for (int lane = 0; lane < width && ok(); ++lane) {
      set_lane(lane);
      if (!holds(s.guard)) continue;
      Tuple t;
      for (std::size_t y = 0; y < s.yield.size() && y < 3; ++y) t[y] = read(s.yield[y], lane);
      folds[lane_wise ? static_cast<std::size_t>(lane) : 0].add(lane_wise ? i : i * width + lane, t);
    }
  }
  for (std::size_t lane = 0; lane < folds.size(); ++lane) {
    const Tuple t = folds[lane].finish();
    for (std::size_t d = 0; d < s.dst.size() && d < 3; ++d) write(s.dst[d], static_cast<int>(lane), t[d]);
  }
}

void Interpreter::run(const Scan& s, const Stmt&) {
  const int64_t n = eval(s.loop.extent);
  const EvalReg& result = regs_[s.dst.index];
  const TupleTypes types{result.dtype, result.dtype, result.dtype};
  std::vector<Tuple> running(static_cast<std::size_t>(result.width), identity(s.combiner, types));
  for (int64_t step = 0; step < n && ok(); ++step) {
    set(s.loop.var, s.reverse ? n - 1 - step : step);
    block(s.body);
    for (int lane = 0; lane < result.width; ++lane) {
      Tuple& r = running[static_cast<std::size_t>(lane)];
      const Tuple next = combine(s.combiner, types, r, {read(s.yield, lane)});
      write(s.dst, lane, s.exclusive ? r[0] : next[0]);
      r = next;
    }
    block(s.then);
  }
}

void Interpreter::run(const TransposeTile& s, const Stmt& stmt) {
  const DType dtype = k_.buffers[s.dst].dtype;
  const std::vector<int64_t> shape = memory(s.src).shape;
  if (shape.size() != 2) return fail("a transposed tile has two axes, in " + where(stmt));
  for (int64_t i = 0; i < shape[0] && ok(); ++i) {
    for (int64_t j = 0; j < shape[1] && ok(); ++j) {
      const char* from = element(stmt, s.src, std::array{i, j});
      char* to = element(stmt, s.dst, std::array{j, i}, true);
      if (from != nullptr && to != nullptr) std::memmove(to, from, size_of(dtype));
    }
  }
}

void Interpreter::run(const CopyAsync& s, const Stmt& stmt) {
  const std::vector<int64_t> box = eval(s.extents), to = eval(s.dst_index), from = eval(s.src_index);
  std::vector<int64_t> position(box.size(), 0);
  static constexpr char kZero[16] = {};
  const bool inside_guard = holds(s.guard);
  if (std::any_of(box.begin(), box.end(), [](int64_t e) { return e <= 0; })) return;
  for (bool more = true; more && ok();) {
    const char* source = inside_guard ? element(stmt, s.src, inside(from, position)) : kZero;
    char* target = element(stmt, s.dst, inside(to, position), true);
    const std::size_t bytes = size_of(k_.buffers[s.dst].dtype);
    if (source == nullptr || target == nullptr) return;
    if (active_.empty()) {
      std::memcpy(target, source, bytes);
    } else {
      Copies& copies = copies_[static_cast<std::size_t>(number(frame_))];
      copies.pending.push_back({&stmt, s.dst, target, source, bytes, copies.group});
    }
    more = false;
    for (std::size_t a = box.size(); a-- > 0 && !more;) {
      more = ++position[a] < box[a];
      if (!more) position[a] = 0;
    }
  }
}

void Interpreter::run(const Mma& s, const Stmt& stmt) {
  const std::vector<int64_t> a_index = eval(s.a_index), b_index = eval(s.b_index);
  const int64_t lane = eval(s.lane), g = lane / 4, t = lane % 4;
  const auto at = [&](BufferId b, std::vector<int64_t> index, int64_t line, int64_t place) {
    index[index.size() - 2] += line;
    index.back() += place;
    const char* p = element(stmt, b, index);
    return p == nullptr ? 0.0 : load_number(k_.buffers[b].dtype, p).f;
  };
  const auto a = [&](int64_t row, int64_t k) {
    if (!s.windows) return at(s.a, a_index, row, k);
    return at(s.a, a_index, k / s.windows->width, row * s.windows->step + k % s.windows->width);
  };
  for (int64_t i = 0; i < kMmaResults; ++i) {
    double sum = read(s.c, static_cast<int>(i)).f;
    for (int64_t k = 0; k < kMmaTerms && ok(); ++k) sum += a(g + 8 * (i / 2), k) * at(s.b, b_index, 2 * t + i % 2, k);
    write(s.dst, static_cast<int>(i), cast_number(DType::f64, DType::f32, {sum, 0}));
  }
}

void Interpreter::run(const TileProduct& s, const Stmt& stmt) {
  std::vector<int64_t> at = eval(s.sums_index);
  const std::size_t axes = at.size();
  at.insert(at.end(), {0, 0, 0});
  const std::vector<int64_t>& shape = memory(s.sums).shape;
  if (shape.size() != at.size()) return fail("the sums are no tile in " + where(stmt));
  const int64_t t = eval(s.thread), terms = eval(s.terms), rows = eval(s.rows), columns = eval(s.columns);
  const DType dtype = buffers_[s.a.index].dtype;
  // The terms of a row, all inside of the buffer.
  const auto read_row = [&](BufferId b, const std::vector<IndexExpr>& index, int64_t offset) {
    std::vector<int64_t> first = eval(index);
    first.back() += offset;
    std::vector<double> values(static_cast<std::size_t>(terms));
    for (double& value : values) {
      const char* p = element(stmt, b, first);
      if (p != nullptr) value = load_number(dtype, p).f;
      ++first.back();
    }
    return values;
  };
  for (int64_t half = 0; half < shape[axes] * 2 && ok(); ++half) {
    const int64_t m = at[axes] = half / 2;
    const int64_t row = kTileRows * m + 16 * (t / 32) + t % 32 / 4 + 8 * (half % 2);
    const bool has_row = row < rows;
    std::vector<double> a;
    if (has_row) a = read_row(s.a, s.a_index, row * eval(s.a_pitch));
    for (int64_t pair = 0; pair < shape[axes + 1] * 2 && ok(); ++pair) {
      const int64_t g = at[axes + 1] = pair / 2, column = kTileColumns * g + 2 * (t % 4) + pair % 2;
      at[axes + 2] = 2 * (half % 2) + pair % 2;
      double sum = 0;
      if (has_row && column < columns) {
        const std::vector<double> b = read_row(s.b, s.b_index, column * eval(s.b_pitch));
        for (std::size_t k = 0; k < b.size(); ++k) sum += a[k] * b[k];
      }
      if (char* to = element(stmt, s.sums, at, true))
        store_number(DType::f32, to, cast_number(DType::f64, DType::f32, {sum, 0}));
    }
  }
}

}  // namespace fusec::ir
