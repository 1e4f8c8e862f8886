// SPDX-License-Identifier: Apache-2.0
// The files of runtime/tool/report/assets, which the build turns into strings (cmake/embed.cmake).
#pragma once

namespace fusec::tool {

extern const char kReportHtml[];
extern const char kReportStyle[];
extern const char kReportScript[];

}  // namespace fusec::tool
