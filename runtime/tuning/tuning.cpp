// SPDX-License-Identifier: Apache-2.0
// Keeps what one Engine knows of measured times: reads the database on first use, answers which algorithms bind should
// try, and stores new measurements. Faults of the database are one warning and never an error.

#include "runtime/tuning/tuning.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/support/hash.h"
#include "runtime/cache/row_bytes.h"
#include "runtime/cache/server.h"

namespace fusec::runtime {

namespace {

constexpr double kWorthwhile = 0.97;  // of the time of the libraries' default algorithm; what is closer is noise

bool is_worthwhile(const TuningRow& row, const TuningRow* by_default) {
  return !row.failed() && row.library != kWholeModel &&
         (by_default == nullptr || row.median_us < kWorthwhile * by_default->median_us);
}

const TuningRow* fastest_alone(const std::vector<TuningRow>& rows) {
  const TuningRow* const by_default = default_row(rows);
  const TuningRow* best = by_default;
  for (const TuningRow& row : rows) {
    if (is_worthwhile(row, by_default) && (best == nullptr || row.median_us < best->median_us)) best = &row;
  }
  return best;
}

std::string table_name(const Target& target, const std::string& scope) {
  return CacheServer::name("times", kRowVersion, target.name, scope);
}

// Null: no model was run with this one.
const TuningRow* model_row(const std::vector<TuningRow>& rows, const TuningRow& pick) {
  const std::string name = name_pick(pick);
  const auto it = std::find_if(rows.begin(), rows.end(),
                               [&](const TuningRow& r) { return r.library == kWholeModel && r.algorithm == name; });
  return it == rows.end() ? nullptr : &*it;
}

}  // namespace

const TuningRow* default_row(const std::vector<TuningRow>& rows) {
  const auto it =
      std::find_if(rows.begin(), rows.end(), [](const TuningRow& r) { return r.is_default && !r.failed(); });
  return it == rows.end() ? nullptr : &*it;
}

const TuningRow* best_row(const std::vector<TuningRow>& rows) {
  const TuningRow* const best = fastest_alone(rows);
  if (best == nullptr) return nullptr;
  const TuningRow* const in_model = model_row(rows, *best);
  return in_model != nullptr && in_model->failed() ? default_row(rows) : best;
}

std::string name_pick(const TuningRow& row) { return row.library + " " + row.algorithm; }

const TuningRow* untried_pick(const std::vector<TuningRow>& rows) {
  const TuningRow* const best = fastest_alone(rows);
  if (best == nullptr || best->is_default || default_row(rows) == nullptr) return nullptr;
  return model_row(rows, *best) == nullptr ? best : nullptr;
}

bool is_complete(const std::vector<TuningRow>& rows) {
  int64_t listed = 1, measured = 0;
  for (const TuningRow& row : rows) {
    listed = std::max(listed, row.listed);
    measured += row.library != kWholeModel;
  }
  return measured >= listed;
}

Tuning::Tuning(const Options& options, const Target& target, const LoadedProgram& loaded, int threads)
    : options_(options),
      target_(target),
      make_scope_([this, &loaded] { return tuning_scope(options_, target_, loaded, threads_); }),
      threads_(threads),
      path_(tuning_path(options)),
      shared_path_(shared_tuning_path(options)) {}

Tuning::Tuning(const Options& options, const Target& target, std::function<std::string()> scope, bool silent)
    : options_(options),
      target_(target),
      make_scope_(std::move(scope)),
      threads_(target.threads),
      silent_(silent),
      path_(tuning_path(options)),
      shared_path_(shared_tuning_path(options)) {}

// Computed on first use, because reading the processor's name takes longer than a bind.
const std::string& Tuning::scope_of_machine() {
  if (scope_.empty()) scope_ = make_scope_();
  return scope_;
}

// On a CPU, twice the size of the second-level caches: operands then come from the last-level cache, as in a model
// whose weights fit in it. Where weights do not fit, all algorithms wait for memory alike. On a GPU, more than the
// last-level cache, because weights come from memory there.
int64_t Tuning::flush_bytes() const {
  if (target_.kind == TargetKind::cuda) return target_.last_level_cache / 4 * 5;
  return std::clamp<int64_t>(2 * target_.l2_bytes * threads_, int64_t{1} << 20, int64_t{64} << 20);
}

int64_t Tuning::cache_bytes() const { return target_.kind == TargetKind::cuda ? target_.last_level_cache : 0; }

int64_t Tuning::workspace_limit() const {
  const bool limited = target_.kind == TargetKind::cuda;
  return limited ? std::max<int64_t>(options_.workspace_limit, 0) : std::numeric_limits<int64_t>::max();
}

std::string Tuning::scope() {
  const std::lock_guard lock(mutex_);
  return scope_of_machine();
}

Warn Tuning::warn() const { return silent_ ? Warn() : make_warn(options_); }

void Tuning::warn_once(bool& warned, const std::string& text) {
  if (!silent_ && !std::exchange(warned, true)) warn()(text);
}

void Tuning::load() {
  if (std::exchange(loaded_, true)) return;
  load_from(path_, false, warned_, sources_.own);
  load_from(shared_path_, true, warned_of_shared_, sources_.shared);
  load_from_server();
}

bool Tuning::add_unknown(TuningRow row) {
  std::vector<TuningRow>& known = known_[row.call];
  const bool is_known = std::any_of(known.begin(), known.end(), [&](const TuningRow& r) {
    return r.library == row.library && r.algorithm == row.algorithm;
  });
  if (!is_known) known.push_back(std::move(row));
  return !is_known;
}

// Adds the rows that are not known yet.
void Tuning::load_from(const std::string& path, bool shared, bool& warned, int64_t& count) {
  if (path.empty() || access(path.c_str(), F_OK) != 0) return;
  const std::string kind = shared ? "shared " : "";
  int64_t skipped = 0;
  Result<std::vector<TuningRow>> rows = [&]() -> Result<std::vector<TuningRow>> {
    FUSEC_ASSIGN(const auto database, TuningDatabase::open(path, shared));
    return database->rows(scope_of_machine(), &skipped);
  }();
  if (!rows.ok()) return warn_once(warned, "running without " + kind + "measured times: " + rows.status().message());
  if (skipped > 0) {
    warn_once(warned,
              std::to_string(skipped) + " rows of the " + kind + "tuning database make no sense and are left out");
  }
  for (TuningRow& row : *rows) count += add_unknown(std::move(row));
}

// The rows of a scope are one table of the server.
void Tuning::load_from_server() {
  server_ = CacheServer::find(options_, warn());
  if (!server_) return;
  std::vector<TuningRow> fresh;
  const std::string& scope = scope_of_machine();
  for (const std::vector<uint8_t>& bytes : server_->get_table(table_name(target_, scope), warn())) {
    std::optional<TuningRow> row = decode_row(bytes);
    if (!row || row->scope != scope) {
      server_->note_damage(warn());
    } else if (add_unknown(*row)) {
      fresh.push_back(std::move(*row));
    }
  }
  sources_.server = static_cast<int64_t>(fresh.size());
  if (!fresh.empty()) store(fresh);
}

Tuning::Sources Tuning::sources() {
  const std::lock_guard lock(mutex_);
  load();
  return sources_;
}

std::vector<TuningRow> Tuning::rows(const std::string& call) {
  const std::lock_guard lock(mutex_);
  load();
  const auto it = known_.find(call);
  return it == known_.end() ? std::vector<TuningRow>() : it->second;
}

std::vector<TuningRow> Tuning::all_rows() {
  const std::lock_guard lock(mutex_);
  load();
  std::vector<TuningRow> all;
  for (const auto& [call, rows] : known_) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

bool Tuning::has_picks() {
  if (strategy() != Strategy::cached && strategy() != Strategy::profile) return false;
  const std::lock_guard lock(mutex_);
  load();
  return !known_.empty();
}

std::vector<TuningPick> Tuning::picks(const std::string& call) {
  if (!has_picks()) return {};
  std::vector<TuningRow> known = rows(call);
  std::erase_if(known, [&](const TuningRow& row) { return row.workspace > workspace_limit(); });
  const TuningRow* const by_default = default_row(known);
  const bool is_tried = tried_.contains(call);
  if (is_tried ? !taken_.contains(call) : best_row(known) == by_default) return {};
  std::vector<const TuningRow*> better;
  for (const TuningRow& row : known) {
    if (is_worthwhile(row, by_default) && &row != by_default) better.push_back(&row);
  }
  std::stable_sort(better.begin(), better.end(),
                   [](const TuningRow* a, const TuningRow* b) { return a->median_us < b->median_us; });
  std::vector<TuningPick> out;
  for (const TuningRow* row : better) out.push_back({row->library, row->algorithm});
  return out;
}

void Tuning::set_trial(std::set<std::string> calls, std::set<std::string> taken) {
  tried_ = std::move(calls);
  taken_ = std::move(taken);
}

TuningDatabase* Tuning::writer() {
  if (writer_ || unwritable_ || path_.empty()) return writer_.get();
  const Warn tell = silent_ ? [](const std::string&) {} : make_warn(options_);
  Result<std::unique_ptr<TuningDatabase>> opened = TuningDatabase::open_to_write(path_, tell);
  if (opened.ok()) {
    writer_ = std::move(opened).value();
  } else {
    unwritable_ = true;
    warn_once(warned_, "measured times are not stored: " + opened.status().message());
  }
  return writer_.get();
}

void Tuning::add(const std::vector<TuningRow>& rows) {
  const std::lock_guard lock(mutex_);
  load();
  for (const TuningRow& row : rows) {
    std::vector<TuningRow>& known = known_[row.call];
    std::erase_if(known, [&](const TuningRow& r) { return r.library == row.library && r.algorithm == row.algorithm; });
    known.push_back(row);
    store({row});
  }
  send(rows);
}

void Tuning::store(const std::vector<TuningRow>& rows) {
  TuningDatabase* const to = writer();
  if (to == nullptr) return;
  if (const Status status = to->put(rows); !status.ok()) {
    writer_.reset();
    unwritable_ = true;  // a full or locked disk: the times are still used here
    warn_once(warned_, "measured times are not stored: " + status.message());
  }
}

void Tuning::send(const std::vector<TuningRow>& rows) {
  if (!server_ || rows.empty()) return;
  std::vector<CacheServer::Row> sent;
  for (const TuningRow& row : rows) {
    const std::string field = row.call + "\n" + row.library + "\n" + row.algorithm;
    sent.push_back({ir::to_hex(ir::sha256(field)), encode_row(row)});
  }
  server_->put_rows(table_name(target_, scope_of_machine()), sent, warn());
}

void Tuning::note_vanished(const std::string& call, const TuningPick& pick) {
  const std::lock_guard lock(mutex_);
  if (silent_ || std::exchange(noted_, true)) return;
  warn()(pick.library + " no longer has '" + pick.algorithm + "', which was measured as the fastest for " + call +
         "; the next best is taken");
}

}  // namespace fusec::runtime
