// SPDX-License-Identifier: Apache-2.0
// Opens SQLite databases with triggers, views, untrusted schemas and memory mapping disabled, because the file may be
// malicious. Used by tuning.cpp only.

#include "runtime/cache/sqlite.h"

namespace fusec::runtime::sqlite {
namespace {

constexpr int kBusyMs = 2000;
constexpr int kLongestValue = 1 << 20;

}  // namespace

Result<Connection> Connection::open(const std::string& path, int flags) {
  Connection out;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  out.handle_.reset(handle);
  if (code != SQLITE_OK) return out.fault("cannot open '" + path + "'");
  sqlite3_busy_timeout(handle, kBusyMs);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  FUSEC_TRY(out.run("PRAGMA mmap_size=0"));
  FUSEC_TRY(out.run("PRAGMA cell_size_check=ON"));
  return out;
}

Result<Statement> Connection::prepare(const char* sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql, -1, &statement, nullptr);
  Statement out(statement);
  if (code != SQLITE_OK) return fault("SQLite refuses a statement");
  return out;
}

Status Connection::run(const char* sql) const {
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fault("SQLite failed");
}

Result<std::string> Connection::value(const char* sql) const {
  FUSEC_ASSIGN(Statement statement, prepare(sql));
  const int code = statement.step();
  if (code == SQLITE_ROW) return statement.text(0);
  if (code == SQLITE_DONE) return std::string();
  return fault("SQLite failed");
}

Status Connection::fault(const std::string& what) const {
  const char* const why = handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory";
  return Status(StatusCode::cache, what + ": " + why);
}

bool Connection::is_damaged() const {
  const int code = handle_ ? sqlite3_errcode(handle_.get()) & 0xff : SQLITE_OK;
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

}  // namespace fusec::runtime::sqlite
