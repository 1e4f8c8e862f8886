// SPDX-License-Identifier: Apache-2.0
// Four of our libraries in one process: the C++ ones, which it links, libfusec-c and libfusec-c-runtime, which it
// opens. Two of them have protobuf and the descriptors of ONNX inside, and do not meet. A package that one writes is
// run by the other.
//
//   beside <folder samples/digits> <folder to write to> <libfusec-c> <libfusec-c-runtime>

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "fusec/c.h"
#include "fusec/onnx.h"

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}

struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) fail(dlerror());
  }
  template <class F>
  F* find(const char* name) const {
    void* const found = dlsym(handle, name);
    if (found == nullptr) fail(dlerror());
    return reinterpret_cast<F*>(found);
  }
  void* handle;
};
#define FIND(library, name) (library).find<decltype(name)>(#name)

// The message of an error, "" where there is none.
std::string message(const Library& library, fusec_error* error) {
  if (error == nullptr) return "";
  std::string text = FIND(library, fusec_error_message)(error);
  FIND(library, fusec_error_free)(error);
  return text;
}

void succeed(const Library& library, fusec_error* error, const char* what) {
  if (error != nullptr) fail(std::string(what) + ": " + message(library, error));
}

void import_by_cpp(const std::string& path) {
  const fusec::Result<fusec::Model> model = fusec::load_onnx(path);
  if (!model.ok()) fail(model.status().str());
}

// A package of the model at `path`.
void write_package(const Library& full, const std::string& path, const std::string& package) {
  fusec_model* model = nullptr;
  succeed(full, FIND(full, fusec_model_load_onnx)(path.c_str(), nullptr, &model), "import");
  const char* const target = "cpu:native";
  succeed(full, FIND(full, fusec_compile_package)(model, &target, 1, package.c_str(), nullptr), "compile");
  FIND(full, fusec_model_free)(model);
}

void run_package(const Library& runtime, const std::string& package) {
  fusec_engine* engine = nullptr;
  fusec_session* session = nullptr;
  succeed(runtime, FIND(runtime, fusec_engine_load)(package.c_str(), nullptr, &engine), "load");
  succeed(runtime, FIND(runtime, fusec_session_new)(engine, &session), "session");
  float image[64] = {};
  float probabilities[10] = {};
  const int64_t extents[] = {1, 1, 8, 8};
  void* const in[] = {image};
  void* const out[] = {probabilities};
  succeed(runtime, FIND(runtime, fusec_session_run_raw)(session, extents, in, out, nullptr), "run");
  float sum = 0;
  for (const float p : probabilities) sum += p;
  if (sum < 0.999f || sum > 1.001f) fail("the probabilities add up to " + std::to_string(sum));
  FIND(runtime, fusec_session_free)(session);
  FIND(runtime, fusec_engine_free)(engine);
}

// Whatever would compile says what to do.
void refuse_to_compile(const Library& runtime, const std::string& path) {
  fusec_model* model = nullptr;
  fusec_error* const error = FIND(runtime, fusec_model_load_onnx)(path.c_str(), nullptr, &model);
  if (FIND(runtime, fusec_error_code)(error) != FUSEC_UNSUPPORTED) fail("the runtime imports a model");
  const std::string text = message(runtime, error);
  if (text.find("compile by libfusec-c") == std::string::npos) fail("the runtime says: " + text);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) fail("usage: beside <samples/digits> <folder to write to> <libfusec-c> <libfusec-c-runtime>");
  const std::string model = std::string(argv[1]) + "/digits.onnx", package = std::string(argv[2]) + "/beside.fsc";
  import_by_cpp(model);
  const Library full(argv[3]), runtime(argv[4]);
  write_package(full, model, package);
  import_by_cpp(model);
  run_package(runtime, package);
  refuse_to_compile(runtime, model);
  return 0;
}
