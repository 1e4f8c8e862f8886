// SPDX-License-Identifier: Apache-2.0
// The bytes of an ONNX model. Each ends in a Graph that verifies, or in a Status of one line that is not our fault.
#include "compiler/import/onnx/import.h"

#include <cstdint>
#include <string>

#include "ir/verify/graph.h"
#include "tests/libfuzzer/fail.h"
#include "tests/libfuzzer/model_mutator.h"

namespace {

// So small that no input takes long or much memory without a mistake of ours.
fusec::ImportOptions options() {
  fusec::ImportOptions options;
  options.limits.messages = 100'000;
  options.limits.nodes = 20'000;
  options.limits.function_calls = 1'000;
  options.limits.folded_bytes = 1 << 20;
  options.limits.folded_total_bytes = 16 << 20;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fusec::StatusCode;
  const fusec::Result<fusec::ir::Graph> graph = fusec::importer::import_onnx(std::span(data, size), options());
  const fusec::Status status = graph.ok() ? fusec::ir::verify(*graph, fusec::ir::GraphForm::imported) : graph.status();
  if (status.code() == StatusCode::internal || status.code() == StatusCode::out_of_memory)
    fusec::libfuzzer::fail(status.str());
  if (status.str().find('\n') != std::string::npos) fusec::libfuzzer::fail("more than one line: " + status.str());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fusec::libfuzzer::mutate_model(data, size, max_size, seed);
}
