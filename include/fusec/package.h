// SPDX-License-Identifier: Apache-2.0
// Package: one file (.fsc) with a model compiled ahead of time for one or more targets. Writing one needs the compiler
// and no device; Engine::load runs one with the runtime library alone.
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
#include "fusec/signing.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec {

struct FUSEC_API PackageSection {
  std::string name;  // "manifest", "program sm_90", "code sm_90", "constants"
  int64_t offset = 0, bytes = 0;
  std::string sha256;  // hexadecimal, of its 256 KiB chunks' digests
};

struct FUSEC_API PackageInfo {
  std::string producer;  // "fusec 0.1.0"
  std::vector<std::string> targets;
  std::vector<PackageSection> sections;
  int64_t file_bytes = 0;
  Numerics numerics = Numerics::precise;
  std::optional<DType> precision;
  bool tf32 = false, batch_invariant = false;
  std::string signed_by;  // the public key in hexadecimal, which is as yet nobody's; empty: not signed
  double verify_ms = 0;   // reading and checking every byte
};

namespace runtime {
struct PackageState;
}

// A package is a program: whoever can write it decides what runs. Without one of these only files of the user or root,
// which nobody else may write, in folders of the same kind, are opened.
struct FUSEC_API PackageOptions {
  bool trust = false;                   // open it whoever owns it or may write it
  std::optional<PublicKey> verify_key;  // this key must have signed it; then it does not matter whose it is
};

// The content of a file, read into memory of its own; copies share it. What becomes of the file later does not matter.
class FUSEC_API Package {
 public:
  // Reads and checks the whole file. invalid_argument: it cannot be opened, is not called *.fsc, is not to be trusted
  // or is not signed by the key; invalid_model: it is no package of this version, is cut short or has a changed byte;
  // unsupported: verify_key where fusec was built without libsodium; out_of_memory.
  static Result<Package> open(const std::string& path, const PackageOptions& options = {}) noexcept;

  // The package that these bytes are, which are copied. Memory has no owner who could be asked for: one of the options
  // must be given. Errors as of open.
  static Result<Package> read(std::span<const std::byte> bytes, const PackageOptions& options) noexcept;

  const PackageInfo& info() const;
  const Model& model() const;  // its inputs, outputs and symbols; there is no graph

  explicit Package(std::shared_ptr<const runtime::PackageState> state) : state_(std::move(state)) {}
  const std::shared_ptr<const runtime::PackageState>& state() const { return state_; }

 private:
  std::shared_ptr<const runtime::PackageState> state_;
};

enum class PackageFit : uint8_t {
  none,   // it has no code that the device can run
  other,  // it runs; compiled for the device itself it would be faster, or start faster
  best,   // it has code for the device itself
};
// How well the package suits a device of this machine: "cpu", "cuda", "cuda:1". device, invalid_argument: there is no
// such device.
FUSEC_API Result<PackageFit> package_fit(const Package& package, const std::string& device) noexcept;

// Whether it is a regular file that begins as packages do, whatever its name.
FUSEC_API bool is_package(const std::string& path) noexcept;

// Compiles `model` for each target ("cpu:x86-64-v3", "cuda:sm_90", ...; "cpu:native": this machine) and writes the
// file, which appears whole or not at all; its name must end in .fsc. The same model, targets, options and key give the
// same bytes. Of `options`, device and target are not looked at.
FUSEC_API Status write_package(const Model& model, std::span<const std::string> targets, const std::string& path,
                               const Options& options = {}, const std::optional<SigningKey>& sign = {}) noexcept;
// The bytes of that file, for Package::read.
FUSEC_API Result<std::vector<std::byte>> package_bytes(const Model& model, std::span<const std::string> targets,
                                                       const Options& options = {},
                                                       const std::optional<SigningKey>& sign = {}) noexcept;

}  // namespace fusec
