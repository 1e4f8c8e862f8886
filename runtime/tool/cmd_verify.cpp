// SPDX-License-Identifier: Apache-2.0
// Implements `fusec verify`: runs a compiled model, or a package of one, and compares its outputs with the evaluator,
// with a CPU Engine, or with files. It checks that later runs have equal bits, which on a GPU are replays of a graph,
// and in batch-invariant mode that batches have.

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "fusec/device.h"
#include "fusec/session.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/precision_report.h"
#include "runtime/tool/reference.h"
#include "runtime/tool/specials.h"

namespace fusec::tool {
namespace {

struct VerifyFlags : ModelFlags {
  std::string reference = "evaluator", batch;
  std::string source;  // --model: what the package was compiled from
  std::optional<double> tolerance;
  int64_t samples = 0;
  std::optional<uint64_t> repeat;
  bool wide = false, specials = false, precision_report = false;
  bool from_files() const { return reference != "evaluator" && reference != "cpu"; }
};

struct Row {
  Symbols symbols;
  ComparisonResult result;
  int64_t samples = 0;
  int64_t repeats = 0;                  // later runs, each with the same bits
  std::optional<int64_t> replays;       // of a GPU: those of them that were one graph launch
  std::vector<Tensor> inputs, outputs;  // of the first sample
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
  const Model& model() const { return model_; }  // in the precision of the options
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

constexpr uint64_t kRepeatsOnAGpu = 3;

// The leading bytes of two tensors are the same.
bool same_bits(const Tensor& a, const Tensor& b, std::size_t bytes) {
  return bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0;
}

// Later runs must give the same bits as the first. Those of a GPU keep their tensors there, so that a graph is captured
// and replayed.
Status run_again(Session& session, const std::vector<Tensor>& inputs, const std::vector<Tensor>& got, int64_t times) {
  const Engine& engine = session.engine();
  const bool on_gpu = engine.device().kind == TargetKind::cuda;
  std::vector<TensorShape> shapes;
  for (const Tensor& t : got) shapes.push_back(t.shape());
  std::vector<Tensor> there, outputs, back;
  if (on_gpu) {
    FUSEC_ASSIGN(there, on_device(engine, inputs));
    FUSEC_ASSIGN(outputs, make_outputs(engine, shapes));
    FUSEC_TRY(session.bind_io(there, outputs));
    for (const Tensor& t : got) {
      FUSEC_ASSIGN(Tensor on_host, Tensor::make(t.dtype(), t.shape()));
      back.push_back(std::move(on_host));
    }
  }
  for (int64_t run = 0; run < times; ++run) {
    if (on_gpu) {
      FUSEC_TRY(session.run_bound());
      for (std::size_t i = 0; i < got.size(); ++i) FUSEC_TRY(copy(outputs[i], back[i]));
    } else {
      FUSEC_ASSIGN(back, session.run(inputs));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (same_bits(back[i], got[i], got[i].bytes())) continue;
      return Status(StatusCode::internal, fmt::format("output '{}' has other bits in run {} than in the first",
                                                      engine.outputs()[i].name, run + 2));
    }
  }
  return {};
}

// Batch-invariant mode: the samples that two batches have in common must have the same results. An error where they
// have none in common, as inputs of files may.
Status compare_batches(const Model& model, const Row& row, const Row& other, const std::string& symbol) {
  const int64_t samples = std::min(row.symbols.at(symbol), other.symbols.at(symbol));
  const auto has_batch = [&](const TensorInfo& info) {
    const auto first = info.shape.empty() ? std::nullopt : info.shape[0].as_symbol();
    return first && *first == symbol;
  };
  const auto bytes = [&](const Tensor& t) { return t.shape()[0] == 0 ? 0 : t.bytes() / t.shape()[0] * samples; };
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const Tensor &a = row.inputs[i], &b = other.inputs[i];
    if (same_bits(a, b, has_batch(model.inputs[i]) ? bytes(a) : a.bytes())) continue;
    return Status(StatusCode::invalid_argument,
                  "--batch-invariant: the batches have no samples in common by which "
                  "they could be compared; give inputs by a seed");
  }
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const Tensor &a = row.outputs[i], &b = other.outputs[i];
    if (!has_batch(model.outputs[i]) || same_bits(a, b, bytes(a))) continue;
    return Status(StatusCode::internal,
                  fmt::format("output '{}' has other bits for the same samples at {} and at {}", model.outputs[i].name,
                              symbols_text(row.symbols), symbols_text(other.symbols)));
  }
  return {};
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
  const bool on_gpu = session.engine().device().kind == TargetKind::cuda;
  const auto repeats = static_cast<int64_t>(flags.repeat.value_or(on_gpu ? kRepeatsOnAGpu : 0));
  for (; request.sample < static_cast<uint64_t>(row.samples); ++request.sample) {
    FUSEC_ASSIGN(const std::vector<Tensor> inputs, make_inputs(model, request, row.symbols));
    FUSEC_ASSIGN(const std::vector<Tensor> got, session.run(inputs));
    const int64_t before = session.stats().replayed_graphs;
    FUSEC_TRY(run_again(session, inputs, got, repeats));
    row.repeats += repeats;
    if (on_gpu) row.replays = row.replays.value_or(0) + session.stats().replayed_graphs - before;
    if (row.inputs.empty()) row.inputs = inputs, row.outputs = got;
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
    entry["repeats"] = row.repeats;
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

// What is checked: a model with an Engine of its code, which is compiled here, or comes from a package.
struct Subject {
  Loaded loaded;
  Engine engine;
};

bool is_alike(const std::vector<TensorInfo>& a, const std::vector<TensorInfo>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TensorInfo& x, const TensorInfo& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape.size() == y.shape.size();
  });
}

// Flags of import are for the model, and those about trust for the package. The package's precision is that of both.
Result<Subject> load_package_and_model(VerifyFlags& flags, Options& options) {
  VerifyFlags for_package = flags, for_model = flags;
  for_package.random_weights.reset();
  for_package.external_roots.clear();
  for (auto* list : {&for_package.fixes, &for_package.ranges, &for_package.constants}) list->clear();
  for_model.model = flags.source;
  for_model.trust = false;
  for_model.verify_key.clear();
  const Front front = package_front();
  FUSEC_ASSIGN(const Loaded package, front.load(for_package));
  FUSEC_ASSIGN(Loaded loaded, load_model(for_model));
  if (!is_alike(package.model.inputs, loaded.model.inputs) || !is_alike(package.model.outputs, loaded.model.outputs)) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("'{}' has other inputs or outputs than '{}': it was compiled from another model, or with "
                              "other --fix and --constant",
                              flags.model, flags.source));
  }
  const PackageInfo& info = package.package->info();
  FUSEC_ASSIGN(Engine engine, make_engine(front, package, options, {}));
  options.precision = info.precision;
  options.numerics = info.numerics;
  options.tf32 = info.tf32;
  options.batch_invariant = info.batch_invariant;
  flags.precision = info.precision ? to_string(*info.precision) : "f32";
  flags.numerics = numerics_name(info.numerics);
  return Subject{std::move(loaded), std::move(engine)};
}

Result<Subject> load_subject(VerifyFlags& flags, Options& options) {
  if (!flags.source.empty() && flags.model.ends_with(".fsc")) return load_package_and_model(flags, options);
  if (!flags.source.empty()) {
    return Status(StatusCode::invalid_argument,
                  "--model names the model of a package (.fsc); without a package name the model alone");
  }
  FUSEC_ASSIGN(Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(Engine engine, compile_model(loaded.model, options));
  return Subject{std::move(loaded), std::move(engine)};
}

Result<bool> report_precision(const VerifyFlags& flags, const Options& options) {
  if (!options.precision)
    return Status(StatusCode::invalid_argument, "--precision-report is about --precision f16 or bf16: give one");
  FUSEC_ASSIGN(const Loaded loaded, load_model(flags));
  FUSEC_ASSIGN(const Request request, parse_request(loaded.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(loaded.model, request));
  FUSEC_ASSIGN(const std::vector<Tensor> inputs, make_inputs(loaded.model, request, symbols));
  FUSEC_ASSIGN(const PrecisionReport report,
               make_precision_report(loaded.model, options, inputs, *choose_tolerance(flags)));
  if (flags.json) {
    print(precision_json(report));
  } else {
    print_text(precision_text(report));
  }
  return report.ok;
}

Result<bool> verify(VerifyFlags flags) {
  FUSEC_ASSIGN(Options options, parse_options(flags));
  if (flags.precision_report) return report_precision(flags, options);
  if (flags.reference == "cpu" && options.device == "cpu") {
    return Status(StatusCode::invalid_argument,
                  "--reference cpu compares another device with the CPU; on the CPU use evaluator or a folder");
  }
  if (flags.specials && flags.reference != "evaluator")
    return Status(StatusCode::invalid_argument, "--specials compares with the evaluator, not with --reference");
  if (flags.samples < 0) return Status(StatusCode::invalid_argument, "--samples wants a count of at least 1");
  FUSEC_ASSIGN(const Subject subject, load_subject(flags, options));
  const Loaded& loaded = subject.loaded;
  const Engine& engine = subject.engine;
  FUSEC_ASSIGN(Request request, parse_request(loaded.model, flags));
  if (flags.from_files()) FUSEC_TRY(add_input_files(loaded.model, flags.reference, request));
  std::vector<int64_t> batches = {0};
  if (!flags.batch.empty()) {
    FUSEC_ASSIGN(batches, parse_integers(flags.batch, ',', "--batch"));
  }
  tell_engine(engine, flags);
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(Reference reference, Reference::make(loaded.model, options, flags));
  std::vector<Row> rows;
  bool ok = true;
  Progress progress{Progress::Steps()};
  for (const int64_t batch : batches) {
    progress.step(rows.size(), batches.size(), batch > 0 ? fmt::format("batch {}", batch) : "comparing");
    FUSEC_ASSIGN(Row row, verify_once(loaded, session, request, reference, batch, flags));
    ok = ok && row.result.ok;
    rows.push_back(std::move(row));
    if (!options.batch_invariant || rows.size() < 2) continue;
    FUSEC_ASSIGN(const std::string symbol, batch_symbol(loaded.model));
    FUSEC_TRY(compare_batches(loaded.model, rows.back(), rows.front(), symbol));
  }
  std::vector<SpecialRow> specials;
  if (flags.specials) {
    FUSEC_ASSIGN(specials, verify_specials(reference.model(), session, options, rows.front().inputs));
    ok = ok && all_promises_hold(specials);
  }
  if (flags.json) {
    Json json = json_of_rows(rows, options, flags);
    json["ok"] = ok;
    if (flags.specials) json["specials"] = specials_json(specials);
    print(json);
  } else {
    print_rows(rows, options, flags);
    if (flags.specials) print_text(specials_table(specials));
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
      "  fusec verify model.onnx --batch-invariant --batch 64,1,7       the same bits in every batch\n"
      "  fusec verify model.onnx --repeat 100 --strategy reproducible   the same bits in every run\n"
      "  fusec verify model.onnx --reference test_data_set_0            files: input_0.pb, output_0.pb, NAME.npy\n"
      "  fusec verify model.fsc --model model.onnx                      what a package computes\n"
      "  fusec verify graph.fir --input x=random:3 --tolerance 1e-6 --json",
      [flags](Flags& f) {
        declare_model(f, *flags);
        declare_package(f, *flags);
        f.option("--model", flags->source,
                 "with a package (.fsc) in place of the model: the model that it was compiled from");
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
        f.option("--batch", flags->batch,
                 "1,7,64: run each of these batches; with --batch-invariant, what samples have in common must have the "
                 "same bits");
        f.option(
            "--repeat", flags->repeat,
            "run each sample so many times more, each of which must have the same bits (default: 3 on a GPU, else 0)");
        f.flag("--specials", flags->specials,
               "on edge inputs too: zeros, -0, the smallest, subnormal and largest numbers, NaN or infinity in one "
               "place; fails only where the numerics mode promises the result");
        f.flag("--precision-report", flags->precision_report,
               "in place of the check: with --precision f16 or bf16, how much each region adds to the error, and the "
               "--keep-f32 patterns with which the outputs meet the tolerance, with the times of both");
        f.flag("--wide", flags->wide, "the evaluator keeps floats in f64 between ops");
      },
      [flags] { return verify(*flags); }};
}

}  // namespace fusec::tool
