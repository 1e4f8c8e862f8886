// SPDX-License-Identifier: Apache-2.0
// Reads and writes the measured figures of a device in the tuning database.

#include "runtime/device/machine_model.h"

#include <unistd.h>

#include <ctime>

#include "runtime/cache/tuning.h"

namespace fusec::runtime {

std::string machine_key(const Target& target, const std::string& hardware) {
  const std::string size = target.kind == TargetKind::cuda ? "; " + std::to_string(target.sm_count) + " SMs" : "";
  return hardware + "; " + target.name + size;
}

namespace {

bool exists(const std::string& path) { return !path.empty() && access(path.c_str(), F_OK) == 0; }

Status read_figures(const std::string& path, bool shared, const std::string& key, MachineModel& model) {
  if (!exists(path)) return {};
  FUSEC_ASSIGN(const auto database, TuningDatabase::open(path, shared));
  FUSEC_ASSIGN(const std::vector<FigureRow> rows, database->figures(key));
  for (const FigureInfo& figure : machine_figures())
    for (const FigureRow& row : rows)
      if (row.name == figure.name) model.*figure.member = {row.value, FigureSource::measured};
  return {};
}

}  // namespace

bool reads_figures(const Options& options) {
  const bool measured = strategy_of(options) == Strategy::cached || strategy_of(options) == Strategy::profile;
  return measured && options.target.empty() && (exists(tuning_path(options)) || exists(shared_tuning_path(options)));
}

// Figures of this machine's own database take the place of the shared ones.
Status read_machine_model(const Options& options, const std::string& key, MachineModel& model) {
  if (!reads_figures(options)) return {};
  MachineModel read = model;
  FUSEC_TRY(read_figures(shared_tuning_path(options), true, key, read));
  FUSEC_TRY(read_figures(tuning_path(options), false, key, read));
  model = read;
  return {};
}

Status write_machine_model(const Options& options, const std::string& key, const MachineModel& model) {
  const std::string path = tuning_path(options);
  if (path.empty()) return Status(StatusCode::cache, "there is no tuning database; give --tuning-db or --cache-dir");
  FUSEC_ASSIGN(const auto database, TuningDatabase::open_to_write(path, make_warn(options)));
  std::vector<FigureRow> rows;
  for (const FigureInfo& figure : machine_figures()) {
    const Figure& value = model.*figure.member;
    if (value.source == FigureSource::measured) rows.push_back({key, figure.name, value.value, std::time(nullptr)});
  }
  return database->put(rows);
}

}  // namespace fusec::runtime
