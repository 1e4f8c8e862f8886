// SPDX-License-Identifier: Apache-2.0
// The machine code of GPUs as text, by NVIDIA's disassembler, which is a program of the CUDA toolkit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/status.h"

namespace fusec::tool {

// Takes nvdisasm, else cuobjdump: the first that is found in $FUSEC_CUDA_HOME/bin, on PATH, in /usr/local/cuda/bin.
// `lines`: with the source lines that the cubin knows. unsupported: none is found, and what to install. device: it
// cannot be run on the cubin.
Result<std::string> disassemble(const std::vector<uint8_t>& cubin, bool lines);

}  // namespace fusec::tool
