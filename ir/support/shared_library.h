// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened at run time, so that one binary runs with and without them, and where NVIDIA's and fusec's
// own are found. None of NVIDIA's libraries is linked. A library stays open for the life of the process.
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec {

// Stays open for the life of the process, because a library's code and threads may still be in use.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  // Opens a file, or a name (without a slash) that the dynamic linker searches for. unsupported, with the linker's
  // message.
  static Result<SharedLibrary> open(const std::string& name);
  // The same, but only if the process has already loaded it.
  static Result<SharedLibrary> loaded(const std::string& name);

  void* handle() const { return handle_; }           // from dlopen
  const std::string& path() const { return path_; }  // of its file
  void* symbol(const char* name) const;              // null if there is no such symbol

 private:
  static Result<SharedLibrary> open(const std::string& name, int mode);

  void* handle_ = nullptr;
  std::string path_;
};

// The functions of a library are one list, LIST(NEED, WANT), of NEED(member, function) for each that it must have and
// WANT(member, function) for each that older versions lack. FUSEC_FUNCTION_TABLE(Table, LIST) makes a struct of it with
// a pointer per function, null until load_functions fills it. Lists are expanded as they are written, so that a
// function's name is looked up as it stands even where a header defines a macro of that name.
#define FUSEC_FUNCTION_MEMBER(member, function) decltype(&::function) member = nullptr;
#define FUSEC_FUNCTION_NEED(member, function) visit(#function, member, true);
#define FUSEC_FUNCTION_WANT(member, function) visit(#function, member, false);
#define FUSEC_FUNCTION_TABLE(Table, LIST)              \
  struct Table {                                       \
    LIST(FUSEC_FUNCTION_MEMBER, FUSEC_FUNCTION_MEMBER) \
    template <class Visit>                             \
    void for_each_function(const Visit& visit) {       \
      LIST(FUSEC_FUNCTION_NEED, FUSEC_FUNCTION_WANT)   \
    }                                                  \
  }

// unsupported if a needed function is missing: "<path> lacks <names>: <hint>".
template <class Table>
Result<Table> load_functions(const SharedLibrary& library, const std::string& hint) {
  Table table;
  std::string missing;
  table.for_each_function([&]<class F>(const char* name, F*& function, bool is_needed) {
    function = reinterpret_cast<F*>(library.symbol(name));
    if (function == nullptr && is_needed) missing += (missing.empty() ? "" : ", ") + std::string(name);
  });
  if (missing.empty()) return table;
  return Status(StatusCode::unsupported, library.path() + " lacks " + missing + ": " + hint);
}

struct NvidiaLibrary {
  const char* name;     // as in the file lib<name>.so.<version>
  int newest, oldest;   // the accepted versions
  const char* product;  // what to install to get it
};

inline constexpr NvidiaLibrary kNvrtc{"nvrtc", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kNvJitLink{"nvJitLink", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kCublasLt{"cublasLt", 13, 12, "the CUDA toolkit"};
inline constexpr NvidiaLibrary kCupti{"cupti", 13, 12, "CUPTI of the CUDA toolkit"};
inline constexpr NvidiaLibrary kCudnn{"cudnn", 9, 9, "cuDNN 9"};

// Opens the newest version in the first of these places that has one: $FUSEC_CUDA_HOME/lib64; what the process has
// loaded; the dynamic linker's own search; /usr/local/cuda/lib64; lib and lib64 of the packages nvidia/* of the
// python3s on PATH. A library named in $FUSEC_HIDE_LIBRARIES ("nvrtc,cudnn") is not found. unsupported: says what was
// looked for, where, and what to install.
Result<SharedLibrary> open_nvidia_library(const NvidiaLibrary& library);

struct OwnLibrary {
  const char* name;    // as in the file lib<name>.so.<version of fusec>
  const char* hidden;  // its name in $FUSEC_HIDE_LIBRARIES
};

// NVIDIA's PTX compiler, which the build makes a library of where a CUDA toolkit has its archive.
inline constexpr OwnLibrary kPtxCompiler{"fusec-ptx-compiler", "ptxCompiler"};

// Opens a library that is built and installed with fusec, but not linked, in the first of these places that has it: the
// folder of the file that holds this code; the libraries' folder, as seen from that of the programs; the dynamic
// linker's own search. Programs that run with elevated rights use the last place only. unsupported: says what was
// looked for and where.
Result<SharedLibrary> open_own_library(const OwnLibrary& library);

// The folders named `nvidia` in the site-packages of the Python whose program is `python`, even if it is a link into
// another installation or lies in a virtual environment. Python is not run.
std::vector<std::string> nvidia_packages(const std::string& python);

}  // namespace fusec
