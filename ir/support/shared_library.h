// SPDX-License-Identifier: Apache-2.0
// A library opened at run time, so that one binary runs with and without it.
#pragma once

#include <string>

#include "fusec/status.h"

namespace fusec {

// Stays open for the life of the process: code and threads of a library do not stand being unloaded.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  // A file, or a name (without a slash) that the dynamic linker looks for. unsupported, in the linker's words.
  static Result<SharedLibrary> open(const std::string& name);
  // The same, of what the process has loaded already.
  static Result<SharedLibrary> loaded(const std::string& name);

  void* handle() const { return handle_; }           // as dlopen gave it
  const std::string& path() const { return path_; }  // of its file
  void* symbol(const char* name) const;              // null when it has none of that name

 private:
  static Result<SharedLibrary> open(const std::string& name, int mode);

  void* handle_ = nullptr;
  std::string path_;
};

// A library's functions, taken by name into the fields of a table.
class FunctionsOf {
 public:
  explicit FunctionsOf(const SharedLibrary& library) : library_(library) {}

  template <class F>
  FunctionsOf& need(const char* name, F*& function) {
    if (!want(name, function)) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    return *this;
  }
  // Null where there is none.
  template <class F>
  bool want(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(library_.symbol(name));
    return function != nullptr;
  }
  // unsupported when one that is needed is missing: "<path> lacks <names>: <hint>".
  Status status(const std::string& hint) const;

 private:
  const SharedLibrary& library_;
  std::string missing_;
};

}  // namespace fusec
