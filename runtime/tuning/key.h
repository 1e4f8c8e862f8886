// SPDX-License-Identifier: Apache-2.0
// What a measured time holds for, as text that people can read: equal texts, equal times.
#pragma once

#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/target.h"
#include "runtime/library/interface/library.h"
#include "runtime/link/link.h"

namespace fusec::runtime {

// The call: op, types, extents, strides, window, bias, epilogues, alignment, what is constant. Not its threads.
std::string tuning_call(const LibraryCall& call);
// All else: the device, threads of a host, versions of the libraries, and the options that change what they may do.
std::string tuning_scope(const Options& options, const Target& target, const LoadedProgram& loaded, int threads);

// Multiplications of the call, for an order of tuning.
double count_work(const LibraryCall& call);

}  // namespace fusec::runtime
