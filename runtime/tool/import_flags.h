// SPDX-License-Identifier: Apache-2.0
// --fix, --range and --constant: what the command line says of a model before it is imported.
#pragma once

#include <map>
#include <string>

#include "fusec/shape.h"
#include "fusec/status.h"
#include "ir/graph/graph.h"
#include "runtime/tool/common.h"
#if FUSEC_WITH_ONNX
#include "fusec/onnx.h"
#endif

namespace fusec::tool {

// invalid_argument for texts that do not parse, here and below.
Result<std::map<std::string, ExtentRange>> parse_ranges(const ModelFlags& flags);
// For graphs in text, whose symbols can be given ranges and no values.
Status apply_import_flags(const ModelFlags& flags, ir::Graph& graph);

#if FUSEC_WITH_ONNX
Status apply_import_flags(const std::string& path, const ModelFlags& flags, ImportOptions& options);
// An error of import about a name that one of the flags gives, with that flag.
Status name_flag(const ModelFlags& flags, const Status& error);
#endif

}  // namespace fusec::tool
