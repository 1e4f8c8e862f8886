// SPDX-License-Identifier: Apache-2.0
// What `fusec tune` does with a tuning database without measuring anything: lists, exports and prunes its rows.
#pragma once

#include <string>

#include "fusec/options.h"
#include "fusec/status.h"

namespace fusec::tool {

struct TuningFileFlags {
  bool list = false;
  std::string export_to;  // a file that does not exist yet
  std::string prune;      // "failures", "all", or "90d": rows that were measured more than 90 days ago
  std::string only;       // rows whose scope or call contains this text; empty: all rows
  bool json = false, verbose = false;
  bool any() const { return list || !export_to.empty() || !prune.empty(); }
};

// On the database at `path`, in this order: exports, prunes, lists. invalid_argument where the flags do not fit
// together, where `path` is empty, and for a file to export to that exists; code `cache` for a database that cannot be
// read.
Status use_tuning_file(const TuningFileFlags& flags, const std::string& path, const Options& options);

}  // namespace fusec::tool
