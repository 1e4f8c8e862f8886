// SPDX-License-Identifier: Apache-2.0
// Opens a package: checks trust, signature and digests, then parses the manifest, and later yields the Program and
// artifacts of one target to load. Constants are used in place in the package's memory.

#include "runtime/package/package.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>

#include "ir/support/check.h"
#include "ir/text/program_text.h"
#include "runtime/cache/artifact.h"
#include "runtime/device/host/detect.h"

namespace fusec::runtime {
namespace {

constexpr const char* kMisnamedPackage =
    "it begins as a package, which is a program, but its name does not end in .fsc: rename it if you trust it";

Status broken_package(std::string why) { return Status(StatusCode::invalid_model, std::move(why)); }
Status not_opened(std::string why) { return Status(StatusCode::invalid_argument, std::move(why)); }

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// One manifest, one pool of constants, a program and code for each target.
Status check_sections(const std::vector<Section>& sections, std::size_t targets) {
  const auto count = [&](SectionKind kind, uint32_t target) {
    return std::count_if(sections.begin(), sections.end(),
                         [&](const Section& s) { return s.kind == kind && s.target == target; });
  };
  bool whole = count(SectionKind::manifest, 0) == 1 && count(SectionKind::constants, 0) == 1 &&
               sections.size() == 2 + 2 * targets;
  for (uint32_t t = 0; t < targets; ++t) {
    whole = whole && count(SectionKind::program, t) == 1 && count(SectionKind::code, t) == 1;
  }
  return whole ? Status() : broken_package("its sections are not those of its targets");
}

PackageInfo make_info(const Manifest& manifest, const std::vector<Section>& sections, std::size_t bytes) {
  PackageInfo info;
  info.producer = manifest.producer;
  info.numerics = manifest.numerics;
  info.precision = manifest.precision;
  info.tf32 = manifest.tf32;
  info.batch_invariant = manifest.batch_invariant;
  info.file_bytes = static_cast<int64_t>(bytes);
  for (const PackagedTarget& t : manifest.targets) info.targets.push_back(t.target.name);
  for (const Section& s : sections) {
    const bool of_target = s.kind == SectionKind::program || s.kind == SectionKind::code;
    const std::string name = to_string(s.kind) + (of_target ? " " + info.targets[s.target] : std::string());
    info.sections.push_back({name, s.offset, static_cast<int64_t>(s.bytes.size()), ir::to_hex(s.digest)});
  }
  return info;
}

// A signature that does not match the digest means that the file is damaged. The caller decides which key to trust.
Status check_signature(const PackageHead& head, const PackageOptions& options) {
  if (!options.verify_key)
    return head.signature && can_sign() ? verify_signature(head.digest, *head.signature) : Status();
  if (!can_sign()) return verify_signature(head.digest, {});
  if (!head.signature)
    return not_opened("it is not signed, and there is a key that must have signed it: fusec compile --sign KEY signs");
  if (head.signature->key != *options.verify_key) {
    return not_opened(fmt::format("it is signed by the key {}, not by {}", ir::to_hex(head.signature->key.bytes),
                                  ir::to_hex(options.verify_key->bytes)));
  }
  return verify_signature(head.digest, *head.signature);
}

using Fetch = std::function<int(std::size_t, std::size_t)>;

// Makes a Package from memory of the file's size. The head is present already; `fetch` reads the rest.
Result<Package> make_package(OwnedBytes memory, const PackageOptions& options, const std::string& path,
                             const Fetch& fetch) {
  const auto start = std::chrono::steady_clock::now();
  auto state = std::make_shared<PackageState>();
  state->path = path;
  FUSEC_ASSIGN(PackageHead head, read_package_head(memory.bytes));
  FUSEC_TRY(check_signature(head, options));
  FUSEC_TRY(check_digests(head, memory.bytes, host_threads({}), fetch));
  make_read_only(memory);
  state->sections = std::move(head.sections);
  const auto manifest = std::find_if(state->sections.begin(), state->sections.end(),
                                     [](const Section& s) { return s.kind == SectionKind::manifest; });
  if (manifest == state->sections.end()) return broken_package("it has no manifest");
  FUSEC_ASSIGN(state->manifest, parse_manifest(text_of(manifest->bytes)));
  FUSEC_TRY(check_sections(state->sections, state->manifest.targets.size()));
  state->info = make_info(state->manifest, state->sections, memory.bytes.size());
  if (head.signature) state->info.signed_by = ir::to_hex(head.signature->key.bytes);
  state->info.verify_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  state->memory = std::move(memory);
  return Package(std::shared_ptr<const PackageState>(std::move(state)));
}

Status cannot_read(int fault) {
  if (fault < 0) return broken_package("it was cut short while it was read");
  return not_opened(std::string("it cannot be read: ") + std::strerror(fault));
}

Result<Package> open_package(const std::string& path, const PackageOptions& options) {
  FUSEC_ASSIGN(const OpenFile file, OpenFile::open(path));
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return broken_package("it is empty");
  std::array<std::byte, kPackageHeader> header{};
  if (const int fault = file.read(0, header.data(), std::min(size, header.size())); fault != 0)
    return cannot_read(fault);
  if (begins_as_package(header) && !path.ends_with(".fsc")) return not_opened(kMisnamedPackage);
  if (!options.trust && !options.verify_key) FUSEC_TRY(file.check_trust());
  FUSEC_ASSIGN(const std::size_t head, package_head_bytes(header, file.size()));
  FUSEC_ASSIGN(OwnedBytes memory, allocate_bytes(size));
  std::byte* const to = memory.bytes.data();
  if (const int fault = file.read(0, to, head); fault != 0) return cannot_read(fault);
  return make_package(std::move(memory), options, path,
                      [&](std::size_t offset, std::size_t bytes) { return file.read(offset, to + offset, bytes); });
}

// A constant as a Tensor that keeps the package's memory.
Result<Tensor> packaged_constant(const PackageState& package, const PackagedConstant& c) {
  const Bytes pool = package.section(SectionKind::constants, 0);
  int64_t elements = 1;
  for (const int64_t extent : c.shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements))
      return broken_package("a constant has no size");
  }
  int64_t bytes = 0;
  const bool sized = !__builtin_mul_overflow(elements, static_cast<int64_t>(size_of(c.dtype)), &bytes);
  const auto end = static_cast<int64_t>(pool.size());
  if (!sized || c.offset < 0 || c.offset > end || bytes > end - c.offset || c.offset % kPackageAlignment != 0) {
    return broken_package("a constant lies outside of its section");
  }
  auto* const data = const_cast<std::byte*>(pool.data()) + c.offset;  // read only: nothing writes constants
  return Tensor::share(c.dtype, c.shape, data, package.memory.owner);
}

}  // namespace

Result<Package> package_of_bytes(Bytes file, const PackageOptions& options) {
  if (file.size() < kPackageHeader) return broken_package("it is too short for a package");
  FUSEC_TRY(package_head_bytes(file.first<kPackageHeader>(), static_cast<int64_t>(file.size())).status());
  FUSEC_ASSIGN(OwnedBytes memory, allocate_bytes(file.size()));
  std::memcpy(memory.bytes.data(), file.data(), file.size());
  return make_package(std::move(memory), options, "bytes in memory", {});
}

Bytes PackageState::section(SectionKind kind, uint32_t target) const {
  const auto at = std::find_if(sections.begin(), sections.end(),
                               [&](const Section& s) { return s.kind == kind && s.target == target; });
  FUSEC_CHECK(at != sections.end()) << "a package without its " << to_string(kind);
  return at->bytes;
}

Result<ir::Program> packaged_program(const PackageState& package, uint32_t target) {
  FUSEC_ASSIGN(ir::Program program, ir::parse_program(text_of(package.section(SectionKind::program, target))));
  for (const PackagedConstant& c : package.manifest.targets[target].constants) {
    FUSEC_ASSIGN(Tensor constant, packaged_constant(package, c));
    program.constants.push_back(std::move(constant));
  }
  for (uint32_t i = 0; i < program.allocs.size(); ++i) {
    const ir::Allocation& a = program.allocs[ir::AllocId{i}];
    if (a.kind != ir::AllocKind::constant) continue;
    int64_t bytes = 0;
    const bool sized = a.elements.is_const() &&
                       !__builtin_mul_overflow(a.elements.value(), static_cast<int64_t>(size_of(a.dtype)), &bytes);
    const bool fits = sized && a.ordinal < program.constants.size() &&
                      bytes <= static_cast<int64_t>(program.constants[a.ordinal].bytes());
    if (!fits) return broken_package(fmt::format("constant {} of its program is not there", a.ordinal));
  }
  for (const ir::Slot& slot : program.slots) {
    for (const ir::Variant& v : slot.variants) {
      const bool picks = v.picked >= 0 && static_cast<std::size_t>(v.picked) < v.candidates.size();
      if (!picks) return broken_package("a step of its program has no candidate picked");
    }
  }
  return program;
}

Result<Artifacts> packaged_artifacts(const PackageState& package, uint32_t target, const ir::Program& program) {
  Bytes rest = package.section(SectionKind::code, target);
  Artifacts artifacts;
  for (const ir::KernelId id : picked_kernels(program)) {
    uint64_t length = 0;
    if (rest.size() < sizeof(length)) return broken_package("code of a kernel is missing");
    std::memcpy(&length, rest.data(), sizeof(length));
    rest = rest.subspan(sizeof(length));
    if (length > rest.size()) return broken_package("code of a kernel is missing");
    const Bytes entry = rest.first(length);
    std::optional<codegen::Artifact> artifact =
        decode_entry({reinterpret_cast<const uint8_t*>(entry.data()), entry.size()});
    if (!artifact) return broken_package("code of a kernel cannot be read");
    artifacts[id] = std::make_shared<codegen::Artifact>(*std::move(artifact));
    rest = rest.subspan(length);
  }
  if (!rest.empty()) return broken_package("it has code of more kernels than its program");
  return artifacts;
}

}  // namespace fusec::runtime

namespace fusec {

Result<Package> Package::open(const std::string& path, const PackageOptions& options) noexcept {
  return ir::guarded_with_note([&] { return runtime::open_package(path, options); },
                               [&] { return fmt::format("while opening package '{}'", path); });
}

Result<Package> Package::read(std::span<const std::byte> bytes, const PackageOptions& options) noexcept {
  return ir::guarded_with_note(
      [&]() -> Result<Package> {
        if (!options.trust && !options.verify_key) {
          return Status(StatusCode::invalid_argument,
                        "a package is a program, and nothing tells whose bytes in memory are: set trust if you trust "
                        "where they come from, or verify_key to have their signature checked");
        }
        return runtime::package_of_bytes(bytes, options);
      },
      [] { return "while opening a package in memory"; });
}

const PackageInfo& Package::info() const { return state_->info; }
const Model& Package::model() const { return state_->manifest.model; }

bool is_package(const std::string& path) noexcept {
  const Result<bool> answer = ir::guarded([&]() -> Result<bool> {
    FUSEC_ASSIGN(const runtime::OpenFile file, runtime::OpenFile::open(path));
    std::array<std::byte, 8> begin{};
    return file.read(0, begin.data(), begin.size()) == 0 && runtime::begins_as_package(begin);
  });
  return answer.ok() && *answer;
}

}  // namespace fusec
