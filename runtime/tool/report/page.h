// SPDX-License-Identifier: Apache-2.0
// A report as one HTML page that needs no network: style, script and data lie inside. The script draws the graph of
// steps, the roofline, the gap, the memory over the steps and the times of compiling, from the data of
// runtime/tool/report_data.h.
#pragma once

#include <string>

#include "runtime/tool/io/output.h"

namespace fusec::tool {

// `data`: a report; `old`: an earlier one to compare with, or null.
std::string report_page(const Json& data, const Json& old);

// What differs between two reports, one per line of text: sums of launches and times, steps that came and went, steps
// whose times differ by more than 10 %, each "name: before -> now".
Json compare_reports(const Json& old, const Json& now);

}  // namespace fusec::tool
