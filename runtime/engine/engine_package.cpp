// SPDX-License-Identifier: Apache-2.0
// Writes a package: runs the stages up to emit once for each target, stores equal constants once, and publishes the
// file by a rename after it is synced. It does not link, so this machine need not be able to run any of the targets.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "fusec/package.h"
#include "ir/support/check.h"
#include "ir/support/temporary_files.h"
#include "ir/text/program_text.h"
#include "runtime/cache/artifact.h"
#include "runtime/device/device.h"
#include "runtime/device/host/detect.h"
#include "runtime/engine/engine.h"
#include "runtime/package/format.h"
#include "runtime/package/package.h"

namespace fusec::runtime {
namespace {

constexpr const char* kProducer = "fusec 0.1.0";
constexpr int kUsualThreads = 8;  // of the machine that a CPU's code will run on; only hints to caches depend on it

Result<Target> target_to_package(const std::string& name, const Options& options) {
  if (name == "cpu:native" || name == "native") return host_target({});
  FUSEC_ASSIGN(Target target, named_target(name));
  if (target.kind == TargetKind::cpu) target.threads = options.threads > 0 ? options.threads : kUsualThreads;
  return target;
}

// The constants of all targets. Equal constants are stored once.
class ConstantPool {
 public:
  int64_t add(const Tensor& constant) {
    const Bytes bytes(static_cast<const std::byte*>(constant.data()), constant.bytes());
    const auto [at, fresh] = offsets_.emplace(ir::sha256(bytes), static_cast<int64_t>(pool_.size()));
    if (fresh) {
      pool_.insert(pool_.end(), bytes.begin(), bytes.end());
      pool_.resize((pool_.size() + kPackageAlignment - 1) / kPackageAlignment * kPackageAlignment);
    }
    return at->second;
  }
  std::vector<std::byte> take() { return std::move(pool_); }

 private:
  std::map<ir::Sha256Digest, int64_t> offsets_;
  std::vector<std::byte> pool_;
};

std::vector<std::byte> bytes_of_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

// Entries are stored without their cache keys, because packages are not searched by key.
std::vector<std::byte> code_section(const Artifacts& artifacts) {
  std::vector<std::byte> out;
  for (const auto& [id, artifact] : artifacts) {
    codegen::Artifact unnamed = *artifact;
    unnamed.key.clear();
    const std::vector<uint8_t> entry = encode_entry(unnamed);
    const uint64_t length = entry.size();
    const auto head = std::as_bytes(std::span(&length, 1)), body = std::as_bytes(std::span(entry));
    out.insert(out.end(), head.begin(), head.end());
    out.insert(out.end(), body.begin(), body.end());
  }
  return out;
}

Status cannot_write(const std::string& what) {
  return Status(StatusCode::invalid_argument, what + ": " + std::strerror(errno));
}

// Writes to a temporary name in the same folder, syncs the file, and renames it.
Status write_file(const std::string& path, const std::vector<std::byte>& head,
                  const std::vector<NewSection>& sections) {
  const std::string temporary = fmt::format("{}.tmp{}", path, getpid());
  const ir::TemporaryFile noted(AT_FDCWD, temporary);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return cannot_write("it cannot be written");
  Status status;
  const auto put = [&](const std::vector<std::byte>& bytes) {
    for (std::size_t done = 0; done < bytes.size() && status.ok();) {
      const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) status = cannot_write("it cannot be written");
      done += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
  };
  put(head);
  for (const NewSection& section : sections) put(section.bytes);
  if (status.ok() && fsync(fd) != 0) status = cannot_write("it cannot be written");
  if (close(fd) != 0 && status.ok()) status = cannot_write("it cannot be written");
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) status = cannot_write("it cannot be renamed");
  if (!status.ok()) (void)unlink(temporary.c_str());
  return status;
}

Manifest manifest_for(const Model& model, const Options& options) {
  Manifest m;
  m.producer = kProducer;
  m.numerics = options.numerics;
  m.precision = options.precision;
  m.tf32 = options.tf32;
  m.batch_invariant = options.batch_invariant;
  m.use_library = options.use_library;
  m.model = model;
  m.model.graph = nullptr;
  return m;
}

// What a package is made of while targets are added.
struct Content {
  Manifest manifest;
  ConstantPool pool;
  std::vector<NewSection> sections;
  std::vector<EngineStats> stats;  // by target of the manifest
};

bool has_tile_products(const ir::Program& program) {
  const std::vector<ir::KernelId> picked = picked_kernels(program);
  return std::any_of(picked.begin(), picked.end(),
                     [&](ir::KernelId id) { return ir::has_tile_product(program.kernels[id].body); });
}

// Code with products of tiles runs on one architecture alone. It gets the name that ptxas has for such code, and the
// same target without them stands beside it for later GPUs.
Status add_target(const Model& model, Target target, const Options& options, Content& to) {
  FUSEC_ASSIGN(Parts parts, compile_parts(model, options, target, KernelSet::picked));
  const bool only_here = has_tile_products(parts.program);
  PackagedTarget packaged{target, {}};
  packaged.target.has_tile_products = only_here;
  if (only_here) packaged.target.name += "a";
  for (const Tensor& constant : parts.program.constants) {
    packaged.constants.push_back({constant.dtype(), constant.shape(), to.pool.add(constant)});
  }
  const auto number = static_cast<uint32_t>(to.manifest.targets.size());
  to.manifest.targets.push_back(std::move(packaged));
  to.sections.push_back({SectionKind::program, number, bytes_of_text(ir::print(parts.program))});
  to.sections.push_back({SectionKind::code, number, code_section(parts.artifacts)});
  to.stats.push_back(std::move(parts.stats));
  if (!only_here) return {};
  target.has_tile_products = false;
  return add_target(model, std::move(target), options, to);
}

// The parts of a package, in order.
struct Written {
  std::vector<std::byte> head;
  std::vector<NewSection> sections;
  std::vector<EngineStats> stats;
};

Result<Written> make_parts(const Model& model, std::span<const std::string> names, const Options& options,
                           const std::optional<SigningKey>& sign) {
  if (sign && !can_sign()) return sign_digest({}, *sign).status();
  if (names.empty()) return Status(StatusCode::invalid_argument, "a package needs at least one target");
  std::vector<Target> targets;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    FUSEC_ASSIGN(Target target, target_to_package(name, options));
    if (!seen.insert(target.name).second) {
      return Status(StatusCode::invalid_argument, "target " + target.name + " is named twice");
    }
    targets.push_back(std::move(target));
  }
  Content content{manifest_for(model, options), {}, std::vector<NewSection>(1), {}};
  for (const Target& target : targets) {
    Status added = add_target(model, target, options, content);
    if (!added.ok()) return std::move(added).with_note("while compiling for " + target.name);
  }
  content.sections.front().bytes = bytes_of_text(print_manifest(content.manifest));
  content.sections.push_back({SectionKind::constants, 0, content.pool.take()});
  std::vector<std::byte> head = package_head(content.sections, host_threads({}));
  if (sign) FUSEC_TRY(sign_head(head, *sign));
  return Written{std::move(head), std::move(content.sections), std::move(content.stats)};
}

Result<std::vector<EngineStats>> write(const Model& model, std::span<const std::string> names, const std::string& path,
                                       const Options& options, const std::optional<SigningKey>& sign) {
  if (!path.ends_with(".fsc")) return Status(StatusCode::invalid_argument, "the name of a package must end in .fsc");
  FUSEC_ASSIGN(Written written, make_parts(model, names, options, sign));
  FUSEC_TRY(write_file(path, written.head, written.sections));
  return std::move(written.stats);
}

Result<std::vector<std::byte>> join(const Model& model, std::span<const std::string> names, const Options& options,
                                    const std::optional<SigningKey>& sign) {
  FUSEC_ASSIGN(Written written, make_parts(model, names, options, sign));
  std::vector<std::byte> bytes = std::move(written.head);
  for (const NewSection& section : written.sections)
    bytes.insert(bytes.end(), section.bytes.begin(), section.bytes.end());
  return bytes;
}

}  // namespace

Result<std::vector<EngineStats>> compile_shard(const Model& model, std::span<const std::string> targets,
                                               const Options& options, KernelShard& shard) noexcept {
  return ir::guarded([&]() -> Result<std::vector<EngineStats>> {
    std::vector<EngineStats> stats;
    if (targets.empty()) {
      FUSEC_ASSIGN(const Machine machine, open_machine(options));
      FUSEC_ASSIGN(Parts parts, compile_parts(model, options, machine.target, KernelSet::picked, &machine, &shard));
      stats.push_back(std::move(parts.stats));
    }
    for (const std::string& name : targets) {
      FUSEC_ASSIGN(Target target, target_to_package(name, options));
      for (bool again = true; again; target.has_tile_products = false) {  // as add_target
        FUSEC_ASSIGN(Parts parts, compile_parts(model, options, target, KernelSet::picked, nullptr, &shard));
        again = has_tile_products(parts.program);
        stats.push_back(std::move(parts.stats));
      }
    }
    return stats;
  });
}

Result<std::vector<EngineStats>> write_package(const Model& model, std::span<const std::string> targets,
                                               const std::string& path, const Options& options,
                                               const std::optional<SigningKey>& sign) noexcept {
  return ir::guarded_with_note([&] { return write(model, targets, path, options, sign); },
                               [&] { return fmt::format("while writing package '{}'", path); });
}

}  // namespace fusec::runtime

namespace fusec {

Status write_package(const Model& model, std::span<const std::string> targets, const std::string& path,
                     const Options& options, const std::optional<SigningKey>& sign) noexcept {
  return runtime::write_package(model, targets, path, options, sign).status();
}

Result<std::vector<std::byte>> package_bytes(const Model& model, std::span<const std::string> targets,
                                             const Options& options, const std::optional<SigningKey>& sign) noexcept {
  return ir::guarded_with_note([&] { return runtime::join(model, targets, options, sign); },
                               [] { return "while writing a package in memory"; });
}

}  // namespace fusec
