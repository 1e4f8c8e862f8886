// SPDX-License-Identifier: Apache-2.0
// Writes a Profile as a timeline for trace viewers.
#pragma once

#include <string>

#include "fusec/profile.h"
#include "fusec/status.h"

namespace fusec::tool {

enum class TimelineFormat : uint8_t {
  chrome,    // JSON of chrome://tracing, which other viewers read too
  perfetto,  // the protobuf of ui.perfetto.dev
};

// Of --format, or where it is empty, of the file's extension: .json, .pftrace, .perfetto-trace. invalid_argument for
// other ones.
Result<TimelineFormat> timeline_format(const std::string& format, const std::string& path);

// A track for the runs, the calling thread, each thread or stream, and copies; arrows from a run to its first slice on
// each track of a GPU. `model` is the name of the process in the viewer.
std::string chrome_json(const Profile& profile, const std::string& model);
std::string perfetto_protobuf(const Profile& profile, const std::string& model);

// invalid_argument: the file cannot be written.
Status write_timeline(const Profile& profile, const std::string& model, TimelineFormat format, const std::string& path);

}  // namespace fusec::tool
