# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# subbyte_layer(NAME [DEPENDS layer...] [LIBRARIES target...])
#
# One folder under subbyte/ is one static library `subbyte_NAME` (alias subbyte::NAME). Every *.cpp in
# the folder and its sub-folders belongs to it. The file suffix decides the instruction set, so no file
# can be compiled with a wrong flag by hand.
include_guard()

set(SUBBYTE_AVX2_FLAGS -mavx2 -mfma -mf16c)
set(SUBBYTE_AVX512_FLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16
    -mavx512vbmi -mavx2 -mfma -mf16c)

function(subbyte_compile_options target)
  # -ffp-contract=off: fused multiply-adds appear only where they are written, so that every
  # instruction set gives the same bits.
  target_compile_options(${target} PRIVATE -ffp-contract=off -Wall -Wextra -Wshadow -Wno-psabi)
  if(SUBBYTE_DEV)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

function(subbyte_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(subbyte_${name} STATIC ${sources})
  add_library(subbyte::${name} ALIAS subbyte_${name})
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${SUBBYTE_AVX2_FLAGS}")
    elseif(source MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${SUBBYTE_AVX512_FLAGS}")
    endif()
  endforeach()
  target_include_directories(subbyte_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_compile_features(subbyte_${name} PUBLIC cxx_std_20)
  set_target_properties(subbyte_${name} PROPERTIES EXPORT_NAME ${name}
    POSITION_INDEPENDENT_CODE ON)
  foreach(layer IN LISTS ARG_DEPENDS)
    target_link_libraries(subbyte_${name} PUBLIC subbyte_${layer})
  endforeach()
  target_link_libraries(subbyte_${name} PUBLIC ${ARG_LIBRARIES})
  subbyte_compile_options(subbyte_${name})
  set_property(GLOBAL APPEND PROPERTY SUBBYTE_LAYERS subbyte_${name})
endfunction()
