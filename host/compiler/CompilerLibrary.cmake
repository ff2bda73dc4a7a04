# find_package(gantry COMPONENTS compiler): the whole compiler as one shared library with its headers. Its interface is
# that of the source tree, and changes with it: what is built against one version is built again for the next.
#   cmake --build build --target gantry_compiler_library
#   for part in runtime dev compiler; do cmake --install build --component $part --prefix TREE; done
# Each before what it links: CMake would name a layer once more behind one that comes later.
set(layers gantry_compiler gantry_loaded_program gantry_string_tensors gantry_driver gantry_onnx gantry_custom_ops
  gantry_forms gantry_target gantry_costs gantry_passes gantry_codegen gantry_ops gantry_loops gantry_tensor gantry_graph
  gantry_machine gantry_support)
add_library(gantry_compiler_library SHARED library.cpp)
set_target_properties(gantry_compiler_library PROPERTIES
  OUTPUT_NAME gantry_compiler EXPORT_NAME compiler VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION})
target_link_libraries(gantry_compiler_library PRIVATE ${layers})
list(JOIN layers "," joined)
set_property(TARGET gantry_compiler_library PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${joined}")
# The runtime's names stay inside: a program may use another version of it beside.
target_link_options(gantry_compiler_library PRIVATE -Wl,--exclude-libs,libgantry_runtime_static.a)
find_package(fmt REQUIRED)
target_link_libraries(gantry_compiler_library INTERFACE fmt::fmt)
target_compile_features(gantry_compiler_library INTERFACE cxx_std_20)
set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/gantry-compiler)
target_include_directories(gantry_compiler_library INTERFACE
  $<INSTALL_INTERFACE:${include_folder}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)  # and gantry/dlpack.h, of the part dev

install(TARGETS gantry_compiler_library EXPORT gantry-compiler
  LIBRARY COMPONENT compiler EXCLUDE_FROM_ALL)
foreach(layer support machine graph tensor loops ops custom_ops passes codegen costs targets/common driver onnx compiler)
  file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/host/${layer}/*.h)
  foreach(header ${headers})
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${include_folder}/${folder} COMPONENT compiler EXCLUDE_FROM_ALL)
  endforeach()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/device_runtime/schema/verify_strings.h
  DESTINATION ${include_folder}/device_runtime/schema COMPONENT compiler EXCLUDE_FROM_ALL)
install(FILES ${CMAKE_BINARY_DIR}/generated/module_generated.h DESTINATION ${include_folder}
  COMPONENT compiler EXCLUDE_FROM_ALL)
install(EXPORT gantry-compiler NAMESPACE gantry:: FILE gantry-compiler-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gantry COMPONENT compiler EXCLUDE_FROM_ALL)
