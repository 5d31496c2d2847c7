# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -DBUILD=<build> -DSOURCE=<consumer> -DWORK=<folder> -DCXX_FLAGS=<flags> -P install_test.cmake

# Runs a command, stops the test if it fails; its standard output is left in `output`.
function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGV}\n${output}\n${error}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
# What a user's shell may hold must not hide that the package finds its own LibTorch.
unset(ENV{SUBBYTE_TORCH_DIR})
unset(ENV{SUBBYTE_PYTHON})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

foreach(layer kernels ops)
  set(build ${WORK}/${layer})
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${build} -DLAYER=${layer} -DCMAKE_CXX_FLAGS=${CXX_FLAGS}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix)
  if(layer STREQUAL kernels AND output MATCHES "LibTorch")
    message(FATAL_ERROR "a consumer of the torch-free layers was made to look for LibTorch:\n${output}")
  endif()
  run(${CMAKE_COMMAND} --build ${build})
  run(${build}/consumer)
  # Uniform values on the E2M1 grid, scaled to its end: mean square of the step over 12 is 0.1458, mean
  # square of the values 12, so the relative error is near sqrt(0.1458 / 12) = 0.110.
  if(NOT output MATCHES "^fp4 error 0\\.1[01]")
    message(FATAL_ERROR "${layer}: unexpected output: ${output}")
  endif()
endforeach()
run(${WORK}/prefix/bin/subbyte version)
