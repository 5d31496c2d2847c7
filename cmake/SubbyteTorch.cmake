# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Target `subbyte_torch`: LibTorch as it comes in the pip package `torch` (or as an unpacked LibTorch).
# Used by the build and, installed beside the package files, by projects that use subbyte.
#
# Where it is looked for, first found wins:
#   1. SUBBYTE_TORCH_DIR   CMake or environment variable: the folder with include/ and lib/
#   2. SUBBYTE_PYTHON      CMake or environment variable: a Python that has the package torch
#   3. Torch_DIR           the folder with TorchConfig.cmake
#   4. .venv               as `make setup` makes it
#   5. the one that an installed subbyte was built with
#
# LibTorch's own package file is not used: with a CUDA build it stops where no CUDA compiler is
# installed, although none is needed to compile against it.
include_guard()

# Sets `result` to the folder of the package torch that the interpreter `python` would import.
function(subbyte_torch_of_python python result)
  execute_process(
    COMMAND ${python} -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "SUBBYTE_PYTHON=${python} cannot find the package torch.\n"
      "  Install it there (pip install torch), or name another interpreter.")
  endif()
  set(${result} "${dir}" PARENT_SCOPE)
endfunction()

# Sets SUBBYTE_TORCH_ROOT; nothing is cached but what the user named, so a moved .venv is found again.
function(subbyte_find_torch)
  set(env_python "$ENV{SUBBYTE_PYTHON}")
  file(GLOB venv "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  if(SUBBYTE_TORCH_DIR)
    set(root "${SUBBYTE_TORCH_DIR}")
  elseif(DEFINED ENV{SUBBYTE_TORCH_DIR})
    set(root "$ENV{SUBBYTE_TORCH_DIR}")
  elseif(SUBBYTE_PYTHON)
    subbyte_torch_of_python("${SUBBYTE_PYTHON}" root)
  elseif(env_python)
    subbyte_torch_of_python("${env_python}" root)
  elseif(Torch_DIR)
    get_filename_component(root "${Torch_DIR}/../../.." ABSOLUTE)
  elseif(venv)
    list(GET venv 0 root)
  else()
    set(root "${SUBBYTE_TORCH_BUILT_WITH}")
  endif()

  foreach(file include/ATen/core/Tensor.h include/torch/headeronly/version.h
          lib/libtorch.so lib/libtorch_cpu.so lib/libc10.so)
    if(NOT root OR NOT EXISTS "${root}/${file}")
      message(FATAL_ERROR "LibTorch was not found: no '${file}' in '${root}'.\n"
        "  Run `make setup` (puts the pip package torch into .venv), or name your own with\n"
        "  -DSUBBYTE_TORCH_DIR=<folder with include/ and lib/> or -DSUBBYTE_PYTHON=<interpreter>.")
    endif()
  endforeach()
  set(SUBBYTE_TORCH_ROOT "${root}" PARENT_SCOPE)
endfunction()

if(NOT TARGET subbyte_torch)
  subbyte_find_torch()
  set(torch_lib ${SUBBYTE_TORCH_ROOT}/lib)
  file(STRINGS ${SUBBYTE_TORCH_ROOT}/include/torch/headeronly/version.h torch_version
    REGEX "^#define TORCH_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" torch_version "${torch_version}")
  if(NOT torch_version VERSION_EQUAL 2.13)
    message(WARNING "LibTorch ${torch_version} in ${SUBBYTE_TORCH_ROOT}: subbyte is tested with 2.13.")
  endif()
  message(STATUS "LibTorch ${torch_version}: ${SUBBYTE_TORCH_ROOT}")

  add_library(subbyte_torch INTERFACE IMPORTED GLOBAL)
  # Searched last, because it carries another version of fmt, which would shadow the system's.
  # -fopenmp: at::parallel_for is a template that runs serially without it.
  target_compile_options(subbyte_torch INTERFACE
    "SHELL:-idirafter ${SUBBYTE_TORCH_ROOT}/include"
    "SHELL:-idirafter ${SUBBYTE_TORCH_ROOT}/include/torch/csrc/api/include"
    -fopenmp)

  # The compiler's OpenMP library is not linked (no -fopenmp there): a process has one runtime only,
  # the one that comes with torch. Where torch brings none it uses the system's, and so do we.
  file(GLOB openmp LIST_DIRECTORIES false "${torch_lib}/libgomp*.so*" "${torch_lib}/libiomp5.so")
  if(openmp)
    list(GET openmp 0 openmp)
  else()
    set(openmp gomp)
  endif()
  target_link_libraries(subbyte_torch INTERFACE
    ${torch_lib}/libtorch_cpu.so ${torch_lib}/libc10.so ${openmp})
  # A CUDA build registers its kernels when this library is loaded; no symbol of it is named, and a
  # linker that drops unused libraries (Ubuntu's default) would drop it.
  if(EXISTS ${torch_lib}/libtorch_cuda.so)
    target_link_libraries(subbyte_torch INTERFACE
      -Wl,--push-state,--no-as-needed,${torch_lib}/libtorch_cuda.so,--pop-state)
  endif()
  # For the indirect libraries of those above; the run path itself is set from the paths above.
  target_link_options(subbyte_torch INTERFACE "LINKER:-rpath-link,${torch_lib}")
endif()
