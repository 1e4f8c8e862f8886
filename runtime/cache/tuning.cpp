// SPDX-License-Identifier: Apache-2.0
// Stores measured times of library algorithms in a SQLite file, which bind reads and the tuner writes. A file is
// accepted only if its schema equals ours exactly, and each row is checked when it is read.

#include "runtime/cache/tuning.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/cache/folder.h"
#include "runtime/cache/sqlite.h"

namespace fusec::runtime {
namespace {

using sqlite::Connection;
using sqlite::Statement;

constexpr char kFile[] = "tuning.v1.sqlite";
constexpr char kIsOurs[] = "1179861844";  // the application id: "FSCT"
constexpr char kMarkAsOurs[] = "PRAGMA application_id=1179861844; PRAGMA user_version=1";
constexpr char kSchema[] =
    "CREATE TABLE times(scope TEXT NOT NULL, call TEXT NOT NULL, library TEXT NOT NULL, choice TEXT NOT NULL, "
    "own INTEGER NOT NULL, listed INTEGER NOT NULL, median_us REAL NOT NULL, spread REAL NOT NULL, runs INTEGER NOT "
    "NULL, "
    "workspace INTEGER NOT NULL, failure TEXT NOT NULL, time INTEGER NOT NULL, "
    "PRIMARY KEY(scope, call, library, choice)) WITHOUT ROWID";
constexpr char kFigures[] =
    "CREATE TABLE figures(device TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, time INTEGER NOT NULL, "
    "PRIMARY KEY(device, name)) WITHOUT ROWID";
#define FUSEC_TUNING_COLUMNS \
  "scope, call, library, choice, own, listed, median_us, spread, runs, workspace, failure, time"
constexpr char kSelect[] = "SELECT " FUSEC_TUNING_COLUMNS " FROM times LIMIT 500000";
constexpr char kSelectScope[] = "SELECT " FUSEC_TUNING_COLUMNS " FROM times WHERE scope = ?1 LIMIT 500000";
#undef FUSEC_TUNING_COLUMNS
constexpr char kPut[] = "INSERT OR REPLACE INTO times VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

constexpr char kRemove[] = "DELETE FROM times WHERE scope = ?1 AND call = ?2 AND library = ?3 AND choice = ?4";

constexpr char kSelectFigures[] = "SELECT device, name, value, time FROM figures WHERE ?1 IN ('', device) LIMIT 100000";
constexpr char kPutFigure[] = "INSERT OR REPLACE INTO figures VALUES(?1, ?2, ?3, ?4)";

constexpr std::size_t kLongestKey = 8192, kLongestName = 1024;
constexpr double kLongestUs = 1e10, kLargestFigure = 1e12;
constexpr int64_t kMaxRuns = 1'000'000, kMaxBytes = int64_t{1} << 48;

// times_only: of an earlier version, which had no figures.
enum class Content { ours, times_only, empty, foreign, damaged };

// Classifies the file by its schema, which must equal ours exactly: no triggers, no views, nothing else. Must run in a
// transaction, so that concurrent changes of another process are seen completely or not at all.
Result<Content> content_within(const Connection& db) {
  const auto answer = [&](const Status& status) -> Result<Content> {
    if (db.is_damaged()) return Content::damaged;
    return status;
  };
  Result<std::string> id = db.value("PRAGMA application_id");
  if (!id.ok()) return answer(id.status());
  Result<std::string> things = db.value("SELECT count(*) FROM sqlite_schema");
  if (!things.ok()) return answer(things.status());
  if (*things == "0" && *id == "0") return Content::empty;
  Result<std::string> schema = db.value("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'times'");
  if (!schema.ok()) return answer(schema.status());
  Result<std::string> version = db.value("PRAGMA user_version");
  if (!version.ok()) return answer(version.status());
  Result<std::string> figures = db.value("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'figures'");
  if (!figures.ok()) return answer(figures.status());
  const bool has_figures = *figures == kFigures;
  if (*id != kIsOurs || *version != "1" || *things != (has_figures ? "2" : "1") || *schema != kSchema)
    return Content::foreign;
  Result<std::string> check = db.value("PRAGMA quick_check(1)");
  if (!check.ok()) return answer(check.status());
  if (*check != "ok") return Content::damaged;
  return has_figures ? Content::ours : Content::times_only;
}

Result<Content> read_content(const Connection& db) {
  FUSEC_TRY(db.run("BEGIN"));
  Result<Content> content = content_within(db);
  (void)db.run("ROLLBACK");  // nothing was written
  return content;
}

Status foreign(const std::string& path) {
  return Status(StatusCode::cache, "'" + path + "' is no tuning database of this version of fusec");
}
Status damaged(const std::string& path) {
  return Status(StatusCode::cache, "the tuning database '" + path + "' is damaged");
}

Status make_schema(const Connection& db) {
  FUSEC_TRY(db.run("BEGIN IMMEDIATE"));
  // Another process may have been first.
  Result<Content> content = content_within(db);
  Status status = content.status();
  const bool is_empty = content.ok() && *content == Content::empty;
  if (is_empty) status = db.run(kSchema);
  if (is_empty && status.ok()) status = db.run(kMarkAsOurs);
  if (status.ok() && *content != Content::ours) status = db.run(kFigures);
  if (status.ok()) return db.run("COMMIT");
  (void)db.run("ROLLBACK");
  return status;
}

// The folder of the file, made for the user alone where it is missing.
Status make_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return {};
  const std::string folder = path.substr(0, slash);
  struct stat info;
  if (stat(folder.c_str(), &info) == 0) return {};
  return Folder::open(folder).status();
}

// Checks the database and all files that SQLite reads beside it. The last one is the journal, from which SQLite rolls
// back the transaction of a killed process.
Status check_files(const std::string& path) {
  for (const char* end : {"", "-wal", "-shm", "-journal"}) FUSEC_TRY(check_file(path + end));
  return {};
}

// Creates the file with mode 0600. SQLite would apply the umask, and would open a file that another user has just
// created.
void make_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file >= 0) (void)close(file);
}

TuningRow read_row(Statement& s) {
  return {s.text(0), s.text(1), s.text(2),    s.text(3),    s.integer(4) != 0, s.integer(5),
          s.real(6), s.real(7), s.integer(8), s.integer(9), s.text(10),        s.integer(11)};
}

bool is_better(const TuningRow& a, const TuningRow& b) {
  return std::make_tuple(!a.failed(), a.runs, a.time) > std::make_tuple(!b.failed(), b.runs, b.time);
}

}  // namespace

bool is_sound(const TuningRow& row) {
  const bool texts = !row.scope.empty() && row.scope.size() <= kLongestKey && !row.call.empty() &&
                     row.call.size() <= kLongestKey && !row.library.empty() && row.library.size() <= kLongestName &&
                     row.algorithm.size() <= kLongestName && row.failure.size() <= kLongestKey;
  const bool numbers = row.listed >= 0 && row.listed <= kMaxRuns && row.workspace >= 0 && row.workspace <= kMaxBytes &&
                       row.runs >= 0 && row.runs <= kMaxRuns && row.time >= 0;
  if (!texts || !numbers) return false;
  if (row.failed()) return row.median_us == 0;
  return std::isfinite(row.median_us) && row.median_us > 0 && row.median_us <= kLongestUs &&
         std::isfinite(row.spread) && row.spread >= 0 && row.runs > 0;
}

bool is_sound(const FigureRow& row) {
  const bool texts =
      !row.device.empty() && row.device.size() <= kLongestKey && !row.name.empty() && row.name.size() <= kLongestName;
  return texts && std::isfinite(row.value) && row.value > 0 && row.value <= kLargestFigure && row.time >= 0;
}

std::string tuning_path(const Options& options) {
  if (options.tuning_db) return *options.tuning_db;
  const std::string root = options.use_cache ? cache_root(options) : "";
  return root.empty() ? root : root + "/" + kFile;
}

std::string shared_tuning_path(const Options& options) {
  const std::string root = shared_cache_root(options);
  return root.empty() ? root : root + "/" + kFile;
}

struct TuningDatabase::Impl {
  Connection db;
  bool is_empty = false;  // a file that its writer has just made
  bool has_figures = true;
};

TuningDatabase::TuningDatabase(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TuningDatabase::~TuningDatabase() = default;

Result<std::unique_ptr<TuningDatabase>> TuningDatabase::open(const std::string& path, bool shared) {
  FUSEC_TRY(check_files(path));
  // The transaction of a killed process must be rolled back before anyone reads, which needs write access. Without it,
  // SQLite itself falls back to read-only access.
  FUSEC_ASSIGN(Connection db, Connection::open(path, shared ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE));
  FUSEC_ASSIGN(const Content content, read_content(db));
  if (content == Content::damaged) return damaged(path);
  if (content == Content::foreign) return foreign(path);
  return std::unique_ptr<TuningDatabase>(new TuningDatabase(
      std::make_unique<Impl>(Impl{std::move(db), content == Content::empty, content == Content::ours})));
}

Result<std::unique_ptr<TuningDatabase>> TuningDatabase::open_to_write(const std::string& path, const Warn& warn) {
  FUSEC_TRY(make_folder_of(path));
  for (const bool again : {false, true}) {
    make_file(path);
    FUSEC_TRY(check_files(path));
    FUSEC_ASSIGN(Connection db, Connection::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    FUSEC_ASSIGN(const Content content, read_content(db));
    if (content == Content::foreign) return foreign(path);
    if (content == Content::damaged) {
      const std::string aside = path + ".damaged";
      if (again || std::rename(path.c_str(), aside.c_str()) != 0) return damaged(path);
      (void)std::remove((path + "-journal").c_str());
      warn("the tuning database was damaged and is begun anew; the old one is '" + aside + "'");
      continue;
    }
    if (content != Content::ours) FUSEC_TRY(make_schema(db));
    // A write-ahead log is not used, because it needs shared memory, which network file systems lack.
    FUSEC_TRY(db.run("PRAGMA synchronous=NORMAL"));
    return std::unique_ptr<TuningDatabase>(
        new TuningDatabase(std::make_unique<Impl>(Impl{std::move(db), false, true})));
  }
  return damaged(path);
}

Result<std::vector<TuningRow>> TuningDatabase::rows(const std::string& scope, int64_t* skipped) const {
  if (impl_->is_empty) return std::vector<TuningRow>();
  FUSEC_ASSIGN(Statement select, impl_->db.prepare(scope.empty() ? kSelect : kSelectScope));
  if (!scope.empty()) select.bind(1, scope);
  std::vector<TuningRow> out;
  int code = SQLITE_ROW;
  while ((code = select.step()) == SQLITE_ROW) {
    TuningRow row = read_row(select);
    if (is_sound(row)) {
      out.push_back(std::move(row));
    } else if (skipped != nullptr) {
      ++*skipped;
    }
  }
  if (code != SQLITE_DONE) return impl_->db.fault("cannot read the tuning database");
  return out;
}

Status TuningDatabase::put(const TuningRow& row) {
  if (!is_sound(row)) return Status(StatusCode::cache, "a measurement that makes no sense is not stored");
  FUSEC_ASSIGN(Statement put, impl_->db.prepare(kPut));
  put.bind(1, row.scope), put.bind(2, row.call), put.bind(3, row.library), put.bind(4, row.algorithm);
  put.bind(5, int64_t{row.is_default}), put.bind(6, row.listed), put.bind(7, row.median_us), put.bind(8, row.spread);
  put.bind(9, row.runs), put.bind(10, row.workspace), put.bind(11, row.failure), put.bind(12, row.time);
  if (put.step() == SQLITE_DONE) return {};
  return impl_->db.fault("cannot write to the tuning database");
}

Status TuningDatabase::put(const std::vector<TuningRow>& rows) {
  FUSEC_TRY(impl_->db.run("BEGIN IMMEDIATE"));
  const Status status = [&]() -> Status {
    for (const TuningRow& row : rows) FUSEC_TRY(put(row));
    return impl_->db.run("COMMIT");
  }();
  if (!status.ok()) (void)impl_->db.run("ROLLBACK");
  return status;
}

Status TuningDatabase::remove(const std::vector<TuningRow>& rows) {
  FUSEC_TRY(impl_->db.run("BEGIN IMMEDIATE"));
  const Status status = [&]() -> Status {
    FUSEC_ASSIGN(Statement remove, impl_->db.prepare(kRemove));
    for (const TuningRow& row : rows) {
      remove.bind(1, row.scope), remove.bind(2, row.call), remove.bind(3, row.library), remove.bind(4, row.algorithm);
      if (remove.step() != SQLITE_DONE) return impl_->db.fault("cannot write to the tuning database");
      remove.reset();
    }
    return impl_->db.run("COMMIT");
  }();
  if (!status.ok()) (void)impl_->db.run("ROLLBACK");
  return status;
}

Result<std::vector<FigureRow>> TuningDatabase::figures(const std::string& device) const {
  if (impl_->is_empty || !impl_->has_figures) return std::vector<FigureRow>();
  FUSEC_ASSIGN(Statement select, impl_->db.prepare(kSelectFigures));
  select.bind(1, device);
  std::vector<FigureRow> out;
  int code = SQLITE_ROW;
  while ((code = select.step()) == SQLITE_ROW) {
    FigureRow row{select.text(0), select.text(1), select.real(2), select.integer(3)};
    if (is_sound(row)) out.push_back(std::move(row));
  }
  if (code != SQLITE_DONE) return impl_->db.fault("cannot read the tuning database");
  return out;
}

Status TuningDatabase::put(const std::vector<FigureRow>& rows) {
  FUSEC_TRY(impl_->db.run("BEGIN IMMEDIATE"));
  const Status status = [&]() -> Status {
    for (const FigureRow& row : rows) FUSEC_TRY(put_within(row));
    return impl_->db.run("COMMIT");
  }();
  if (!status.ok()) (void)impl_->db.run("ROLLBACK");
  return status;
}

Status TuningDatabase::put_within(const FigureRow& row) {
  if (!is_sound(row)) return Status(StatusCode::cache, "a figure that makes no sense is not stored: " + row.name);
  FUSEC_ASSIGN(Statement put, impl_->db.prepare(kPutFigure));
  put.bind(1, row.device), put.bind(2, row.name), put.bind(3, row.value), put.bind(4, row.time);
  if (put.step() == SQLITE_DONE) return {};
  return impl_->db.fault("cannot write to the tuning database");
}

// Within a transaction.
Result<int64_t> TuningDatabase::merge_figures(const TuningDatabase& other) {
  FUSEC_ASSIGN(const std::vector<FigureRow> theirs, other.figures({}));
  FUSEC_ASSIGN(const std::vector<FigureRow> ours, figures({}));
  std::map<std::pair<std::string, std::string>, int64_t> known;
  for (const FigureRow& row : ours) known[{row.device, row.name}] = row.time;
  int64_t taken = 0;
  for (const FigureRow& row : theirs) {
    const auto it = known.find({row.device, row.name});
    if (it != known.end() && it->second >= row.time) continue;
    FUSEC_TRY(put_within(row));
    ++taken;
  }
  return taken;
}

Result<int64_t> TuningDatabase::merge(const TuningDatabase& other) {
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  const auto key = [](const TuningRow& r) { return Key(r.scope, r.call, r.library, r.algorithm); };
  FUSEC_ASSIGN(const std::vector<TuningRow> theirs, other.rows({}));
  FUSEC_TRY(impl_->db.run("BEGIN IMMEDIATE"));
  int64_t taken = 0;
  const Status status = [&]() -> Status {
    FUSEC_ASSIGN(const std::vector<TuningRow> ours, rows({}));
    std::map<Key, const TuningRow*> known;
    for (const TuningRow& row : ours) known[key(row)] = &row;
    for (const TuningRow& row : theirs) {
      const auto it = known.find(key(row));
      if (it != known.end() && !is_better(row, *it->second)) continue;
      FUSEC_TRY(put(row));
      ++taken;
    }
    FUSEC_ASSIGN(const int64_t figures, merge_figures(other));
    taken += figures;
    return impl_->db.run("COMMIT");
  }();
  if (status.ok()) return taken;
  (void)impl_->db.run("ROLLBACK");
  return status;
}

}  // namespace fusec::runtime
