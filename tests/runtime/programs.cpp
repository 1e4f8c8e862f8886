// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/programs.h"

#include <algorithm>

#include "runtime/plan/state.h"

namespace fusec::runtime_test {
namespace {

float* buffer(const codegen::HostArgs* args, int i) { return static_cast<float*>(args->buffers[i]); }

ir::AllocId allocate(ir::Program& program, ir::AllocKind kind, std::string name, DType dtype, Dim elements,
                     std::size_t at) {
  return program.allocs.push_back({kind, std::move(name), dtype, std::move(elements), static_cast<uint32_t>(at)});
}

}  // namespace

void add_one(const codegen::HostArgs* args, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) buffer(args, 1)[i] = buffer(args, 0)[i] + 1;
}
void add(const codegen::HostArgs* args, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) buffer(args, 2)[i] = buffer(args, 0)[i] + buffer(args, 1)[i];
}
void split(const codegen::HostArgs* args, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) {
    buffer(args, 1)[i] = buffer(args, 0)[i];
    buffer(args, 2)[i] = -buffer(args, 0)[i];
  }
}

ir::View flat(ir::AllocId alloc, Dim elements, Dim offset) {
  return {alloc, std::move(offset), {std::move(elements)}, {1}};
}

ir::AllocId ProgramBuilder::input(const std::string& name, Dim elements, DType dtype) {
  const ir::AllocId id = allocate(program, ir::AllocKind::input, name, dtype, elements, program.inputs.size());
  program.inputs.push_back(id);
  program.input_names.push_back(name);
  program.input_types.push_back({dtype, {elements}});
  return id;
}

ir::AllocId ProgramBuilder::output(const std::string& name, Dim elements, DType dtype) {
  const ir::AllocId id = allocate(program, ir::AllocKind::output, name, dtype, elements, program.outputs.size());
  program.outputs.push_back(id);
  program.output_names.push_back(name);
  program.output_types.push_back({dtype, {elements}});
  return id;
}

ir::AllocId ProgramBuilder::constant(const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  Tensor data = *Tensor::make(DType::f32, {count});
  std::copy(values.begin(), values.end(), data.as<float>());
  program.constants.push_back(std::move(data));
  return allocate(program, ir::AllocKind::constant, "", DType::f32, count, program.constants.size() - 1);
}

ir::AllocId ProgramBuilder::temporary(Dim elements) {
  return allocate(program, ir::AllocKind::temporary, "", DType::f32, std::move(elements), 0);
}

ir::KernelId ProgramBuilder::kernel(const KernelSpec& spec) {
  ir::Kernel kernel;
  kernel.name = spec.name;
  const ir::IndexExpr length = ir::IndexExpr::symbol(kernel.extents.push_back("n"));
  for (int i = 0; i < spec.inputs + spec.outputs; ++i) {
    const ir::Space space = i < spec.inputs ? ir::Space::in : ir::Space::out;
    const ir::BufferId id =
        kernel.buffers.push_back({"b" + std::to_string(i), space, DType::f32, {length}, {}, spec.alignment, ""});
    kernel.params.push_back(id);
  }
  for (const auto& [in, out] : spec.alias) {
    kernel.may_alias.emplace_back(kernel.params[static_cast<std::size_t>(in)],
                                  kernel.params[static_cast<std::size_t>(spec.inputs + out)]);
  }
  if (spec.clamps) kernel.body.push_back({ir::Load{{}, kernel.params[0], {0}, {}, {}, 1}});
  const ir::KernelId id = program.kernels.push_back(std::move(kernel));
  specs_[id] = spec;
  return id;
}

ir::Step ProgramBuilder::step(ir::KernelId kernel, const std::vector<ir::View>& args, const std::string& origin) const {
  return {ir::KernelStep{kernel, args, {args.back().shape[0]}}, origin};
}

ir::Variant ProgramBuilder::variant(std::vector<Dim> when, std::vector<ir::Step> steps) {
  return {std::move(when), {{std::move(steps), "", 0}}, 0};
}

void ProgramBuilder::launch(ir::KernelId kernel, const std::vector<ir::View>& args, const std::string& origin) {
  slot({variant({}, {step(kernel, args, origin)})});
}

std::shared_ptr<const runtime::LoadedProgram> ProgramBuilder::load(
    std::vector<std::shared_ptr<runtime::Library>> libraries) const {
  auto loaded = std::make_shared<runtime::LoadedProgram>();
  loaded->program = program;
  loaded->kernels.resize(program.kernels.size());
  for (const auto& [id, spec] : specs_) {
    loaded->kernels[id].phases = {{.function = spec.function, .iterations = n()}};
    loaded->kernels[id].local_bytes = spec.local_bytes;
  }
  loaded->libraries = std::move(libraries);
  return loaded;
}

std::vector<TensorInfo> ProgramBuilder::inputs() const {
  std::vector<TensorInfo> out;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    out.push_back({program.input_names[i], program.input_types[i].dtype, program.input_types[i].shape});
  }
  return out;
}

std::vector<TensorInfo> ProgramBuilder::outputs() const {
  std::vector<TensorInfo> out;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    out.push_back({program.output_names[i], program.output_types[i].dtype, program.output_types[i].shape});
  }
  return out;
}

Engine ProgramBuilder::engine(int threads, std::vector<std::shared_ptr<runtime::Library>> libraries) const {
  auto state = std::make_shared<runtime::EngineState>();
  state->loaded = load(std::move(libraries));
  state->threads = threads;
  state->inputs = inputs();
  state->outputs = outputs();
  return Engine(std::move(state));
}

ProgramBuilder random_program(std::mt19937& random) {
  ProgramBuilder b;
  std::vector<ir::AllocId> values = {b.input("x")};
  const ir::AllocId y = b.output("y");
  const ir::KernelId kernels[] = {b.kernel({"a", 2, 1, add, {}, 0, false, {}}),
                                  b.kernel({"b", 2, 1, add, {{0, 0}}, 0, false, {}}),
                                  b.kernel({"c", 2, 1, add, {{1, 0}, {0, 0}}, 0, false, {}})};
  const int steps = 3 + static_cast<int>(random() % 60);
  const auto pick = [&] {
    const std::size_t back = random() % 2 ? random() % 12 : 0;
    return values[values.size() - 1 - std::min(values.size() - 1, back)];
  };
  for (int i = 0; i < steps; ++i) {
    const ir::AllocId p = pick(), q = pick(), t = i + 1 < steps ? b.temporary() : y;
    b.launch(kernels[random() % 3], {flat(p), flat(q), flat(t)});
    values.push_back(t);
  }
  return b;
}

}  // namespace fusec::runtime_test
