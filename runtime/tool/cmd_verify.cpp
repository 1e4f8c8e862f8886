// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "fusec/session.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/reference.h"

namespace fusec::tool {
namespace {

struct VerifyFlags : ModelFlags {
  std::string reference = "evaluator", batch;
  std::optional<double> tolerance;
  bool wide = false;
  bool from_files() const { return reference != "evaluator"; }
};

struct Row {
  Symbols symbols;
  Verdict verdict;
};

Result<Row> verify_once(const Loaded& loaded, Session& session, const Request& request, int64_t batch,
                        const VerifyFlags& flags) {
  Row row;
  const Model& model = loaded.model;
  FUSEC_ASSIGN(row.symbols, solve_symbols(model, request, batch));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, make_inputs(model, request, row.symbols));
  FUSEC_ASSIGN(const std::vector<Tensor> got, session.run(inputs));
  FUSEC_ASSIGN(const std::vector<Tensor> reference, flags.from_files() ? read_references(model, flags.reference)
                                                                       : evaluate_model(model, inputs, flags.wide));
  row.verdict = judge(model, got, reference, flags.tolerance);
  return row;
}

std::string tolerance_text(const VerifyFlags& flags) {
  return flags.tolerance ? fmt::format("{:g}", *flags.tolerance) : "f64 f32 1e-05, f16 0.005, bf16 0.04, others equal";
}

Json json_of_rows(const std::vector<Row>& rows, const VerifyFlags& flags) {
  Verdict all;
  Json batches = Json::array();
  for (const Row& row : rows) {
    all.ok = all.ok && row.verdict.ok;
    all.worst_rel_l2 = std::max(all.worst_rel_l2, row.verdict.worst_rel_l2);
    all.worst_ulp = std::max(all.worst_ulp, row.verdict.worst_ulp);
    all.outputs.insert(all.outputs.end(), row.verdict.outputs.begin(), row.verdict.outputs.end());
    Json entry = {{"symbols", row.symbols}};
    entry.update(json_of(row.verdict));
    batches.push_back(std::move(entry));
  }
  Json json = json_of(all);
  json["reference"] = flags.reference;
  json["tolerance"] = tolerance_text(flags);
  json["numerics"] = flags.numerics;
  json["batches"] = std::move(batches);
  return json;
}

void print_rows(const std::vector<Row>& rows, const VerifyFlags& flags) {
  Table table({"symbols", "output", "rel_l2", "max_ulp", "max_abs", "ref_rms", "verdict"});
  bool ok = true;
  for (const Row& row : rows) {
    ok = ok && row.verdict.ok;
    for (const OutputDiff& d : row.verdict.outputs) {
      table.row({row.symbols.empty() ? "-" : symbols_text(row.symbols), d.name, fmt::format("{:.3g}", d.rel_l2),
                 fmt::format("{:.4g}", d.max_ulp), fmt::format("{:.3g}", d.max_abs), fmt::format("{:.4g}", d.ref_rms),
                 d.ok ? "ok" : d.why});
    }
  }
  print_text(table.str());
  print_text(fmt::format("{} against {}, tolerance {}", ok ? "ok" : "FAILED", flags.reference, tolerance_text(flags)));
}

Result<bool> verify(const VerifyFlags& flags) {
  FUSEC_ASSIGN(const Options options, options_of(flags));
  if (flags.reference == "cpu") {
    return Status(StatusCode::invalid_argument,
                  "--reference cpu compares another device with the CPU; on the CPU use evaluator or a folder");
  }
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(Request request, parse_request(loaded.model, flags));
  if (flags.from_files()) FUSEC_TRY(add_input_files(loaded.model, flags.reference, request));
  std::vector<int64_t> batches = {0};
  if (!flags.batch.empty()) {
    FUSEC_ASSIGN(batches, parse_integers(flags.batch, ',', "--batch"));
  }
  FUSEC_ASSIGN(const Engine engine, compile_model(loaded.model, options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  std::vector<Row> rows;
  bool ok = true;
  for (const int64_t batch : batches) {
    FUSEC_ASSIGN(Row row, verify_once(loaded, session, request, batch, flags));
    ok = ok && row.verdict.ok;
    rows.push_back(std::move(row));
  }
  if (flags.json) {
    print(json_of_rows(rows, flags));
  } else {
    print_rows(rows, flags);
  }
  return ok;
}

}  // namespace

Command verify_command() {
  auto flags = std::make_shared<VerifyFlags>();
  return {"verify", "compare compiled outputs with a reference; exit code 1 when they differ",
          "  fusec verify model.onnx --random-weights 1                     against the evaluator, on the graph as imported\n"
          "  fusec verify model.onnx --batch 1,7                            several batches through one Engine\n"
          "  fusec verify model.onnx --reference test_data_set_0            files: input_0.pb, output_0.pb, NAME.npy\n"
          "  fusec verify graph.fir --input x=random:3 --tolerance 1e-6 --json",
          [flags](Flags& f) {
            declare_model(f, *flags);
            f.option("--reference", flags->reference, "evaluator (default), or a folder of .npy or .pb files");
            f.option("--tolerance", flags->tolerance, "largest rel_l2 of float outputs, whatever their type");
            f.option("--batch", flags->batch, "1,7,64: run each of these batches");
            f.flag("--wide", flags->wide, "the evaluator keeps floats in f64 between ops");
          },
          [flags] { return verify(*flags); }};
}

}  // namespace fusec::tool
