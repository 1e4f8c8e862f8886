// SPDX-License-Identifier: Apache-2.0
// A library opened at run time, so that one binary runs with and without it.
#pragma once

#include <string>

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

// Looks up a library's functions by name and stores them in the fields of a table.
class FunctionsOf {
 public:
  explicit FunctionsOf(const SharedLibrary& library) : library_(library) {}

  template <class F>
  FunctionsOf& need(const char* name, F*& function) {
    if (!want(name, function)) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    return *this;
  }
  // Null if there is no such function.
  template <class F>
  bool want(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(library_.symbol(name));
    return function != nullptr;
  }
  // unsupported if a needed function is missing: "<path> lacks <names>: <hint>".
  Status status(const std::string& hint) const;

 private:
  const SharedLibrary& library_;
  std::string missing_;
};

}  // namespace fusec
