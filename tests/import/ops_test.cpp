// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>

#include "onnx/defs/schema.h"

namespace fusec::importer {
namespace {

std::set<int64_t> listed(const OpRow& row) {
  std::set<int64_t> versions;
  const char* end = row.since.data() + row.since.size();
  for (const char* at = row.since.data(); at < end; ++at) {
    int64_t version = 0;
    at = std::from_chars(at, end, version).ptr;
    versions.insert(version);
  }
  return versions;
}

// Versions of the definition that some opset from kWholeOpset to kMaxOpset uses.
std::set<int64_t> defined(std::string_view name) {
  std::set<int64_t> versions;
  for (int64_t opset = kWholeOpset; opset <= kMaxOpset; ++opset) {
    const auto* schema = proto::OpSchemaRegistry::Schema(std::string(name), static_cast<int>(opset), "");
    if (schema != nullptr) versions.insert(schema->since_version());
  }
  return versions;
}

TEST(OnnxOps, RowsNameTheVersionsThatOnnxHas) {
  for (const OpRow& row : all_onnx_ops()) {
    EXPECT_FALSE(defined(row.name).empty()) << row.name << " is no ONNX op";
    EXPECT_EQ(listed(row), defined(row.name)) << row.name;
  }
}

TEST(OnnxOps, RowsAreUnique) {
  std::set<std::string_view> names;
  for (const OpRow& row : all_onnx_ops()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

TEST(OnnxOps, NewestOpsetIsTheOneOfTheSchemas) {
  auto range = proto::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("");
  EXPECT_EQ(kMaxOpset, range.second);
}

}  // namespace
}  // namespace fusec::importer
