# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds the headers of xxHash, which are all that is used (XXH_INLINE_ALL).
#
#   xxHash_FOUND
#   xxHash::xxHash   imported target
#
# Debian and Ubuntu: libxxhash-dev. Elsewhere name the prefix with -DxxHash_ROOT=<folder>.
include(FindPackageHandleStandardArgs)

find_path(xxHash_INCLUDE_DIR NAMES xxhash.h)
mark_as_advanced(xxHash_INCLUDE_DIR)
find_package_handle_standard_args(xxHash REQUIRED_VARS xxHash_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libxxhash-dev, or set xxHash_ROOT to the prefix of your own")

if(xxHash_FOUND AND NOT TARGET xxHash::xxHash)
  add_library(xxHash::xxHash INTERFACE IMPORTED)
  set_target_properties(xxHash::xxHash PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${xxHash_INCLUDE_DIR}")
endif()
