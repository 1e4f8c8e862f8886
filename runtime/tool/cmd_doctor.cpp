// SPDX-License-Identifier: Apache-2.0
// Implements `fusec doctor`: reports the devices, libraries and caches that this machine and build offer, and compiles
// and runs one small kernel as a self-test.

#include <dlfcn.h>
#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "codegen/emit.h"
#include "fusec/device.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"
#include "runtime/cache/artifact.h"
#include "runtime/cache/server.h"
#include "runtime/device/device.h"
#include "runtime/device/host/detect.h"
#include "runtime/device/machine_model.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/gpu_libraries.h"
#include "runtime/tool/measure/machine_model.h"
#include "runtime/tool/measure/timing.h"
#include "runtime/tool/model_file.h"

namespace fusec::tool {
namespace {

struct DoctorFlags : ModelFlags {
  bool measure = false;
};

struct Finding {
  std::string what, value;
  bool ok = true;
};

// The emitter names its LLVM in every key.
std::string llvm_version(const Target& target) {
  const std::string key = codegen::artifact_key(ir::Kernel(), target);
  const std::size_t at = key.find("llvm-");
  return at == std::string::npos ? "not built in" : key.substr(at + 5, key.find_first_of(" \n", at) - at - 5);
}

// The head of dnnl_version_t, which oneDNN keeps stable; asked of the library that is loaded.
struct DnnlVersion {
  int major, minor, patch;
};
std::string onednn_version() {
  void* const symbol = dlsym(RTLD_DEFAULT, "dnnl_version");
  if (symbol == nullptr) return "not built in: plain loops do convolutions and products";
  const DnnlVersion* const v = reinterpret_cast<const DnnlVersion* (*)()>(symbol)();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

Finding cache_finding(const Options& options) {
  const std::string root = runtime::cache_root(options);
  if (root.empty()) return {"kernel cache", "no folder: HOME is not set; give --cache-dir", false};
  const auto cache = runtime::KernelCache::open_root(root, [](const std::string&) {});
  if (!cache.ok()) return {"kernel cache", cache.status().str(), false};
  const auto stats = (*cache)->stats();
  return {"kernel cache", fmt::format("{}, {} entries, {}", root, stats.entries, bytes_text(stats.bytes)), true};
}

Finding shared_cache_finding(const std::string& root) {
  const Result<runtime::Folder> folder = runtime::Folder::open_to_read(root);
  return {"shared cache", folder.ok() ? root : folder.status().str(), folder.ok()};
}

// A server that cannot be used is a problem here; elsewhere it is a warning.
Finding cache_server_finding(const Options& options) {
  std::string fault;
  const auto server = runtime::CacheServer::find(options, [&](const std::string& text) { fault = text; });
  if (!server) return {"cache server", fault, false};
  const runtime::CacheServer::State state = server->state();
  const std::string name = server->address().shown();
  if (!state.fault.empty()) return {"cache server", name + ": " + state.fault, false};
  return {"cache server", fmt::format("{}, {} keys", name, state.keys), true};
}

// y = relu(x) of a few numbers, compiled now and run.
Result<double> self_test(Options options) {
  options.use_cache = false;
  GraphBuilder b;
  b.output("y", b.relu(b.input("x", DType::f32, {4})));
  FUSEC_ASSIGN(const Model model, b.finish());
  FUSEC_ASSIGN(const Engine engine, Engine::compile(model, options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  float x[] = {-1, 2, -3, 4};
  const Tensor inputs[] = {Tensor::borrow(DType::f32, {4}, x)};
  FUSEC_ASSIGN(const std::vector<Tensor> out, session.run(inputs));
  const float* const y = out[0].as<float>();
  if (y[0] != 0 || y[1] != 2 || y[2] != 0 || y[3] != 4) return Status(StatusCode::internal, "relu gave wrong numbers");
  return engine.stats().compile_ms;
}

Finding self_test_finding(const Options& options) {
  const std::string what = options.device == "cpu" ? "self-test" : "self-test " + options.device;
  const Result<double> ms = self_test(options);
  if (!ms.ok()) return {what, ms.status().str(), false};
  return {what, fmt::format("one kernel compiled in {:.1f} ms and ran right", *ms), true};
}

std::string gpu_text(const DeviceInfo& gpu) {
  const Target& t = gpu.target;
  return fmt::format(
      "{}, {}, {}, driver for CUDA {}; {} SMs, {} of L2, {} of shared memory a block, copies at {:.0f} GB/s ({})",
      gpu.name, t.name, bytes_text(gpu.memory_bytes), gpu.driver, t.sm_count, bytes_text(t.last_level_cache),
      bytes_text(t.shared_bytes_per_block), t.model.memory_copy.value, gpu.limits_source);
}

// A GPU that is not there is no fault; one that fails is.
std::vector<Finding> gpu_findings(const Options& options) {
  std::vector<Finding> out;
  if (const Status status = gpu_status(); !status.ok()) {
    out.push_back({"GPU", status.message()});
  } else {
    for (const DeviceInfo& info : devices()) {
      if (info.device.kind == TargetKind::cuda) out.push_back({"GPU " + to_string(info.device), gpu_text(info)});
    }
    if (out.empty()) out.push_back({"GPU", "the driver lists one, but it cannot be used", false});
    Options on_gpu = options;
    if (on_gpu.device == "cpu") on_gpu.device = "cuda:0";
    out.push_back(self_test_finding(on_gpu));
  }
  for (const GpuLibrary& library : gpu_libraries()) {
    const std::string found =
        library.path.empty() ? "not found: " + library.cost : fmt::format("{}, {}", library.version, library.path);
    out.push_back({library.name, found});
  }
  return out;
}

Result<Finding> copy_finding(const Target& target) {
  constexpr int64_t kBytes = 64 << 20;
  FUSEC_ASSIGN(const CopySpeed copy, CopySpeed::make(kBytes, target.threads));
  const CopyMethod method = copy.fastest(kBytes);
  const double gb_per_s = static_cast<double>(kBytes) / (1e3 * copy.best_us(method, kBytes, 5));
  return Finding{"copy", fmt::format("{:.1f} GB/s ({}, 64 MiB)", gb_per_s, to_string(method))};
}

// --- the machine model -----------------------------------------------------------------------------------------

struct DeviceModel {
  std::string device, key;
  MachineModel model;
};

std::string figure_name(const DeviceModel& d, const FigureInfo& figure) {
  return fmt::format("{} {}", d.device, figure.name);
}

std::vector<Finding> model_findings(const DeviceModel& d) {
  std::vector<Finding> out = {{d.device + " model", fmt::format("{}, digest {}", d.key, machine_digest(d.model))}};
  for (const FigureInfo& figure : machine_figures()) {
    const Figure& value = d.model.*figure.member;
    out.push_back(
        {figure_name(d, figure), fmt::format("{:.4g} {}, {}", value.value, figure.unit, to_string(value.source))});
  }
  return out;
}

Json model_json(const DeviceModel& d) {
  Json figures = Json::object();
  for (const FigureInfo& figure : machine_figures()) {
    const Figure& value = d.model.*figure.member;
    figures[figure.name] = {{"value", value.value}, {"unit", figure.unit}, {"source", to_string(value.source)}};
  }
  return {{"device", d.device}, {"key", d.key}, {"digest", machine_digest(d.model)}, {"figures", figures}};
}

// Measures first if asked to, and stores what was measured.
Result<DeviceModel> device_model(const Options& options, bool measure) {
  FUSEC_ASSIGN(const runtime::Machine machine, runtime::open_machine(options));
  DeviceModel d{options.device, runtime::machine_key(machine), machine.target.model};
  FUSEC_TRY(runtime::read_machine_model(options, d.key, d.model));
  if (!measure) return d;
  const Progress progress("measuring " + options.device);
  const bool cpu = machine.target.kind == TargetKind::cpu;
  FUSEC_ASSIGN(d.model, cpu ? measure_cpu(options, machine.target, compile_model)
                            : measure_gpu(options, machine.target, compile_model));
  FUSEC_TRY(runtime::write_machine_model(options, d.key, d.model));
  return d;
}

Result<bool> doctor(const DoctorFlags& flags) {
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  Options on_cpu = options;
  on_cpu.device = "cpu";
  FUSEC_ASSIGN(const Target target, runtime::host_target(on_cpu));
  std::vector<Finding> findings = {
      {"cpu", runtime::cpu_name()},
      {"target", fmt::format("{}, LLVM CPU {}", target.name, target.triple_cpu)},
      {"features", fmt::format("{}", fmt::join(target.features, " "))},
      {"vector", fmt::format("{} bytes", target.vector_bytes)},
      {"threads", fmt::format("{} of {} logical processors", target.threads, std::thread::hardware_concurrency())},
      {"data caches", fmt::format("L1 {}, L2 {}, last level {}", bytes_text(target.l1_bytes),
                                  bytes_text(target.l2_bytes), bytes_text(target.last_level_cache))},
      {"LLVM", llvm_version(target)},
      {"oneDNN", onednn_version()},
      {"ONNX", FUSEC_WITH_ONNX ? "built in" : "not built in: .fir only"},
      cache_finding(options),
      self_test_finding(on_cpu),
  };
  if (const std::string root = runtime::shared_cache_root(options); !root.empty())
    findings.push_back(shared_cache_finding(root));
  if (!runtime::cache_server_address(options).empty()) findings.push_back(cache_server_finding(options));
  for (Finding& finding : gpu_findings(options)) findings.push_back(std::move(finding));
  FUSEC_ASSIGN(Finding copy, copy_finding(target));
  findings.push_back(std::move(copy));
  Json models = Json::array();
  if (const Result<DeviceModel> model = device_model(options, flags.measure); model.ok()) {
    models.push_back(model_json(*model));
    for (Finding& finding : model_findings(*model)) findings.push_back(std::move(finding));
  } else {
    findings.push_back({options.device + " model", model.status().str(), false});
  }
  bool ok = true;
  Json json = Json::object();
  Table table({"what", "found"});
  for (const Finding& f : findings) {
    ok = ok && f.ok;
    json[f.what] = f.value;
    table.row({f.what, (f.ok ? "" : "PROBLEM: ") + f.value});
  }
  json["ok"] = ok;
  json["models"] = models;
  if (flags.json) {
    print(json);
  } else {
    print_text(table.str());
  }
  return ok;
}

}  // namespace

Command doctor_command() {
  auto flags = std::make_shared<DoctorFlags>();
  return {"doctor", "what this machine and this build offer; exit code 1 when something is wrong",
          "  fusec doctor\n"
          "  fusec doctor --json\n"
          "  fusec doctor --measure                    measure this device for the cost model, and keep the figures\n"
          "  fusec doctor --measure --device cpu       the same for the CPU where there is a GPU",
          [flags](Flags& f) {
            declare_common(f, *flags, kCompiles | kCaches);
            f.option("--tuning-db", flags->tuning_db,
                     "FILE of measured figures; default: tuning.v1.sqlite in the cache folder");
            f.flag("--measure", flags->measure, "measure the figures of --device, which takes seconds, and store them");
          },
          [flags] { return doctor(*flags); }};
}

}  // namespace fusec::tool
