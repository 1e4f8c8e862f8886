// SPDX-License-Identifier: Apache-2.0
// The measured figures of a device in the tuning database. `fusec doctor --measure` writes them; open_machine takes
// them into the Target, so that every stage of every process sees the same figures until the database changes.
#pragma once

#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::runtime {

// What figures are stored under: the hardware by its maker's name, and the target. Those of all workers of a CPU were
// measured with as many threads as it gives by default.
std::string machine_key(const Target& target, const std::string& hardware);

// Whether there is a database, or a shared one, and these options read it: not those that name a target, nor strategies
// that read no measured times.
bool reads_figures(const Options& options);
// Replaces the figures that the database or the shared one has, where the options read them. cache: one of them cannot
// be read; `model` is as it was.
Status read_machine_model(const Options& options, const std::string& key, MachineModel& model);
// Stores the figures whose source is `measured`.
Status write_machine_model(const Options& options, const std::string& key, const MachineModel& model);

}  // namespace fusec::runtime
