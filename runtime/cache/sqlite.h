// SPDX-License-Identifier: Apache-2.0
// SQLite's handles, owned. Included in this folder only.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "fusec/status.h"

namespace fusec::runtime::sqlite {

// A statement in use; reset to be run again.
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  void bind(int at, int64_t value) { sqlite3_bind_int64(statement_.get(), at, value); }
  void bind(int at, double value) { sqlite3_bind_double(statement_.get(), at, value); }
  void bind(int at, const std::string& text) {
    sqlite3_bind_text(statement_.get(), at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  int step() { return sqlite3_step(statement_.get()); }
  void reset() { sqlite3_reset(statement_.get()); }

  int64_t integer(int column) { return sqlite3_column_int64(statement_.get(), column); }
  double real(int column) { return sqlite3_column_double(statement_.get(), column); }
  std::string text(int column) {
    const auto* const bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    if (bytes == nullptr) return {};
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Connection {
 public:
  // flags: SQLITE_OPEN_*. The file is not touched yet. What a stranger's file could make SQLite do is switched off.
  static Result<Connection> open(const std::string& path, int flags);

  Result<Statement> prepare(const char* sql) const;
  Status run(const char* sql) const;
  // The first column of the first row; empty when there is no row.
  Result<std::string> value(const char* sql) const;
  // The error of the last call.
  Status fault(const std::string& what) const;
  // Whether the last error says that the file is damaged or no database.
  bool is_damaged() const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace fusec::runtime::sqlite
