// SPDX-License-Identifier: Apache-2.0
// Reads registers, stack and shared memory of each function from a cubin, during emit, and whether it waits for earlier
// launches. A cubin is an ELF file. Its
// section .nv.info is a list of records: a format byte, an attribute byte, and two bytes (the value itself or, for
// format 4, the size of a payload that follows). The records read here have the payload (index of the function's
// symbol, value). The bytes may come from a cache file, so every offset is checked.

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "codegen/ptx/ptx.h"

namespace fusec::codegen::cuda {
namespace {

constexpr uint8_t kWithPayload = 4;
constexpr uint8_t kFrameSize = 0x11, kRegisterCount = 0x2f;
constexpr int64_t kReserved = 1024;  // bytes of shared memory that the system reserves, if it does

class Elf {
 public:
  explicit Elf(std::span<const uint8_t> bytes) : bytes_(bytes) {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
    for (std::size_t i = 0; i < header->e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) break;
      sections_.push_back(*section);
    }
    names_ = header->e_shstrndx;
  }

  const Elf64_Shdr* section(std::string_view name) const {
    for (const Elf64_Shdr& s : sections_) {
      if (string(names_, s.sh_name) == name) return &s;
    }
    return nullptr;
  }
  std::span<const uint8_t> contents(const Elf64_Shdr& s) const {
    if (s.sh_offset > bytes_.size() || s.sh_size > bytes_.size() - s.sh_offset) return {};
    return bytes_.subspan(s.sh_offset, s.sh_size);
  }
  std::string_view symbol(uint32_t index) const {
    const Elf64_Shdr* table = section(".symtab");
    const auto entry = table != nullptr ? at<Elf64_Sym>(table->sh_offset + index * sizeof(Elf64_Sym)) : std::nullopt;
    return entry ? string(table->sh_link, entry->st_name) : "";
  }
  bool has_symbol(std::string_view name) const {
    const Elf64_Shdr* table = section(".symtab");
    for (uint32_t i = 0; table != nullptr && i < table->sh_size / sizeof(Elf64_Sym); ++i) {
      if (symbol(i) == name) return true;
    }
    return false;
  }

 private:
  template <class T>
  std::optional<T> at(uint64_t offset) const {
    T value;
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) return std::nullopt;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string_view string(std::size_t table, uint64_t offset) const {
    if (table >= sections_.size()) return "";
    const auto text = contents(sections_[table]);
    if (offset >= text.size()) return "";
    const auto* from = reinterpret_cast<const char*>(text.data()) + offset;
    return {from, strnlen(from, text.size() - offset)};
  }

  std::span<const uint8_t> bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::size_t names_ = 0;
};

template <class F>
void for_each_record(std::span<const uint8_t> info, const F& f) {
  while (info.size() >= 4) {
    const uint8_t format = info[0], attribute = info[1];
    const std::size_t size = format == kWithPayload ? info[2] + 256u * info[3] : 0;
    info = info.subspan(4);
    if (size > info.size()) return;
    if (size == 8) {
      uint32_t pair[2];
      std::memcpy(pair, info.data(), sizeof pair);
      f(attribute, pair[0], pair[1]);
    }
    info = info.subspan(size);
  }
}

// Whether machine code waits for earlier launches (griddepcontrol.wait) before any load and on every path. The writers
// put the wait first, but ptxas moves loads of memory that it takes for constant (ld.global.nc) in front of it.
// Instructions have 16 bytes. Their lowest 12 bits tell the kind, the lowest 9 of these whatever the operands are; so
// nvdisasm shows for sm_90 to sm_120.
bool waits_before_loads(std::span<const uint8_t> code) {
  constexpr unsigned kWait = 0x82e, kBranch = 0x947, kExit = 0x94d, kLoad = 0x180, kGlobalLoad = 0x181;
  for (; code.size() >= 16; code = code.subspan(16)) {
    const unsigned kind = (code[0] + 256u * code[1]) & 0xfff, family = kind & 0x1ff;
    if (kind == kWait) return true;
    if (kind == kBranch || kind == kExit || family == kLoad || family == kGlobalLoad) return false;
  }
  return false;
}

// Behind its last instruction, which is no NOP (0x918), a function is padded with NOPs.
int64_t count_instructions(std::span<const uint8_t> code) {
  constexpr unsigned kNop = 0x918;
  std::size_t count = code.size() / 16;
  for (; count > 0; --count) {
    const std::size_t at = 16 * (count - 1);
    if (((code[at] + 256u * code[at + 1]) & 0xfff) != kNop) break;
  }
  return static_cast<int64_t>(count);
}

}  // namespace

std::map<std::string, Resources> read_resources(const std::vector<uint8_t>& cubin) {
  const Elf elf(cubin);
  std::map<std::string, Resources> out;
  const Elf64_Shdr* info = elf.section(".nv.info");
  if (info == nullptr) return out;
  for_each_record(elf.contents(*info), [&](uint8_t attribute, uint32_t symbol, uint32_t value) {
    if (attribute == kRegisterCount) out[std::string(elf.symbol(symbol))].registers = static_cast<int>(value);
    if (attribute == kFrameSize) out[std::string(elf.symbol(symbol))].local_bytes = value;
  });
  const int64_t reserved = elf.has_symbol(".nv.reservedSmem.offset0") ? kReserved : 0;
  for (auto& [name, r] : out) {
    const Elf64_Shdr* shared = elf.section(".nv.shared." + name);
    if (shared != nullptr) r.shared_bytes = std::max<int64_t>(0, static_cast<int64_t>(shared->sh_size) - reserved);
    const Elf64_Shdr* code = elf.section(".text." + name);
    r.waits = code != nullptr && waits_before_loads(elf.contents(*code));
    if (code != nullptr) r.instructions = count_instructions(elf.contents(*code));
  }
  return out;
}

Status add_resources(const std::vector<uint8_t>& cubin, std::vector<ArtifactPhase>& phases) {
  const std::map<std::string, Resources> resources = read_resources(cubin);
  for (ArtifactPhase& phase : phases) {
    const auto used = resources.find(phase.entry);
    if (used == resources.end()) return Status(StatusCode::internal, "the cubin says nothing of " + phase.entry);
    phase.registers = used->second.registers;
    phase.local_bytes = used->second.local_bytes;
    phase.shared_bytes = used->second.shared_bytes;
    phase.waits = used->second.waits;
  }
  return {};
}

}  // namespace fusec::codegen::cuda
