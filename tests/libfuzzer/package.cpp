// SPDX-License-Identifier: Apache-2.0
// The bytes of a package (.fsc): opened, then the program and the code of each target. No code is run.
// Mutants are sealed again mostly, so that they come past the digests.
#include "runtime/package/package.h"

#include <cstring>
#include <span>

#include "tests/libfuzzer/fail.h"
#include "tests/libfuzzer/text_mutator.h"

namespace {

using namespace fusec;
using namespace fusec::runtime;

void check(const Status& status) {
  if (status.code() == StatusCode::internal || status.code() == StatusCode::out_of_memory)
    libfuzzer::fail(status.str());
}

std::vector<NewSection> make_copy(const std::vector<Section>& sections) {
  std::vector<NewSection> copies;
  for (const Section& s : sections) copies.push_back({s.kind, s.target, {s.bytes.begin(), s.bytes.end()}});
  return copies;
}

void mutate(NewSection& section, unsigned seed) {
  const size_t size = section.bytes.size();
  section.bytes.resize(size + 1024);
  auto* const data = reinterpret_cast<uint8_t*>(section.bytes.data());
  const bool is_text = section.kind == SectionKind::manifest || section.kind == SectionKind::program;
  section.bytes.resize(is_text ? libfuzzer::mutate_text(data, size, size + 1024, seed)
                               : LLVMFuzzerMutate(data, size, size + 1024));
}

// The package with one section changed; empty where the bytes are none.
std::vector<std::byte> resealed(Bytes file, unsigned seed) {
  const Result<std::vector<Section>> sections = package_sections(file, 1);
  if (!sections.ok() || sections->empty()) return {};
  std::vector<NewSection> copies = make_copy(*sections);
  mutate(copies[seed % copies.size()], seed / 8);
  std::vector<std::byte> out = package_head(copies, 1);
  for (const NewSection& s : copies) out.insert(out.end(), s.bytes.begin(), s.bytes.end());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<Package> package = package_of_bytes(std::as_bytes(std::span(data, size)), {});
  check(package.status());
  if (!package.ok()) return 0;
  const PackageState& state = *package->state();
  for (uint32_t target = 0; target < state.manifest.targets.size(); ++target) {
    const Result<ir::Program> program = packaged_program(state, target);
    check(program.status());
    if (program.ok()) check(packaged_artifacts(state, target, *program).status());
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::vector<std::byte> out = resealed(std::as_bytes(std::span(data, size)), seed);
  if (out.empty() || out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
