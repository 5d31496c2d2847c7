# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# subbyte_layer(NAME [DEPENDS layer...] [LIBRARIES target...])
#
# One folder under subbyte/ is one static library `subbyte_NAME` (alias subbyte::NAME). Every *.cpp in
# the folder and its sub-folders belongs to it. The file suffix decides the instruction set, so no file
# can be compiled with a wrong flag by hand. A folder without sources is a header-only library.
include_guard()

set(SUBBYTE_AVX2_FLAGS -mavx2 -mfma -mf16c)
set(SUBBYTE_AVX512_FLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16
    -mavx512vbmi -mavx2 -mfma -mf16c)

# What every target of the project is compiled with, tests and benchmarks too.
function(subbyte_compile_options target)
  # -ffp-contract=off: fused multiply-adds appear only where they are written, so that every
  # instruction set gives the same bits.
  target_compile_options(${target} PRIVATE -ffp-contract=off -Wall -Wextra -Wshadow -Wno-psabi)
  if(SUBBYTE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  # Reading LibTorch's headers is most of the compile time of a file: several files read them once.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SUBBYTE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

function(subbyte_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(scope PUBLIC)
  if(sources)
    add_library(subbyte_${name} STATIC ${sources})
    set_target_properties(subbyte_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    subbyte_compile_options(subbyte_${name})
  else()
    add_library(subbyte_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(subbyte::${name} ALIAS subbyte_${name})
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${SUBBYTE_AVX2_FLAGS}")
    elseif(source MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${SUBBYTE_AVX512_FLAGS}")
    endif()
  endforeach()

  target_include_directories(subbyte_${name} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(subbyte_${name} ${scope} cxx_std_20)
  foreach(layer IN LISTS ARG_DEPENDS)
    target_link_libraries(subbyte_${name} ${scope} subbyte_${layer})
  endforeach()
  target_link_libraries(subbyte_${name} ${scope} ${ARG_LIBRARIES})

  set_target_properties(subbyte_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS subbyte_${name} EXPORT subbyteTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/subbyte/${name} FILES_MATCHING PATTERN "*.h")
endfunction()
