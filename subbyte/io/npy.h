// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "subbyte/core/file.h"

namespace subbyte::io {

// Reads a NumPy array file (.npy version 1 or 2; numpy.lib.format): little-endian f2 f4 f8, i1 to
// i8, u1 to u8 and b1, in C or Fortran order. Gives a contiguous CPU tensor with the shape of the
// array. Error kData: anything else, with the header's words; a file that is longer or shorter than
// dtype and shape say, with both numbers. All of it is checked before memory is taken for the
// array.
at::Tensor read_npy(const std::filesystem::path& path);

// Writes version 1.0, in Fortran order when only the transposed tensor is contiguous (as NumPy
// does), else in C order. As a whole or not at all, see AtomicFile. Error kUsage for an undefined
// or sparse tensor and for a dtype that NumPy does not have (BF16, FP8); Error kData when the disk
// is full.
WrittenFile write_npy(const std::filesystem::path& path, const at::Tensor& tensor);

}  // namespace subbyte::io
