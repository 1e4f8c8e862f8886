// SPDX-License-Identifier: Apache-2.0
#include "runtime/package/package.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "ir/support/check.h"
#include "ir/text/program_text.h"
#include "runtime/cache/entry.h"
#include "runtime/device/host/detect.h"
#include "ir/support/guard.h"

namespace fusec::runtime {
namespace {

Status broken_package(std::string why) { return Status(StatusCode::invalid_model, std::move(why)); }

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) (void)close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status no_file() { return Status(StatusCode::invalid_argument, std::string("it cannot be opened: ") + std::strerror(errno)); }

struct Mapping {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

Result<Mapping> map_file(const std::string& path) {
  const OpenFile file(path);
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return no_file();
  if (!S_ISREG(info.st_mode)) return Status(StatusCode::invalid_argument, "it is not a file");
  if (info.st_size == 0) return broken_package("it is empty");
  const auto size = static_cast<std::size_t>(info.st_size);
  void* const base = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.get(), 0);
  if (base == MAP_FAILED) return Status(StatusCode::out_of_memory, std::string("it cannot be mapped: ") + std::strerror(errno));
  std::shared_ptr<const void> owner(base, [size](const void* p) { (void)munmap(const_cast<void*>(p), size); });
  return Mapping{Bytes(static_cast<const std::byte*>(base), size), std::move(owner)};
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// One manifest, one pool of constants, a program and code for each target.
Status check_sections(const std::vector<Section>& sections, std::size_t targets) {
  const auto count = [&](SectionKind kind, uint32_t target) {
    return std::count_if(sections.begin(), sections.end(),
                         [&](const Section& s) { return s.kind == kind && s.target == target; });
  };
  bool whole = count(SectionKind::manifest, 0) == 1 && count(SectionKind::constants, 0) == 1 && sections.size() == 2 + 2 * targets;
  for (uint32_t t = 0; t < targets; ++t) {
    whole = whole && count(SectionKind::program, t) == 1 && count(SectionKind::code, t) == 1;
  }
  return whole ? Status() : broken_package("its sections are not those of its targets");
}

PackageInfo info_of(const Manifest& manifest, const std::vector<Section>& sections, std::size_t bytes) {
  PackageInfo info;
  info.producer = manifest.producer;
  info.numerics = manifest.numerics;
  info.precision = manifest.precision;
  info.tf32 = manifest.tf32;
  info.file_bytes = static_cast<int64_t>(bytes);
  for (const PackagedTarget& t : manifest.targets) info.targets.push_back(t.target.name);
  for (const Section& s : sections) {
    const bool of_target = s.kind == SectionKind::program || s.kind == SectionKind::code;
    const std::string name = to_string(s.kind) + (of_target ? " " + info.targets[s.target] : std::string());
    info.sections.push_back({name, s.offset, static_cast<int64_t>(s.bytes.size()), ir::to_hex(s.digest)});
  }
  return info;
}

Result<Package> open_package(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  auto state = std::make_shared<PackageState>();
  state->path = path;
  FUSEC_ASSIGN(Mapping mapping, map_file(path));
  FUSEC_ASSIGN(state->sections, package_sections(mapping.bytes, host_threads({})));
  state->mapping = std::move(mapping.owner);
  const auto manifest = std::find_if(state->sections.begin(), state->sections.end(),
                                     [](const Section& s) { return s.kind == SectionKind::manifest; });
  if (manifest == state->sections.end()) return broken_package("it has no manifest");
  FUSEC_ASSIGN(state->manifest, parse_manifest(text_of(manifest->bytes)));
  FUSEC_TRY(check_sections(state->sections, state->manifest.targets.size()));
  state->info = info_of(state->manifest, state->sections, mapping.bytes.size());
  state->info.verify_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return Package(std::shared_ptr<const PackageState>(std::move(state)));
}

// A constant as a Tensor that keeps the mapping.
Result<Tensor> packaged_constant(const PackageState& package, const PackagedConstant& c) {
  const Bytes pool = package.section(SectionKind::constants, 0);
  int64_t elements = 1;
  for (const int64_t extent : c.shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) return broken_package("a constant has no size");
  }
  int64_t bytes = 0;
  const bool sized = !__builtin_mul_overflow(elements, static_cast<int64_t>(size_of(c.dtype)), &bytes);
  const auto end = static_cast<int64_t>(pool.size());
  if (!sized || c.offset < 0 || c.offset > end || bytes > end - c.offset || c.offset % kPackageAlignment != 0) {
    return broken_package("a constant lies outside of its section");
  }
  auto* const data = const_cast<std::byte*>(pool.data()) + c.offset;  // read only: nothing writes constants
  return Tensor::share(c.dtype, c.shape, data, package.mapping);
}

}  // namespace

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
    const bool fits = a.ordinal < program.constants.size() && a.elements.is_const() &&
                      a.elements.value() * static_cast<int64_t>(size_of(a.dtype)) <=
                          static_cast<int64_t>(program.constants[a.ordinal].bytes());
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
    std::optional<codegen::Artifact> artifact = decode_entry({reinterpret_cast<const uint8_t*>(entry.data()), entry.size()});
    if (!artifact) return broken_package("code of a kernel cannot be read");
    artifacts[id] = std::make_shared<codegen::Artifact>(*std::move(artifact));
    rest = rest.subspan(length);
  }
  if (!rest.empty()) return broken_package("it has code of more kernels than its program");
  return artifacts;
}

}  // namespace fusec::runtime

namespace fusec {

Result<Package> Package::open(const std::string& path) noexcept {
  return ir::guarded_with_note([&] { return runtime::open_package(path); },
                               [&] { return fmt::format("while opening package '{}'", path); });
}

const PackageInfo& Package::info() const { return state_->info; }
const Model& Package::model() const { return state_->manifest.model; }

bool is_package(const std::string& path) noexcept {
  const runtime::OpenFile file(path);
  std::array<std::byte, 8> begin{};
  return file.get() >= 0 && read(file.get(), begin.data(), begin.size()) == 8 && runtime::begins_as_package(begin);
}

}  // namespace fusec
