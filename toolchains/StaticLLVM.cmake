# gantry_link_static_llvm(TARGET BACKENDS): LLD and of LLVM what it and code generation for the back ends need.
#
# LLD asks for all of LLVM's back ends and for Polly, for objects that are still to be compiled, which gantry does not
# give it. What is not wanted is answered by functions that do nothing, and so stays out of the program.
function(gantry_link_static_llvm target backends)
  find_library(ZSTD_STATIC_LIBRARY NAMES libzstd.a REQUIRED)
  find_package(ZLIB REQUIRED)
  # As their packages have it, these ask for Z3, which nothing calls, for Polly, and for LLVM's shared library.
  set(compression ZLIB::ZLIB ${ZSTD_STATIC_LIBRARY})
  set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "LLVMDemangle;m;${compression}")
  set_target_properties(LLVMExtensions PROPERTIES INTERFACE_LINK_LIBRARIES LLVMSupport)
  set_target_properties(lldCommon PROPERTIES INTERFACE_LINK_LIBRARIES "")
  set_target_properties(lldELF PROPERTIES INTERFACE_LINK_LIBRARIES "lldCommon;${compression}")

  set(unwanted ${LLVM_TARGETS_TO_BUILD})
  list(REMOVE_ITEM unwanted ${backends})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/absent_llvm_backends.c)
  set(text "/* Written by toolchains/StaticLLVM.cmake. */\n")
  foreach(backend ${unwanted})
    foreach(part TargetInfo Target TargetMC AsmPrinter AsmParser)
      string(APPEND text "void LLVMInitialize${backend}${part}(void) {}\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
  add_library(absent_llvm STATIC ${source} ${CMAKE_SOURCE_DIR}/toolchains/static_libraries/absent_polly.cpp)
  target_include_directories(absent_llvm SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})

  llvm_map_components_to_libnames(libraries ${backends} LTO ObjCopy Option Passes)
  # The first that is asked answers, so what is absent stands behind all that ask.
  target_link_libraries(${target} PRIVATE lldELF ${libraries} absent_llvm)
endfunction()
