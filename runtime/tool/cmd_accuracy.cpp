// SPDX-License-Identifier: Apache-2.0
// Implements `fusec accuracy`: parses the ops and types, measures each pair with runtime/tool/measure/accuracy.cpp, and
// prints a table, markdown or JSON. The command fails if a result exceeds its bound in the op table.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/measure/accuracy.h"

namespace fusec::tool {
namespace {

struct AccuracyFlags : ModelFlags {
  std::string ops, dtypes;
  int64_t samples = 1 << 20;
  bool exhaustive = false, markdown = false;
};

constexpr DType kDtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,  DType::i16,  DType::i32,
                             DType::i64, DType::u8,  DType::u16,  DType::u32, DType::u64, DType::bool_};

Result<std::vector<ir::ScalarOp>> parse_ops(const AccuracyFlags& flags) {
  std::vector<ir::ScalarOp> ops;
  for (const std::string& name : split(flags.ops, ',')) {
    const auto op = ir::find_scalar_op(name);
    if (!op)
      return Status(StatusCode::invalid_argument, fmt::format("--op: there is no scalar op '{}'; see fusec ops", name));
    ops.push_back(*op);
  }
  if (!ops.empty()) return ops;
  for (const ir::ScalarOpInfo& row : ir::all_scalar_ops()) {
    if (row.name != "cast") ops.push_back(*ir::find_scalar_op(row.name));
  }
  return ops;
}

Result<std::vector<DType>> parse_dtypes(const AccuracyFlags& flags) {
  std::vector<DType> dtypes;
  for (const std::string& name : split(flags.dtypes, ',')) {
    const auto dtype = parse_dtype(name);
    if (!dtype) return Status(StatusCode::invalid_argument, fmt::format("--dtype: there is no type '{}'", name));
    dtypes.push_back(*dtype);
  }
  if (dtypes.empty()) dtypes.assign(std::begin(kDtypes), std::end(kDtypes));
  return dtypes;
}

Result<std::vector<AccuracyRow>> measure(const AccuracyFlags& flags, const AccuracyOptions& options) {
  FUSEC_ASSIGN(const std::vector<ir::ScalarOp> ops, parse_ops(flags));
  FUSEC_ASSIGN(const std::vector<DType> dtypes, parse_dtypes(flags));
  std::vector<AccuracyRow> rows;
  for (const ir::ScalarOp op : ops) {
    for (const DType dtype : dtypes) {
      if (!accepts(op, dtype)) continue;
      if (isatty(STDERR_FILENO) != 0)
        std::fprintf(stderr, "\r%-40s", fmt::format("{} {}", info(op).name, to_string(dtype)).c_str());
      FUSEC_ASSIGN(AccuracyRow row, measure_accuracy(op, dtype, options));
      rows.push_back(std::move(row));
    }
  }
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%40s\r", "");
  return rows;
}

std::string at_text(const AccuracyRow& row) {
  std::string text;
  for (int k = 0; k < info(row.op).arity; ++k)
    text += fmt::format("{}{:.9g}", k == 0 ? "" : ", ", row.at[static_cast<std::size_t>(k)]);
  return text;
}

std::string result(const AccuracyRow& row) {
  return row.ok() ? "ok" : row.wrong > 0 ? fmt::format("{} WRONG", row.wrong) : "ABOVE";
}

void print_rows(const std::vector<AccuracyRow>& rows) {
  Table table({"op", "dtype", "inputs", "ulp", "on domain", "bound", "at", "got", "reference", "result"});
  for (const AccuracyRow& r : rows) {
    table.row({std::string(info(r.op).name), to_string(r.dtype), std::to_string(r.inputs),
               fmt::format("{:.3g}", r.worst), fmt::format("{:.3g}", r.worst_on_domain), fmt::format("{:g}", r.bound),
               at_text(r), fmt::format("{:.9g}", r.got), fmt::format("{:.9g}", r.want), result(r)});
  }
  print_text(table.str());
}

// One line an op: floats side by side, integers and bools as one verdict.
void print_markdown(const std::vector<AccuracyRow>& rows) {
  std::string text =
      "| op | f32 | on its domain | f16 | bf16 | f64 | integers, bool |\n|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < rows.size();) {
    std::string f32, domain, f16, bf16, f64, others;
    const ir::ScalarOp op = rows[i].op;
    for (; i < rows.size() && rows[i].op == op; ++i) {
      const AccuracyRow& r = rows[i];
      const std::string worst = r.wrong > 0 ? fmt::format("{} wrong", r.wrong) : fmt::format("{:.3g}", r.worst);
      if (r.dtype == DType::f32) domain = fmt::format("{:.3g}", r.worst_on_domain);
      if (is_float(r.dtype)) {
        (r.dtype == DType::f32 ? f32 : r.dtype == DType::f16 ? f16 : r.dtype == DType::bf16 ? bf16 : f64) = worst;
      } else {
        others = r.ok() ? (others.empty() ? "exact" : others) : std::string(to_string(r.dtype)) + " " + worst;
      }
    }
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", info(op).name, f32, domain, f16, bf16, f64, others);
  }
  print_text(text);
}

Json make_json(const std::vector<AccuracyRow>& rows) {
  Json list = Json::array();
  for (const AccuracyRow& r : rows) {
    list.push_back({{"op", info(r.op).name},
                    {"dtype", to_string(r.dtype)},
                    {"inputs", r.inputs},
                    {"max_ulp", r.worst},
                    {"max_ulp_on_domain", r.worst_on_domain},
                    {"wrong", r.wrong},
                    {"bound", r.bound},
                    {"at", r.at},
                    {"ok", r.ok()}});
  }
  return list;
}

Result<bool> accuracy(const AccuracyFlags& flags) {
  AccuracyOptions options;
  FUSEC_ASSIGN(options.compile, parse_options(flags));
  if (flags.samples < 1) return Status(StatusCode::invalid_argument, "--samples wants a count of at least 1");
  options.samples = flags.samples;
  options.exhaustive = flags.exhaustive;
  FUSEC_ASSIGN(const std::vector<AccuracyRow> rows, measure(flags, options));
  const bool ok = std::all_of(rows.begin(), rows.end(), [](const AccuracyRow& r) { return r.ok(); });
  if (flags.json) {
    print(Json{{"ok", ok}, {"device", options.compile.device}, {"rows", make_json(rows)}});
  } else if (flags.markdown) {
    print_markdown(rows);
  } else {
    print_rows(rows);
  }
  return ok;
}

}  // namespace

Command accuracy_command() {
  auto flags = std::make_shared<AccuracyFlags>();
  return {"accuracy",
          "errors of compiled scalar ops in units in the last place, against the references of the op table; exit code "
          "1 above a bound",
          "  fusec accuracy --op exp,tanh                       all dtypes; f16 and bf16 on every input\n"
          "  fusec accuracy --op exp --dtype f32 --exhaustive   all 2^32 inputs\n"
          "  fusec accuracy --device cuda:0 --codegen llvm --markdown",
          [flags](Flags& f) {
            f.option("--op", flags->ops, "NAME,NAME: these ops (default: every row of the op table)");
            f.option("--dtype", flags->dtypes, "f32,f16: these types (default: all)");
            f.option("--samples", flags->samples,
                     "inputs of f32 and f64, and of ops on several operands (default 1048576)");
            f.flag("--exhaustive", flags->exhaustive, "all of f32 on one operand: minutes an op");
            f.flag("--markdown", flags->markdown, "a table for a page");
            declare_common(f, *flags, kCompiles | kCaches);
          },
          [flags] { return accuracy(*flags); }};
}

}  // namespace fusec::tool
