// SPDX-License-Identifier: Apache-2.0
// Measures the error of one compiled scalar op against the reference column of the op table, for `fusec accuracy`. It
// compiles the op through all stages and tries special values, the op's domain, and bit patterns of the type.

#include "runtime/tool/measure/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "fusec/session.h"
#include "ir/graph/model_internal.h"
#include "ir/ops/cast.h"
#include "ir/ops/reference.h"
#include "ir/support/hash.h"
#include "ir/text/graph_text.h"

namespace fusec::tool {
namespace {

using ir::ScalarOp;

constexpr int64_t kChunk = int64_t{1} << 20;  // elements of one run

DType operand_type(ScalarOp op, DType dtype, int k) { return op == ScalarOp::where && k == 0 ? DType::bool_ : dtype; }

std::string graph_text(ScalarOp op, DType dtype) {
  std::string parameters, operands;
  for (int k = 0; k < info(op).arity; ++k) {
    const std::string name = fmt::format("%{}", static_cast<char>('a' + k));
    parameters += fmt::format("{}{}: {}[n]", k == 0 ? "" : ", ", name, to_string(operand_type(op, dtype, k)));
    operands += (k == 0 ? "" : ", ") + name;
  }
  return fmt::format("graph @op({}) {{\n  %0 = {} {}: {}[n]\n  return %0 as \"y\"\n}}\n", parameters, info(op).name,
                     operands, to_string(result_type(op, dtype, dtype)));
}

// Zeros, ones, ends of ranges, ties, denormals, infinities, NaN; of integers the ends and small numbers.
std::vector<uint64_t> special_bits(DType dtype) {
  std::vector<uint64_t> out;
  const auto add = [&](double f, int64_t i) {
    uint64_t bits = 0;
    if (is_float(dtype)) {
      ir::store_double(dtype, &bits, f);
    } else {
      ir::store_int(dtype, &bits, i);
    }
    out.push_back(bits);
  };
  if (is_float(dtype)) {
    for (const double f : {0.0,     0.5,    1.0,      1.5,     2.0,
                           2.5,     3.0,    88.7,     104.0,   65504.0,
                           65520.0, 0x1p31, 0x1p63,   3e38,    1e-40,
                           1e-45,   1e300,  0x1p-126, 0x1p-14, std::numeric_limits<double>::infinity()}) {
      add(f, 0);
      add(-f, 0);
    }
    add(std::numeric_limits<double>::quiet_NaN(), 0);
    return out;
  }
  for (const int64_t i : {0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256}) {
    add(0, i);
    add(0, -i);
  }
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
  for (const int64_t i : {int64_t{1} << 31, (int64_t{1} << 31) - 1, kLow, kLow + 1, kHigh, kHigh - 1}) add(0, i);
  return out;
}

// Which inputs there are, by number: first pairs of specials, then the domain, then all bit patterns or random ones.
class Inputs {
 public:
  Inputs(ScalarOp op, DType dtype, const AccuracyOptions& options)
      : op_(op),
        dtype_(dtype),
        row_(info(op)),
        special_(special_bits(dtype)),
        bits_(static_cast<int>(8 * size_of(dtype))) {
    pairs_ = 1;
    for (int k = 0; k < std::min(row_.arity, 2); ++k) pairs_ *= static_cast<int64_t>(special_.size());
    domain_ = options.samples / 4;
    const bool all = row_.arity == 1 && (bits_ <= 16 || (bits_ == 32 && options.exhaustive));
    rest_ = all ? int64_t{1} << bits_ : options.samples;
  }
  int64_t count() const { return pairs_ + domain_ + rest_; }
  bool on_domain(int64_t i) const { return i >= pairs_ && i < pairs_ + domain_; }

  // The bits of operand k of input i.
  uint64_t bits(int64_t i, int k) const {
    Random rng{ir::mix64(static_cast<uint64_t>(i) * 8 + static_cast<uint64_t>(k) + 1)};
    if (operand_type(op_, dtype_, k) == DType::bool_) return rng() & 1;
    if (row_.is_definition && k > 0) return of_domain(rng);  // a parameter, such as an alpha
    if (i < pairs_) {
      const auto n = static_cast<int64_t>(special_.size());
      return special_[static_cast<std::size_t>(k == 0 ? i % n : (i / n) % n)];
    }
    i -= pairs_;
    if (i < domain_) return of_domain(rng);
    i -= domain_;
    if (row_.arity > 1) return rng();
    if (bits_ <= 32 && rest_ == int64_t{1} << bits_) return static_cast<uint64_t>(i);
    // One out of each of so many equal ranges of patterns.
    const uint64_t step = bits_ == 64 ? ~uint64_t{0} / static_cast<uint64_t>(rest_)
                                      : (uint64_t{1} << bits_) / static_cast<uint64_t>(rest_);
    return static_cast<uint64_t>(i) * std::max<uint64_t>(step, 1) + (step > 1 ? rng() % step : 0);
  }

 private:
  // A state of one word: there is one for every operand of every input.
  struct Random {
    uint64_t state;
    uint64_t operator()() { return state = ir::mix64(state); }
  };

  uint64_t of_domain(Random& rng) const {
    const double unit = static_cast<double>(rng() >> 11) * 0x1p-53,
                 x = row_.domain_lo + (row_.domain_hi - row_.domain_lo) * unit;
    uint64_t bits = 0;
    if (is_float(dtype_)) {
      ir::store_double(dtype_, &bits, x);
    } else {
      ir::store_int(dtype_, &bits, static_cast<int64_t>(std::floor(x)));
    }
    return bits;
  }

  ScalarOp op_;
  DType dtype_;
  const ir::ScalarOpInfo& row_;
  std::vector<uint64_t> special_;
  int bits_;
  int64_t pairs_, domain_, rest_;
};

struct FloatShape {
  int digits, lowest;  // explicit bits of the significand; exponent of the least normal number
};
FloatShape shape_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {52, -1022};
    case DType::f16:
      return {10, -14};
    case DType::bf16:
      return {7, -126};
    default:
      return {23, -126};
  }
}

// infinity: of another class than the reference.
double float_error(DType dtype, double got, double want, bool signed_zeros) {
  char bytes[8];
  ir::store_double(dtype, bytes, want);
  const double rounded = ir::load_double(dtype, bytes);
  constexpr double kOther = std::numeric_limits<double>::infinity();
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) && std::isnan(got) ? 0 : kOther;
  if (got == rounded && std::signbit(got) != std::signbit(rounded) && signed_zeros) return kOther;
  if (std::isinf(got) || std::isinf(rounded)) {
    // The largest number beside an infinity is one unit away.
    return got == rounded                                     ? 0
           : std::isinf(got) && std::isinf(rounded)           ? kOther
           : std::fabs(std::isinf(got) ? rounded : got) > 6e4 ? 1
                                                              : kOther;
  }
  const FloatShape shape = shape_of(dtype);
  const int exponent = want == 0 ? shape.lowest : std::max(std::ilogb(want), shape.lowest);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - shape.digits);
}

struct Operands {
  double f[3] = {};
  int64_t i[3] = {};
};

double reference(ScalarOp op, DType dtype, const Operands& x) {
  if (is_float(dtype)) return ir::eval_scalar(op, x.f[0], x.f[1], x.f[2]);
  if (dtype == DType::bool_) return ir::eval_scalar(op, x.i[0] != 0, x.i[1] != 0, x.i[2] != 0);
  return static_cast<double>(ir::eval_scalar(op, dtype, x.i[0], x.i[1], x.i[2]));
}

void put(Tensor& t, int64_t i, uint64_t bits) {
  std::memcpy(t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())), &bits, size_of(t.dtype()));
}

const char* at(const Tensor& t, int64_t i) { return t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype())); }

// A run's elements [begin, end), which are inputs first + begin ... .
struct Range {
  int64_t first, begin, end;
};

void record_errors(AccuracyRow& row, const Inputs& inputs, const std::vector<Tensor>& in, const Tensor& got,
                   const Range& range) {
  const bool is_float_result = is_float(got.dtype());
  for (int64_t i = range.begin; i < range.end; ++i) {
    Operands x;
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (!is_float(in[k].dtype())) x.i[k] = ir::load_int(in[k].dtype(), at(in[k], i));
      x.f[k] = is_float(in[k].dtype()) ? ir::load_double(in[k].dtype(), at(in[k], i)) : static_cast<double>(x.i[k]);
    }
    const double want = reference(row.op, row.dtype, x);
    double error, value;
    if (is_float_result) {
      value = ir::load_double(got.dtype(), at(got, i));
      error = float_error(got.dtype(), value, want, !info(row.op).is_definition);
    } else {
      const int64_t bits = ir::load_int(got.dtype(), at(got, i));
      const bool same = is_float(row.dtype) || row.dtype == DType::bool_
                            ? (bits != 0) == (want != 0)
                            : bits == ir::eval_scalar(row.op, row.dtype, x.i[0], x.i[1], x.i[2]);
      value = static_cast<double>(bits);
      error = same ? 0 : std::numeric_limits<double>::infinity();
    }
    const bool is_wrong = !std::isfinite(error);
    const bool is_worst = is_wrong ? row.wrong == 0 : row.wrong == 0 && error > row.worst;
    row.wrong += is_wrong;
    if (is_worst) {
      row.at = {x.f[0], x.f[1], x.f[2]};
      row.got = value;
      row.want = want;
    }
    if (is_wrong) continue;
    row.worst = std::max(row.worst, error);
    if (!inputs.on_domain(range.first + i)) continue;
    row.worst_on_domain = std::max(row.worst_on_domain, error);
  }
}

void merge(AccuracyRow& to, const AccuracyRow& part) {
  const bool is_worse = part.wrong > 0 ? to.wrong == 0 : to.wrong == 0 && part.worst > to.worst;
  if (is_worse) {
    to.at = part.at;
    to.got = part.got;
    to.want = part.want;
  }
  to.worst = std::max(to.worst, part.worst);
  to.worst_on_domain = std::max(to.worst_on_domain, part.worst_on_domain);
  to.wrong += part.wrong;
}

// body(begin, end, part) on every core.
template <class Body>
void in_parallel(int64_t count, const Body& body) {
  const auto parts = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int64_t p = 0; p < parts; ++p)
    threads.emplace_back([&, p] { body(count * p / parts, count * (p + 1) / parts, p); });
  for (std::thread& t : threads) t.join();
}

Status run_chunk(AccuracyRow& row, const Inputs& inputs, Session& session, int64_t first, int64_t count) {
  std::vector<Tensor> in;
  for (int k = 0; k < info(row.op).arity; ++k) {
    FUSEC_ASSIGN(Tensor t, Tensor::make(operand_type(row.op, row.dtype, k), {count}));
    in_parallel(count, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i) put(t, i, inputs.bits(first + i, k));
    });
    in.push_back(std::move(t));
  }
  FUSEC_ASSIGN(const std::vector<Tensor> got, session.run(in));
  std::vector<AccuracyRow> parts(std::max(1U, std::thread::hardware_concurrency()), AccuracyRow{row.op, row.dtype});
  in_parallel(count, [&](int64_t begin, int64_t end, int64_t p) {
    record_errors(parts[static_cast<std::size_t>(p)], inputs, in, got[0], {first, begin, end});
  });
  for (const AccuracyRow& part : parts) merge(row, part);
  row.inputs += count;
  return {};
}

}  // namespace

// Half a unit is all that an op rounded correctly may have; f16 and bf16 round what f32 computed.
bool AccuracyRow::ok() const {
  if (wrong > 0) return false;
  return info(op).is_definition ? worst_on_domain <= bound : worst <= bound;
}

Result<AccuracyRow> measure_accuracy(ScalarOp op, DType dtype, const AccuracyOptions& options) {
  AccuracyRow row{op, dtype};
  const double ulp = info(op).ulp;
  row.bound = !is_float(dtype) ? 0 : size_of(dtype) == 2 ? (ulp == 0 ? 0.5 : 1.01) : std::max(ulp, 0.5);
  if (info(op).is_definition && is_float(dtype)) row.bound = size_of(dtype) == 2 ? 1.01 : std::max(ulp, 1.0);
  if (dtype == DType::f64) row.bound *= 2;  // the reference is in f64, too, and has errors of its own
  FUSEC_ASSIGN(ir::Graph graph, ir::parse_graph(graph_text(op, dtype)));
  FUSEC_ASSIGN(const Engine engine, Engine::compile(ir::make_model(std::move(graph)), options.compile));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  const Inputs inputs(op, dtype, options);
  for (int64_t first = 0; first < inputs.count(); first += kChunk) {
    FUSEC_TRY(run_chunk(row, inputs, session, first, std::min(kChunk, inputs.count() - first)));
  }
  return row;
}

}  // namespace fusec::tool
