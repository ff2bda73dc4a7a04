# As aarch64-linux-gnu.cmake, with the libraries of a root of Debian's arm64 packages, which toolchains/make_sysroot
# unpacks: for what links more of them than can be installed beside this machine's own.
include(${CMAKE_CURRENT_LIST_DIR}/aarch64-linux-gnu.cmake)
get_filename_component(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build-sysroot-arm64 REALPATH)
if(NOT EXISTS ${CMAKE_SYSROOT}/complete)
  message(FATAL_ERROR "${CMAKE_SYSROOT} is missing: toolchains/make_sysroot unpacks Debian's arm64 packages there")
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config, which some of CMake's modules ask first, would answer for this machine.
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(LLVM_DIR ${CMAKE_SYSROOT}/usr/lib/llvm-19/lib/cmake/llvm CACHE PATH "LLVM 19's CMake package")
set(LLD_DIR ${CMAKE_SYSROOT}/usr/lib/llvm-19/lib/cmake/lld CACHE PATH "LLD 19's CMake package")
# Libraries of the root lie where every system has them. CMake knows that only while the root's path has no space, and would
# write their folder into what is linked, which then depends on where it was built.
set(CMAKE_SKIP_RPATH ON)
# What is compiled names no folder of the build.
set(CMAKE_C_FLAGS_INIT "\"-ffile-prefix-map=${CMAKE_SYSROOT}=\"")
set(CMAKE_CXX_FLAGS_INIT "\"-ffile-prefix-map=${CMAKE_SYSROOT}=\"")
