# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Target `subbyte_torch`: LibTorch as it comes in the pip package `torch`.
#
# Its include folder is searched last (-idirafter) because it carries another version of fmt, which
# would shadow the system's and break spdlog. Only torch's own OpenMP runtime is loaded, so its library
# folder goes into the run path.
include_guard()

find_package(Torch QUIET CONFIG)
if(NOT Torch_FOUND)
  message(FATAL_ERROR "LibTorch was not found.\n"
    "  Run `make setup` (installs the pip package torch into .venv), or name your own with\n"
    "  -DTorch_DIR=<folder with TorchConfig.cmake>.")
endif()

add_library(subbyte_torch INTERFACE)
get_filename_component(SUBBYTE_TORCH_LIB_DIR "${TORCH_LIBRARY}" DIRECTORY)
set(torch_options)
foreach(dir IN LISTS TORCH_INCLUDE_DIRS)
  list(APPEND torch_options "SHELL:-idirafter ${dir}")
endforeach()
target_compile_options(subbyte_torch INTERFACE ${torch_options} -fopenmp)
target_link_libraries(subbyte_torch INTERFACE
  ${SUBBYTE_TORCH_LIB_DIR}/libtorch.so
  ${SUBBYTE_TORCH_LIB_DIR}/libtorch_cpu.so
  ${SUBBYTE_TORCH_LIB_DIR}/libc10.so)
target_link_options(subbyte_torch INTERFACE "LINKER:-rpath,${SUBBYTE_TORCH_LIB_DIR}")
