// SPDX-License-Identifier: Apache-2.0
// The text of a graph, kernel or program, by its first word. What parses and verifies is printed to text that parses
// again and prints the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/text/graph_text.h"
#include "ir/text/kernel_text.h"
#include "ir/text/program_text.h"
#include "ir/verify/graph.h"
#include "ir/verify/kernel.h"
#include "tests/libfuzzer/fail.h"
#include "tests/libfuzzer/text_mutator.h"

namespace fusec {
namespace {

void check_graph(std::string_view text) {
  const Result<ir::Graph> graph = ir::parse_graph(text);
  if (!graph.ok() || !ir::verify(*graph, ir::GraphForm::imported).ok()) return;
  const std::string printed = ir::print(*graph);
  const Result<ir::Graph> again = ir::parse_graph(printed, ir::constant_table(*graph));
  if (!again.ok()) libfuzzer::fail(again.status().str() + "\n" + printed);
  if (ir::print(*again) != printed) libfuzzer::fail("prints otherwise:\n" + printed);
}

void check_kernel(std::string_view text) {
  const Result<ir::Kernel> kernel = ir::parse_kernel(text);
  if (!kernel.ok()) return;
  const std::string printed = ir::print(*kernel);
  const Result<ir::Kernel> again = ir::parse_kernel(printed);
  if (!again.ok()) libfuzzer::fail(again.status().str() + "\n" + printed);
  if (ir::print(*again) != printed) libfuzzer::fail("prints otherwise:\n" + printed);
}

void check_program(std::string_view text) {
  const Result<ir::Program> program = ir::parse_program(text);
  if (!program.ok()) return;
  const std::string printed = ir::print(*program);
  const Result<ir::Program> again = ir::parse_program(printed);
  if (!again.ok()) libfuzzer::fail(again.status().str() + "\n" + printed);
  if (ir::print(*again) != printed) libfuzzer::fail("prints otherwise:\n" + printed);
}

}  // namespace
}  // namespace fusec

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("kernel")) {
    fusec::check_kernel(text);
  } else if (text.starts_with("program")) {
    fusec::check_program(text);
  } else if (text.find("random") == std::string_view::npos) {  // a form for tests, of up to 1 GiB
    fusec::check_graph(text);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fusec::libfuzzer::mutate_text(data, size, max_size, seed);
}
