// SPDX-License-Identifier: Apache-2.0
// In libfusec-c-runtime, what the C interface calls of the importer and the compiler: each answers `unsupported`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/model.h"
#include "fusec/onnx.h"
#include "fusec/options.h"
#include "fusec/package.h"
#include "fusec/status.h"
#include "ir/support/check.h"

namespace fusec {
namespace {

Status no_compiler() noexcept {
  return ir::guarded([]() -> Status {
    return Status(StatusCode::unsupported,
                  "this library runs packages (.fsc) and compiles nothing; compile by libfusec-c, which the Python "
                  "package fusec and the Debian package fusec-compiler have, and load the package here");
  });
}

}  // namespace

Result<Model> load_onnx(const std::string&, const ImportOptions&) noexcept { return no_compiler(); }

Result<Model> load_onnx_bytes(std::span<const uint8_t>, const ImportOptions&) noexcept { return no_compiler(); }

Result<std::vector<NodeSupport>> check_onnx_bytes(std::span<const uint8_t>, const ImportOptions&) noexcept {
  return no_compiler();
}

Result<Engine> Engine::compile(const Model&, const Options&) noexcept { return no_compiler(); }

Status write_package(const Model&, std::span<const std::string>, const std::string&, const Options&,
                     const std::optional<SigningKey>&) noexcept {
  return no_compiler();
}

Result<std::vector<std::byte>> package_bytes(const Model&, std::span<const std::string>, const Options&,
                                             const std::optional<SigningKey>&) noexcept {
  return no_compiler();
}

}  // namespace fusec
