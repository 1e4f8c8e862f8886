// SPDX-License-Identifier: Apache-2.0
#include "tests/oom/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

namespace fusec::oom_test {
namespace {

// Of a file: begin of each function, relative to where it was loaded.
using Functions = std::map<uint64_t, std::string>;

template <class T>
T read_at(const std::vector<char>& file, std::size_t offset) {
  T value{};
  if (offset + sizeof(T) <= file.size()) std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

Functions read_functions(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> file((std::istreambuf_iterator<char>(stream)), {});
  Functions functions;
  const auto head = read_at<Elf64_Ehdr>(file, 0);
  for (std::size_t i = 0; i < head.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(file, head.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto names = read_at<Elf64_Shdr>(file, head.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
    for (std::size_t at = section.sh_offset; at + sizeof(Elf64_Sym) <= section.sh_offset + section.sh_size;
         at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(file, at);
      const std::size_t name = names.sh_offset + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0 || name >= file.size()) continue;
      functions.emplace(symbol.st_value, file.data() + name);
    }
  }
  return functions;
}

const void* load_base() {
  const void* base = nullptr;
  (void)dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<const void**>(out) = reinterpret_cast<const void*>(info->dlpi_addr);
        return 1;  // the first is the program
      },
      &base);
  return base;
}

}  // namespace

Place find_place(const void* address) {
  static std::map<std::string, Functions> files;
  static const void* const base = load_base();
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {"unknown", ""};
  const bool own = info.dli_fbase == base;
  const std::string path = own ? "/proc/self/exe" : info.dli_fname;
  const std::string module = own ? "program" : path.substr(path.rfind('/') + 1);
  if (info.dli_sname != nullptr) return {module, info.dli_sname};
  const auto [file, fresh] = files.try_emplace(path);
  if (fresh) file->second = read_functions(path);
  const auto offset =
      static_cast<uint64_t>(static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase));
  const auto it = file->second.upper_bound(offset);
  return {module, it == file->second.begin() ? "" : std::prev(it)->second};
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? text.get() : symbol;
}

}  // namespace fusec::oom_test
