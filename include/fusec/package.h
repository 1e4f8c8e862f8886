// SPDX-License-Identifier: Apache-2.0
// Package: one file (.fsc) with a model compiled ahead of time for one or more targets. Writing one needs the compiler and
// no device; Engine::load runs one with the runtime library alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusec/dtype.h"
#include "fusec/export.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec {

struct FUSEC_API PackageSection {
  std::string name;  // "manifest", "program sm_90", "code sm_90", "constants"
  int64_t offset = 0, bytes = 0;
  std::string sha256;  // hexadecimal, of its 1 MiB chunks' digests
};

struct FUSEC_API PackageInfo {
  std::string producer;  // "fusec 0.1.0"
  std::vector<std::string> targets;
  std::vector<PackageSection> sections;
  int64_t file_bytes = 0;
  Numerics numerics = Numerics::precise;
  std::optional<DType> precision;
  bool tf32 = false;
  double verify_ms = 0;  // reading and checking every byte
};

namespace runtime {
struct PackageState;
}

// An open file, mapped; copies share it. The file must not change while it is open.
class FUSEC_API Package {
 public:
  // Checks the whole file: invalid_argument when it cannot be opened, invalid_model for what is no package of this version,
  // is cut short or has a changed byte.
  static Result<Package> open(const std::string& path) noexcept;

  const PackageInfo& info() const;
  const Model& model() const;  // its inputs, outputs and symbols; there is no graph

  explicit Package(std::shared_ptr<const runtime::PackageState> state) : state_(std::move(state)) {}
  const std::shared_ptr<const runtime::PackageState>& state() const { return state_; }

 private:
  std::shared_ptr<const runtime::PackageState> state_;
};

// Whether the file begins as packages do.
FUSEC_API bool is_package(const std::string& path) noexcept;

// Compiles `model` for each target ("cpu:x86-64-v3", "cuda:sm_90", ...; "cpu:native": this machine) and writes the file, which
// appears whole or not at all. The same model, targets and options give the same bytes. Of `options`, device and target are
// not looked at.
FUSEC_API Status write_package(const Model& model, std::span<const std::string> targets, const std::string& path,
                               const Options& options = {}) noexcept;

}  // namespace fusec
