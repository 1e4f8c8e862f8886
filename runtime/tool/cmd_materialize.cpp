// SPDX-License-Identifier: Apache-2.0
// Implements `fusec materialize`: writes an ONNX model with all its weights, where absent ones are random values from a
// seed. It compiles nothing.

#include <fmt/format.h>

#include <filesystem>

#include "runtime/tool/commands.h"
#include "runtime/tool/io/output.h"
#if FUSEC_WITH_ONNX
#include "fusec/onnx.h"
#endif

namespace fusec::tool {
namespace {

struct MaterializeFlags {
  std::string in, out;
  std::vector<std::string> external_roots;
  std::optional<uint64_t> seed;
  bool json = false;
};

#if FUSEC_WITH_ONNX
Status write_model(const MaterializeFlags& flags) {
  ImportOptions options;
  options.external_roots = flags.external_roots;
  return materialize_onnx(flags.in, flags.out, flags.seed.value_or(0), options);
}
#else
Status write_model(const MaterializeFlags&) { return Status(StatusCode::unsupported, "this build reads no ONNX"); }
#endif

Result<bool> materialize(const MaterializeFlags& flags) {
  if (flags.out.empty())
    return Status(StatusCode::invalid_argument, "materialize needs -o FILE; see fusec materialize --help");
  FUSEC_TRY(check_model_file(flags.in));
  {
    const Progress progress("writing " + flags.out);
    FUSEC_TRY(write_model(flags));
  }
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(flags.out, error));
  if (flags.json) {
    print(Json{{"file", flags.out}, {"bytes", bytes}, {"seed", flags.seed.value_or(0)}});
  } else {
    print_text(fmt::format("{}: {}, weights from seed {}", flags.out, bytes_text(bytes), flags.seed.value_or(0)));
  }
  return true;
}

}  // namespace

Command materialize_command() {
  auto flags = std::make_shared<MaterializeFlags>();
  return {
      "materialize", "write an ONNX model with all its weights inside, absent ones random",
      "  fusec materialize stripped.onnx -o whole.onnx --random-weights 1\n"
      "The weights are those that other commands use with the same seed, so another runtime can be compared on them.",
      [flags](Flags& f) {
        f.argument("model", flags->in, "an .onnx model");
        f.option("-o,--output", flags->out, "FILE to write; past 1.9 GB the weights go to FILE.data");
        f.option("--random-weights", flags->seed, "SEED of weights whose data file is absent (default 0)");
        f.option("--external-root", flags->external_roots,
                 "DIR: data files are looked for here too; may be given several times");
        f.flag("--json", flags->json, "machine-readable result");
      },
      [flags] { return materialize(*flags); }};
}

}  // namespace fusec::tool
