// SPDX-License-Identifier: Apache-2.0
// Index expressions as C++ text: int where the kernel's facts say that 32 bits are enough, else i64. What is common to
// several of them is left to the compiler to share.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/cuda/prelude.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen::cuda {

// base + step * lane; step nullopt: not affine with a constant step. `varies` false: step is 0.
struct LaneForm {
  Dim base;
  std::optional<int64_t> step = 0;
  bool varies() const { return step != 0; }
};

class Index {
 public:
  Index(const ir::Kernel& kernel, Prelude& prelude);

  const std::string& type() const { return type_; }
  // `name` is written `text` and has the inclusive range; without a range nothing is known of it.
  void bind(const std::string& name, const std::string& text, DimRange range);
  // `name` stands for a resolved expression.
  void alias(const std::string& name, const Dim& value) { aliases_[name] = value; }
  void unbind(const std::string& name);

  // With aliases put in and what the ranges decide simplified.
  Dim resolve(const Dim& d) const;
  bool proves_nonneg(const Dim& d) const { return fusec::proves_nonneg(d, ranges_); }
  // Of a resolved expression.
  std::string text(const Dim& d);
  // Of a number that is no place in memory: right in 64 bits whatever the facts say.
  std::string wide_text(const Dim& d);
  LaneForm lane_form(const Dim& d) const;
  // Whether a register is in it.
  bool uses_data(const Dim& d) const;
  // The greatest known divisor, facts of extents used; 0 for 0.
  int64_t divisor(const Dim& d) const;

 private:
  std::string term_text(const Dim::Term& term, int64_t coefficient);
  std::string atom_text(const Dim::Atom& atom);
  std::string division(const Dim::Atom& atom);
  std::string symbol(const std::string& name) const;
  const ir::RegInfo* register_named(const std::string& name) const;
  bool uses_lane(const Dim& d) const;

  const ir::Kernel& kernel_;
  Prelude& prelude_;
  std::string type_;
  bool wide_ = false;
  std::map<std::string, std::string> names_;
  std::map<std::string, Dim> aliases_;
  DimRanges ranges_;
};

// While it lives, `lane` has the range 0 .. width-1, or is 0 for width 1.
class LaneScope {
 public:
  LaneScope(Index& index, int width);
  ~LaneScope() { index_.unbind(ir::kLane); }
  LaneScope(const LaneScope&) = delete;

 private:
  Index& index_;
};

}  // namespace fusec::codegen::cuda
