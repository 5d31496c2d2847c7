# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# The package that `cmake --install` leaves for other projects: find_package(subbyte).
# Libraries and headers are installed by subbyte_layer(), the program by subbyte/cli.
include_guard()
include(CMakePackageConfigHelpers)

set(SUBBYTE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/subbyte)

install(EXPORT subbyteTargets NAMESPACE subbyte:: DESTINATION ${SUBBYTE_PACKAGE_DIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/subbyteConfig.cmake.in
  ${PROJECT_BINARY_DIR}/subbyteConfig.cmake INSTALL_DESTINATION ${SUBBYTE_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/subbyteConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
file(GLOB find_modules ${PROJECT_SOURCE_DIR}/cmake/Find*.cmake)
install(FILES
  ${PROJECT_BINARY_DIR}/subbyteConfig.cmake
  ${PROJECT_BINARY_DIR}/subbyteConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/SubbyteTorch.cmake
  ${find_modules}
  DESTINATION ${SUBBYTE_PACKAGE_DIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
