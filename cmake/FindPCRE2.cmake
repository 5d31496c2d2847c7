# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds PCRE2, the regular-expression library, for 8-bit code units.
#
#   PCRE2_FOUND, PCRE2_VERSION
#   PCRE2::8bit   imported target: libpcre2-8 with its header
#
# Debian and Ubuntu: libpcre2-dev. Elsewhere name the prefix with -DPCRE2_ROOT=<folder>.
include(FindPackageHandleStandardArgs)

find_path(PCRE2_INCLUDE_DIR NAMES pcre2.h)
find_library(PCRE2_8_LIBRARY NAMES pcre2-8)
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_8_LIBRARY)

if(PCRE2_INCLUDE_DIR)
  file(STRINGS "${PCRE2_INCLUDE_DIR}/pcre2.h" pcre2_lines REGEX "define PCRE2_(MAJOR|MINOR) ")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" PCRE2_VERSION "${pcre2_lines}")
endif()

find_package_handle_standard_args(PCRE2 REQUIRED_VARS PCRE2_8_LIBRARY PCRE2_INCLUDE_DIR
  VERSION_VAR PCRE2_VERSION
  REASON_FAILURE_MESSAGE "install libpcre2-dev, or set PCRE2_ROOT to the prefix of your own")

if(PCRE2_FOUND AND NOT TARGET PCRE2::8bit)
  add_library(PCRE2::8bit UNKNOWN IMPORTED)
  set_target_properties(PCRE2::8bit PROPERTIES
    IMPORTED_LOCATION "${PCRE2_8_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${PCRE2_INCLUDE_DIR}")
endif()
