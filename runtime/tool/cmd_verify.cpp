// SPDX-License-Identifier: Apache-2.0
// Implements `fusec verify`: runs a compiled model and compares its outputs with the evaluator, with a CPU Engine, or
// with files. On a GPU it also runs the model again with tensors that stay on the device, so that graph replays are
// checked for equal bits.

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/reference.h"

namespace fusec::tool {
namespace {

struct VerifyFlags : ModelFlags {
  std::string reference = "evaluator", batch;
  std::optional<double> tolerance;
  int64_t samples = 0;
  bool wide = false;
  bool from_files() const { return reference != "evaluator" && reference != "cpu"; }
};

struct Row {
  Symbols symbols;
  ComparisonResult result;
  int64_t samples = 0;
  std::optional<int64_t> replays;  // of a GPU: later runs that were one graph launch
};

// Of an f32 model in 16 bits: that of its precision.
std::optional<double> choose_tolerance(const VerifyFlags& flags) {
  if (flags.tolerance || flags.precision == "f32") return flags.tolerance;
  return default_tolerance(*parse_dtype(flags.precision));
}

std::string tolerance_text(const VerifyFlags& flags) {
  const auto tolerance = choose_tolerance(flags);
  return tolerance ? fmt::format("{:g}", *tolerance) : "f64 f32 1e-05, f16 0.005, bf16 0.04, others equal";
}

// What the reference and the compiled model have in common: a mistake there is seen by neither.
std::string shared_with_reference(const VerifyFlags& flags) {
  if (flags.from_files()) return "nothing";
  if (flags.reference == "cpu") return "import, passes, partition";
  return flags.precision == "f32" ? "import" : "import, passes up to convert_precision";
}

// The source of the expected outputs.
class Reference {
 public:
  static Result<Reference> make(const Model& model, Options options, const VerifyFlags& flags) {
    Reference r;
    r.model_ = model;
    if (options.precision) {
      FUSEC_ASSIGN(r.model_, in_precision(model, options));
    }
    if (flags.reference != "cpu") return r;
    options.device = "cpu";
    options.target.clear();
    FUSEC_ASSIGN(const Engine engine, compile_model(model, options));
    FUSEC_ASSIGN(r.cpu_, Session::create(engine));
    return r;
  }
  bool has_rounding(const VerifyFlags& flags) const {
    return !cpu_ && !flags.from_files() && !flags.wide && has_16_bit_floats(model_);
  }
  Result<Expected> outputs(const std::vector<Tensor>& inputs, const VerifyFlags& flags) {
    if (!cpu_ && !flags.from_files() && !flags.wide) return compute_expected(model_, inputs);
    Expected expected;
    FUSEC_ASSIGN(expected.outputs, cpu_                 ? cpu_->run(inputs)
                                   : flags.from_files() ? read_references(model_, flags.reference)
                                                        : evaluate_model(model_, inputs, true));
    return expected;
  }

 private:
  Model model_;
  std::optional<Session> cpu_;
};

// On a GPU: runs with tensors that stay there, so that a graph is captured and replayed, must give the same bits as the
// first run. The number of replays.
Result<int64_t> run_again(Session& session, const std::vector<Tensor>& inputs, const std::vector<Tensor>& got) {
  const Engine& engine = session.engine();
  std::vector<TensorShape> shapes;
  for (const Tensor& t : got) shapes.push_back(t.shape());
  FUSEC_ASSIGN(const std::vector<Tensor> there, on_device(engine, inputs));
  FUSEC_ASSIGN(const std::vector<Tensor> outputs, make_outputs(engine, shapes));
  FUSEC_TRY(session.bind_io(there, outputs));
  const int64_t before = session.stats().replayed_graphs;
  for (int i = 0; i < 3; ++i) FUSEC_TRY(session.run_bound());
  for (std::size_t i = 0; i < got.size(); ++i) {
    FUSEC_ASSIGN(Tensor back, Tensor::make(got[i].dtype(), got[i].shape()));
    FUSEC_TRY(copy(outputs[i], back));
    if (got[i].bytes() == 0 || std::memcmp(back.data(), got[i].data(), got[i].bytes()) == 0) continue;
    return Status(StatusCode::internal,
                  fmt::format("output '{}' of a later run has other bits", engine.outputs()[i].name));
  }
  return session.stats().replayed_graphs - before;
}

constexpr int64_t kRoundedSamples = 4;

int64_t choose_samples(const Model& model, const Request& request, const Reference& against, const VerifyFlags& flags) {
  if (!has_random_inputs(model, request)) return 1;
  if (flags.samples > 0) return flags.samples;
  return against.has_rounding(flags) ? kRoundedSamples : 1;
}

Result<Row> verify_once(const Loaded& loaded, Session& session, Request request, Reference& against, int64_t batch,
                        const VerifyFlags& flags) {
  Row row;
  const Model& model = loaded.model;
  FUSEC_ASSIGN(row.symbols, solve_symbols(model, request, batch));
  row.samples = choose_samples(model, request, against, flags);
  OutputComparison comparison(model, choose_tolerance(flags));
  for (; request.sample < static_cast<uint64_t>(row.samples); ++request.sample) {
    FUSEC_ASSIGN(const std::vector<Tensor> inputs, make_inputs(model, request, row.symbols));
    FUSEC_ASSIGN(const std::vector<Tensor> got, session.run(inputs));
    if (session.engine().device().kind == TargetKind::cuda) {
      FUSEC_ASSIGN(const int64_t replays, run_again(session, inputs, got));
      row.replays = row.replays.value_or(0) + replays;
    }
    FUSEC_ASSIGN(const Expected expected, against.outputs(inputs, flags));
    comparison.add(got, expected);
  }
  row.result = comparison.result();
  return row;
}

Json json_of_rows(const std::vector<Row>& rows, const Options& options, const VerifyFlags& flags) {
  ComparisonResult all;
  Json batches = Json::array();
  for (const Row& row : rows) {
    all.ok = all.ok && row.result.ok;
    all.worst_rel_l2 = std::max(all.worst_rel_l2, row.result.worst_rel_l2);
    all.worst_ulp = std::max(all.worst_ulp, row.result.worst_ulp);
    all.outputs.insert(all.outputs.end(), row.result.outputs.begin(), row.result.outputs.end());
    Json entry = {{"symbols", row.symbols}};
    entry["samples"] = row.samples;
    entry.update(make_json(row.result));
    if (row.replays) entry["replayed_graphs"] = *row.replays;
    batches.push_back(std::move(entry));
  }
  Json json = make_json(all);
  json["device"] = options.device;
  json["reference"] = flags.reference;
  json["shared"] = shared_with_reference(flags);
  json["tolerance"] = tolerance_text(flags);
  json["numerics"] = flags.numerics;
  json["batches"] = std::move(batches);
  return json;
}

void print_rows(const std::vector<Row>& rows, const Options& options, const VerifyFlags& flags) {
  Table table({"symbols", "output", "rel_l2", "max_ulp", "max_abs", "ref_rms", "result"});
  bool ok = true;
  for (const Row& row : rows) {
    ok = ok && row.result.ok;
    for (const OutputDiff& d : row.result.outputs) {
      table.row({row.symbols.empty() ? "-" : symbols_text(row.symbols), d.name, fmt::format("{:.3g}", d.rel_l2),
                 fmt::format("{:.4g}", d.max_ulp), fmt::format("{:.3g}", d.max_abs), fmt::format("{:.4g}", d.ref_rms),
                 d.ok ? "ok" : d.why});
    }
  }
  print_text(table.str());
  print_text(fmt::format("{} on {} against {} (shared with it: {}), tolerance {}", ok ? "ok" : "FAILED", options.device,
                         flags.reference, shared_with_reference(flags), tolerance_text(flags)));
}

Result<bool> verify(const VerifyFlags& flags) {
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  if (flags.reference == "cpu" && options.device == "cpu") {
    return Status(StatusCode::invalid_argument,
                  "--reference cpu compares another device with the CPU; on the CPU use evaluator or a folder");
  }
  if (flags.samples < 0) return Status(StatusCode::invalid_argument, "--samples wants a count of at least 1");
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(Request request, parse_request(loaded.model, flags));
  if (flags.from_files()) FUSEC_TRY(add_input_files(loaded.model, flags.reference, request));
  std::vector<int64_t> batches = {0};
  if (!flags.batch.empty()) {
    FUSEC_ASSIGN(batches, parse_integers(flags.batch, ',', "--batch"));
  }
  FUSEC_ASSIGN(const Engine engine, compile_model(loaded.model, options));
  tell_engine(engine, flags);
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(Reference reference, Reference::make(loaded.model, options, flags));
  std::vector<Row> rows;
  bool ok = true;
  for (const int64_t batch : batches) {
    FUSEC_ASSIGN(Row row, verify_once(loaded, session, request, reference, batch, flags));
    ok = ok && row.result.ok;
    rows.push_back(std::move(row));
  }
  if (flags.json) {
    print(json_of_rows(rows, options, flags));
  } else {
    print_rows(rows, options, flags);
  }
  return ok;
}

}  // namespace

Command verify_command() {
  auto flags = std::make_shared<VerifyFlags>();
  return {
      "verify", "compare compiled outputs with a reference; exit code 1 when they differ",
      "  fusec verify model.onnx --random-weights 1                     against the evaluator, on the graph as "
      "imported\n"
      "  fusec verify model.onnx --batch 1,7                            several batches through one Engine\n"
      "  fusec verify model.onnx --reference test_data_set_0            files: input_0.pb, output_0.pb, NAME.npy\n"
      "  fusec verify graph.fir --input x=random:3 --tolerance 1e-6 --json",
      [flags](Flags& f) {
        declare_model(f, *flags);
        f.option(
            "--reference", flags->reference,
            "evaluator (default: shares import with what it checks, with --precision f16 or bf16 also the passes up to "
            "convert_precision), cpu (for another device: shares import, passes and partition), or a folder of .npy or "
            ".pb "
            "files (shares nothing)");
        f.option("--tolerance", flags->tolerance, "largest rel_l2 of float outputs, whatever their type");
        f.option(
            "--samples", flags->samples,
            "random inputs, by whose errors' root mean square is judged; default: 4 where rounding to f16 or bf16 is "
            "the baseline, else 1");
        f.option("--batch", flags->batch, "1,7,64: run each of these batches");
        f.flag("--wide", flags->wide, "the evaluator keeps floats in f64 between ops");
      },
      [flags] { return verify(*flags); }};
}

}  // namespace fusec::tool
