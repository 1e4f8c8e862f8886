// SPDX-License-Identifier: Apache-2.0
// A bound call: primitives in order, where each of their arguments comes from, and what is done after them.
#pragma once

#include <dnnl.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/host/memory.h"
#include "runtime/library/interface/problem.h"
#include "runtime/library/onednn/move.h"

namespace fusec::runtime::onednn {

enum class Place { arg, temporary, scratchpad, fixed };

struct Slot {
  int id = 0;  // DNNL_ARG_*
  dnnl::memory::desc desc;
  Place place = Place::arg;
  int arg = -1;                               // of Place::arg
  std::size_t offset = 0;                     // of Place::temporary, in the workspace
  std::shared_ptr<const dnnl::memory> fixed;  // of Place::fixed
};

struct Stage {
  dnnl::primitive primitive;
  std::vector<Slot> slots;
};

struct Recipe {
  std::vector<Stage> stages;
  std::size_t temporaries = 0, scratchpad = 0;  // bytes
  std::string implementation;

  // A piece of the workspace, 64-byte aligned.
  std::size_t reserve(std::size_t bytes);
  // Adds a primitive and its scratchpad.
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, std::vector<Slot> slots);
  void add_reorder(const dnnl::engine& engine, const Slot& from, const Slot& to);
};

// What loops do after the primitives: to = posts(from).
struct Trailing {
  Operand from, to;
  bool from_temporary = false;
  std::size_t offset = 0;  // of `from` in the workspace
  std::vector<PostOp> posts;
};

struct Built {
  Recipe recipe;
  std::optional<Move> move;                  // after the recipe
  std::shared_ptr<const Trailing> trailing;  // after the move; null: nothing
  // The recipe for when args[alias] is the output's own memory.
  int alias = -1;
  Recipe in_place;
};

// Weights of the Engine in the formats that primitives asked for, each made once. They lie in a few large pieces of
// memory on huge pages: a step that streams cold weights from pages of 4 KiB takes a tenth to a quarter longer.
class PackedWeights {
 public:
  // `data` described by `from`, as `to`.
  std::shared_ptr<const dnnl::memory> get(const dnnl::engine& engine, const void* data, const dnnl::memory::desc& from,
                                          const dnnl::memory::desc& to);

 private:
  struct Entry {
    dnnl::memory::desc from;
    std::shared_ptr<const dnnl::memory> packed;
  };
  // Memory for a format, in the piece at hand or in a new one.
  std::shared_ptr<const dnnl::memory> make(const dnnl::engine& engine, const dnnl::memory::desc& desc);

  std::mutex mutex_;
  std::map<const void*, std::vector<Entry>> entries_;
  std::shared_ptr<AlignedBuffer> piece_;
  std::size_t used_ = 0;  // bytes of piece_
};

// Null when the call has too many arguments.
std::unique_ptr<LibraryOp> make_op(const dnnl::engine& engine, Built built, const LibraryCall& call);

}  // namespace fusec::runtime::onednn
