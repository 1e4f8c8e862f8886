// SPDX-License-Identifier: Apache-2.0
// What the handles of the C interface are. Each begins with a magic word, so that a handle of another type is refused
// instead of read.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fusec/c.h"
#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/model.h"
#include "fusec/onnx.h"
#include "fusec/options.h"
#include "fusec/package.h"
#include "fusec/session.h"
#include "fusec/status.h"
#include "runtime/threads/lending.h"

namespace fusec::c {

using Magic = uint64_t;
// "fusec" and the number of the type.
constexpr Magic make_magic(unsigned type) { return 0x6675'7365'6300'0000 + type; }

// The type of the handle that begins with this word: "model", ...; null for other memory.
const char* handle_type(Magic magic);

// The shapes that fusec_session_run_raw has seen, ready to take the pointers of a call.
struct RawShapes {
  std::vector<int64_t> extents;  // of all inputs
  std::vector<Tensor> inputs, outputs;
  uint64_t used = 0;
};

}  // namespace fusec::c

struct fusec_error {
  static constexpr fusec::c::Magic kMagic = fusec::c::make_magic(1);
  fusec::c::Magic magic = kMagic;
  int code = FUSEC_OK;
  const char* message = "";  // of the same allocation
};

struct fusec_options {
  static constexpr fusec::c::Magic kMagic = fusec::c::make_magic(2);
  fusec::c::Magic magic = kMagic;
  fusec::Options compile;
  fusec::ImportOptions import;
  fusec::PackageOptions package;
  std::optional<fusec::SigningKey> sign;
};

struct fusec_model {
  static constexpr fusec::c::Magic kMagic = fusec::c::make_magic(3);
  fusec::c::Magic magic = kMagic;
  fusec::Model model;
};

struct fusec_builder {
  static constexpr fusec::c::Magic kMagic = fusec::c::make_magic(4);
  fusec::c::Magic magic = kMagic;
  fusec::GraphBuilder builder;
  std::vector<fusec::Var> values;  // all are valid
  std::set<std::string> outputs;   // their names
  bool failed = false;             // the builder has recorded a mistake
};

struct fusec_engine {
  static constexpr fusec::c::Magic kMagic = fusec::c::make_magic(5);
  explicit fusec_engine(fusec::Engine e) : engine(std::move(e)) {}
  fusec::c::Magic magic = kMagic;
  fusec::Engine engine;
};

struct fusec_session {
  static constexpr fusec::c::Magic kMagic = fusec::c::make_magic(6);
  explicit fusec_session(fusec::Session s) : session(std::move(s)) {}
  fusec::c::Magic magic = kMagic;
  fusec::Session session;
  std::vector<fusec::c::RawShapes> raw;
  uint64_t clock = 0;
  const fusec_session_pool* pool = nullptr;  // that it goes back to; null: the caller frees it
};

struct fusec_session_pool {
  static constexpr fusec::c::Magic kMagic = fusec::c::make_magic(7);
  fusec_session_pool(fusec::Engine e, size_t size) : engine(std::move(e)), sessions(size) {}
  fusec::c::Magic magic = kMagic;
  fusec::Engine engine;
  fusec::runtime::Lending<fusec_session> sessions;
};
