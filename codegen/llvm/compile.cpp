// SPDX-License-Identifier: Apache-2.0
// Generates x86-64 machine code from an LLVM module for the given target, not for the machine it runs on, at the end of
// host emit. It copies the text and rodata sections of the ELF object into one image and applies its PC-relative
// relocations. The image must need no relocation at load time, so any other relocation is an error.

#include "codegen/llvm/compile.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Triple.h>

#include <cstring>
#include <limits>
#include <mutex>

#include "ir/support/check.h"

namespace fusec::codegen {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

}  // namespace

Result<std::unique_ptr<llvm::TargetMachine>> target_machine(const Target& target) {
  initialise();
  std::string error;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (!llvm_target) return Status(StatusCode::compile_failed, "LLVM has no x86-64 target: " + error);
  std::string features;
  for (const std::string& feature : target.features) features += (features.empty() ? "+" : ",+") + feature;
  llvm::TargetOptions options;
  std::unique_ptr<llvm::TargetMachine> machine(
      llvm_target->createTargetMachine(kTriple, target.triple_cpu, features, options, llvm::Reloc::PIC_,
                                       llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) return Status(StatusCode::compile_failed, "LLVM cannot compile for '" + target.triple_cpu + "'");
  return machine;
}

std::string print_to_text(const llvm::Module& module) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  module.print(stream, nullptr);
  return out;
}

Result<Image> compile(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  const bool written = write_file(module, machine, llvm::CodeGenFileType::ObjectFile, stream);
  FUSEC_CHECK(written) << "LLVM writes no objects for its x86-64";
  return flatten(std::string(object.begin(), object.end()));
}

namespace {

using Object = llvm::object::ELF64LEObjectFile;
using Section = llvm::object::SectionRef;

constexpr uint64_t kAlignment = 64;

Status broken(llvm::Error error) {
  return Status(StatusCode::compile_failed, "object: " + llvm::toString(std::move(error)));
}

bool is_kept(const Section& section, llvm::StringRef name) {
  return section.getSize() > 0 && (name.starts_with(".text") || name.starts_with(".rodata"));
}

class Flattener {
 public:
  explicit Flattener(const Object& object) : object_(object) {}

  Result<Image> run() {
    FUSEC_TRY(lay_out());
    for (const Section& section : object_.sections()) FUSEC_TRY(relocate_by(section));
    FUSEC_TRY(find_functions());
    return std::move(image_);
  }

 private:
  Status lay_out() {
    for (const Section& section : object_.sections()) {
      llvm::Expected<llvm::StringRef> name = section.getName();
      if (!name) return broken(name.takeError());
      if (!is_kept(section, *name)) continue;
      llvm::Expected<llvm::StringRef> contents = section.getContents();
      if (!contents) return broken(contents.takeError());
      if (section.getAlignment().value() > kAlignment) {
        return Status(StatusCode::compile_failed,
                      "object: section " + name->str() + " wants more than 64-byte alignment");
      }
      image_.bytes.resize((image_.bytes.size() + kAlignment - 1) / kAlignment * kAlignment, 0xcc);
      start_[section.getIndex()] = image_.bytes.size();
      image_.bytes.insert(image_.bytes.end(), contents->bytes_begin(), contents->bytes_end());
    }
    return {};
  }

  // `table` holds the relocations of another section.
  Status relocate_by(const Section& table) {
    llvm::Expected<llvm::object::section_iterator> target = table.getRelocatedSection();
    if (!target) return broken(target.takeError());
    if (*target == object_.section_end() || !start_.contains((*target)->getIndex())) return {};
    for (const llvm::object::RelocationRef& relocation : table.relocations()) {
      FUSEC_TRY(relocate(relocation, start_.at((*target)->getIndex())));
    }
    return {};
  }

  // Writes symbol + addend - place, in 32 or 64 bits.
  Status relocate(const llvm::object::RelocationRef& relocation, uint64_t section_start) {
    FUSEC_ASSIGN(const uint64_t symbol, symbol_offset(*relocation.getSymbol()));
    llvm::Expected<int64_t> addend = llvm::object::ELFRelocationRef(relocation).getAddend();
    if (!addend) return broken(addend.takeError());
    const uint64_t place = section_start + relocation.getOffset();
    const int64_t value = static_cast<int64_t>(symbol) + *addend - static_cast<int64_t>(place);
    const uint64_t type = relocation.getType();
    const std::size_t size = type == llvm::ELF::R_X86_64_PC64 ? 8 : 4;
    const bool known = size == 8 || type == llvm::ELF::R_X86_64_PC32 || type == llvm::ELF::R_X86_64_PLT32;
    const bool fits =
        size == 8 || (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max());
    if (!known || !fits || place + size > image_.bytes.size()) {
      return Status(StatusCode::compile_failed, "object: relocation of type " + std::to_string(type) + " is not known");
    }
    std::memcpy(image_.bytes.data() + place, &value, size);
    return {};
  }

  // The offset of a symbol in the image.
  Result<uint64_t> symbol_offset(const llvm::object::SymbolRef& symbol) {
    llvm::Expected<llvm::object::section_iterator> section = symbol.getSection();
    if (!section) return broken(section.takeError());
    if (*section == object_.section_end() || !start_.contains((*section)->getIndex())) {
      llvm::Expected<llvm::StringRef> name = symbol.getName();
      if (!name) return broken(name.takeError());
      return Status(StatusCode::compile_failed, "object: symbol '" + name->str() + "' is not defined in the kernel");
    }
    llvm::Expected<uint64_t> value = symbol.getValue();
    if (!value) return broken(value.takeError());
    return start_.at((*section)->getIndex()) + *value;
  }

  Status find_functions() {
    for (const llvm::object::SymbolRef& symbol : object_.symbols()) {
      llvm::Expected<llvm::object::SymbolRef::Type> type = symbol.getType();
      if (!type) return broken(type.takeError());
      if (*type != llvm::object::SymbolRef::ST_Function) continue;
      llvm::Expected<llvm::StringRef> name = symbol.getName();
      if (!name) return broken(name.takeError());
      FUSEC_ASSIGN(image_.functions[name->str()], symbol_offset(symbol));
    }
    return {};
  }

  const Object& object_;
  Image image_;
  std::map<uint64_t, uint64_t> start_;  // image offset by section index
};

}  // namespace

Result<Image> flatten(const std::string& object) {
  auto parsed = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!parsed) return broken(parsed.takeError());
  const auto* elf = llvm::dyn_cast<Object>(parsed->get());
  if (!elf) return Status(StatusCode::compile_failed, "object: not 64-bit little-endian ELF");
  return Flattener(*elf).run();
}

}  // namespace fusec::codegen
