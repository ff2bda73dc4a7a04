# Helpers that every layer's CMakeLists.txt uses.

# Compiled once is compiled for every preset and clone whose options are the same: paths inside the checkout count as they
# are seen from the build folder (ccache's manual, "Compiling in different directories"). The sloppiness is what it asks
# for where headers are precompiled.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# Warnings and include root of all of gantry's own code.
add_library(gantry_options INTERFACE)
target_include_directories(gantry_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(gantry_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
# It takes operator+ of strings to write beyond them (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(gantry_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
endif()
if(GANTRY_SANITIZE)
  target_compile_options(gantry_options INTERFACE -fsanitize=${GANTRY_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(gantry_options INTERFACE -fsanitize=${GANTRY_SANITIZE})
endif()

# Compiles a folder's common_headers.h, once for all that share it: those that are compiled as `name` is, a library or
# a program with the same options.
function(gantry_common_headers name)
  target_link_libraries(${name} PRIVATE gantry_options ${ARGN})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE folder)
  target_precompile_headers(${name} PRIVATE <${folder}/common_headers.h>)
endfunction()

# gantry_layer(NAME SOURCES a.cpp … LINKS layer …): a static library of one layer, linking only downwards.
# Those in host/ share host/common_headers.h.
function(gantry_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC gantry_options ${ARG_LINKS})
  set(host ${CMAKE_SOURCE_DIR}/host)
  cmake_path(IS_PREFIX host ${CMAKE_CURRENT_SOURCE_DIR} in_host)
  if(in_host)
    target_precompile_headers(${name} REUSE_FROM gantry_host_headers)
  endif()
endfunction()

# gantry_test(NAME SOURCES a.cpp … LINKS layer … [LABELS fast]): a GoogleTest program, its cases known to CTest.
# Without a label a test is "slow".
include(GoogleTest)
function(gantry_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE gantry_options ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests GANTRY_TEST ON)
  if(NOT "${ARG_SOURCES}" MATCHES "\\.c(;|$)")  # CMake would want the headers in C, too
    target_precompile_headers(${name} REUSE_FROM gantry_test_headers)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS slow)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()
