// SPDX-License-Identifier: Apache-2.0
// An environment variable for the length of a test.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

namespace fusec::testing_support {

// Set while alive, then as before.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace fusec::testing_support
