// SPDX-License-Identifier: Apache-2.0
// The values between the steps of a run: a model is compiled as always and run launch by launch, and after each region
// its outputs are copied to the host. The alternative, a second model with these values as outputs, is a program with
// other allocations, views and fusion, so that a defect may be gone there; here the code, the plan and the addresses
// are those of every other run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "runtime/engine/engine.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

// A value of the optimized graph that exists at run time.
struct ValueInfo {
  ir::ValueId id;
  std::string name;          // of an output; else its number in `fusec optimize`: "%7"
  std::string origin;        // of the node that makes it
  std::string op;            // of that node
  std::size_t region = 0;    // as `fusec explain` numbers them
  std::size_t step = 0;      // the last launch of the region, as `fusec bench --steps` numbers them
  std::string kernel;        // of that launch: its kernel, or the library's name for what it runs
  std::string key, own_key;  // see ValueKeys
};

// What tells values of two graphs apart. Two with the same key are made by the same ops with the same attributes from
// the same constants and inputs, back to the inputs: they must be equal. With the same own key the node has the same
// origin, op, attributes, type and constant operands, whatever is before it.
struct ValueKeys {
  std::string key, own_key;
};
std::map<ir::ValueId, ValueKeys> make_value_keys(const ir::Graph& graph);

class ValueRun {
 public:
  // Called in the order of the launches, each value row-major on the host.
  using OnValue = std::function<Status(const ValueInfo& info, const Tensor& value)>;

  static Result<ValueRun> make(const Model& model, Options options);
  // The outputs of the model.
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs, const OnValue& on_value) const;

  const Engine& engine() const { return engine_; }
  const ir::Graph& graph() const { return stages_.graph; }  // as optimized
  const compiler::Region& region(std::size_t i) const { return stages_.partition.regions[i]; }
  std::size_t regions() const { return stages_.partition.regions.size(); }
  std::size_t nodes() const;  // of the optimized graph, without constants
  // Of these: whose values no run has, because the node that reads them is in the same region, or they are views.
  std::size_t nodes_inside_regions() const;
  // "%7", or the name of an input or output.
  const std::string& name(ir::ValueId v) const { return names_.at(v); }

 private:
  ValueRun(Engine engine, runtime::Stages stages);

  Engine engine_;
  runtime::Stages stages_;
  std::map<ir::ValueId, std::string> names_;
  std::map<ir::ValueId, ValueKeys> keys_;
};

}  // namespace fusec::tool
