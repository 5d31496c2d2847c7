# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds COIN-OR CBC, the branch-and-cut solver for mixed-integer programmes, with its C++ interface.
#
#   CBC_FOUND, CBC_VERSION
#   CBC::CBC   imported target: Cbc, Cgl, OsiClp, Clp, Osi and CoinUtils with their headers
#
# Debian and Ubuntu: coinor-libcbc-dev (brings coinor-libcgl-dev, coinor-libclp-dev, coinor-libosi-dev and
# coinor-libcoinutils-dev). Elsewhere name the prefix with -DCBC_ROOT=<folder>.
include(FindPackageHandleStandardArgs)

find_path(CBC_INCLUDE_DIR NAMES CbcModel.hpp PATH_SUFFIXES coin coin-or)
set(cbc_required CBC_INCLUDE_DIR)
foreach(part Cbc Cgl OsiClp Clp Osi CoinUtils)
  find_library(CBC_${part}_LIBRARY NAMES ${part})
  list(APPEND cbc_required CBC_${part}_LIBRARY)
endforeach()
mark_as_advanced(${cbc_required})

if(CBC_INCLUDE_DIR AND EXISTS "${CBC_INCLUDE_DIR}/CbcConfig.h")
  file(STRINGS "${CBC_INCLUDE_DIR}/CbcConfig.h" cbc_version_line REGEX "define CBC_VERSION +\"")
  string(REGEX REPLACE ".*\"([^\"]*)\".*" "\\1" CBC_VERSION "${cbc_version_line}")
endif()

find_package_handle_standard_args(CBC REQUIRED_VARS ${cbc_required} VERSION_VAR CBC_VERSION
  REASON_FAILURE_MESSAGE "install coinor-libcbc-dev, or set CBC_ROOT to the prefix of your own")

if(CBC_FOUND AND NOT TARGET CBC::CBC)
  # In link order: each library may use those to its right.
  foreach(part Cbc Cgl OsiClp Clp Osi CoinUtils)
    add_library(CBC::${part} UNKNOWN IMPORTED)
    set_target_properties(CBC::${part} PROPERTIES IMPORTED_LOCATION "${CBC_${part}_LIBRARY}")
  endforeach()
  add_library(CBC::CBC INTERFACE IMPORTED)
  set_target_properties(CBC::CBC PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CBC_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "CBC::Cbc;CBC::Cgl;CBC::OsiClp;CBC::Clp;CBC::Osi;CBC::CoinUtils")
endif()
