# For applications: the C API alone, as a shared and as a static library, and what finds them when they are installed.

add_library(gantry_runtime SHARED)
target_link_libraries(gantry_runtime PRIVATE
  gantry_runtime_objects gantry_runtime_no_builtins gantry_runtime_no_counters gantry_runtime_driver)
set(exported ${CMAKE_CURRENT_SOURCE_DIR}/package/gantry_runtime.map)
# Code and constants share pages: those that part them are 8 KiB of a small file.
set(link_small -Wl,--gc-sections -Wl,-z,noseparate-code)
target_link_options(gantry_runtime PRIVATE ${link_small} -Wl,--exclude-libs,ALL -Wl,--version-script=${exported})
set_target_properties(gantry_runtime PROPERTIES LINK_DEPENDS ${exported})
set_target_properties(gantry_runtime PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME runtime)

# The same for models with strings (gantry/strings.h) or encoded images.
add_library(gantry_runtime_builtins SHARED)
target_link_libraries(gantry_runtime_builtins PRIVATE
  gantry_runtime_objects gantry_runtime_builtins_objects gantry_runtime_no_counters gantry_runtime_driver
  ${GANTRY_IMAGE_SHARED_LIBRARIES})
target_link_options(gantry_runtime_builtins PRIVATE
  ${link_small} -Wl,--exclude-libs,ALL -Wl,--version-script=${exported})
set_target_properties(gantry_runtime_builtins PROPERTIES
  LINK_DEPENDS ${exported} VERSION ${PROJECT_VERSION} SOVERSION 0)

# The static library is one object in which all names but the C API's are local: an application's own flatbuffers, or
# functions of the standard library compiled with other options, never meet the runtime's. Groups, by which a linker
# keeps one of several copies of a function, are dissolved first: what is local must not be dropped for a stranger's.
set(merged_object ${CMAKE_CURRENT_BINARY_DIR}/gantry_runtime_merged.o)
set(application_object ${CMAKE_CURRENT_BINARY_DIR}/gantry_runtime.o)
set(runtime_objects $<TARGET_OBJECTS:gantry_runtime_objects> $<TARGET_OBJECTS:gantry_runtime_no_builtins>
  $<TARGET_OBJECTS:gantry_runtime_no_counters> $<TARGET_OBJECTS:gantry_runtime_driver>)
add_custom_command(
  OUTPUT ${application_object}
  COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o ${merged_object} ${runtime_objects}
  COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=gantry_* ${merged_object} ${application_object}
  DEPENDS ${runtime_objects}
  COMMAND_EXPAND_LISTS
  COMMENT "Joining the objects of the static runtime")
add_library(gantry_runtime_archive STATIC ${application_object})
set_target_properties(gantry_runtime_archive PROPERTIES
  OUTPUT_NAME gantry_runtime EXPORT_NAME runtime_static LINKER_LANGUAGE C)
# Of the C++ library it needs what a C++ program links anyway.
target_link_libraries(gantry_runtime_archive INTERFACE
  Threads::Threads ${CMAKE_DL_LIBS} m $<$<NOT:$<LINK_LANGUAGE:CXX>>:stdc++>)
# Who builds the one to install it installs the other too.
add_dependencies(gantry_runtime gantry_runtime_archive)

foreach(library gantry_runtime gantry_runtime_builtins gantry_runtime_archive)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

install(TARGETS gantry_runtime EXPORT gantry-runtime
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS gantry_runtime_builtins LIBRARY COMPONENT builtins EXCLUDE_FROM_ALL)
install(FILES include/gantry/strings.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gantry COMPONENT builtins EXCLUDE_FROM_ALL)
install(TARGETS gantry_runtime_archive EXPORT gantry-runtime-static ARCHIVE COMPONENT dev)
install(
  FILES
    include/gantry/custom_op.h
    include/gantry/dlpack.h
    include/gantry/kernel_abi.h
    include/gantry/module.hpp
    include/gantry/result.hpp
    include/gantry/runtime.h
    include/gantry/runtime.hpp
    include/gantry/session.hpp
    include/gantry/tensor.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gantry COMPONENT dev)

# find_package(gantry COMPONENTS runtime): the targets, and what finds them wherever the tree is moved.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/gantry)
foreach(export gantry-runtime gantry-runtime-static)
  install(EXPORT ${export} NAMESPACE gantry:: FILE ${export}-targets.cmake DESTINATION ${package_folder} COMPONENT dev)
endforeach()
configure_package_config_file(package/gantry-config.cmake.in gantry-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(gantry-version-numbers.cmake COMPATIBILITY SameMajorVersion)
configure_file(package/gantry-config-version.cmake.in gantry-config-version.cmake @ONLY)
install(FILES
    ${CMAKE_CURRENT_BINARY_DIR}/gantry-config.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/gantry-config-version.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/gantry-version-numbers.cmake
  DESTINATION ${package_folder} COMPONENT dev)
# gantry's own toolchain file builds applications too; who came with another has it.
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${CMAKE_TOOLCHAIN_FILE}" NORMALIZE toolchain_is_gantrys)
if(CMAKE_CROSSCOMPILING AND toolchain_is_gantrys)
  install(FILES ${CMAKE_TOOLCHAIN_FILE} DESTINATION ${package_folder} COMPONENT dev)
endif()

# pkg-config gantry-runtime, and gantry-runtime-static where the shared library is there too and not wanted. Both speak of
# the tree that they lie in.
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pkgconfig_prefix ${CMAKE_INSTALL_PREFIX})
  set(pkgconfig_libdir ${CMAKE_INSTALL_LIBDIR})
else()
  file(RELATIVE_PATH pkgconfig_up /prefix/${pkgconfig_folder} /prefix)
  string(REGEX REPLACE "/$" "" pkgconfig_up "${pkgconfig_up}")
  set(pkgconfig_prefix "\${pcfiledir}/${pkgconfig_up}")
  set(pkgconfig_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
set(pkgconfig_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pkgconfig_includedir ${CMAKE_INSTALL_INCLUDEDIR})
endif()
foreach(name gantry-runtime gantry-runtime-static)
  configure_file(package/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${pkgconfig_folder} COMPONENT dev)
endforeach()

gantry_install_licences(runtime libflatbuffers-dev)
gantry_install_licences(dev libflatbuffers-dev)
