# Links a program so that it runs with an older glibc than that of the machine that builds it.
#
# A program that loads NVIDIA's driver must be linked dynamically, and glibc gives every symbol the version in which
# it last changed: linked on Debian 12, a program would ask for glibc 2.34. Nearly all of those changes are moves of
# functions from libpthread and libdl into libc. The linker wraps these functions for all objects, libstdc++'s and
# OpenSSL's too; old_glibc.c has the wrappers, which call the old versions.
function(gantry_link_for_old_glibc target)
  set(wrappers ${CMAKE_SOURCE_DIR}/toolchains/old_glibc.c)
  file(STRINGS ${wrappers} lines REGEX "^OLD|^[a-z][a-z0-9 ]* __wrap_")
  foreach(line ${lines})
    if(line MATCHES "^OLD(_AT)?\\(([A-Z]+, )?[a-z*]+, ([a-z_0-9]+),")
      list(APPEND options -Wl,--wrap=${CMAKE_MATCH_3})
    elseif(line MATCHES "__wrap_([a-zA-Z_0-9]+)\\(")
      list(APPEND options -Wl,--wrap=${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES options)
  # In older glibcs the wrapped functions are in these; in newer ones they are empty.
  foreach(library libpthread.so.0 libdl.so.2)
    find_library(OLD_GLIBC_${library} NAMES ${library}
      PATHS /lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/${CMAKE_LIBRARY_ARCHITECTURE}/lib NO_DEFAULT_PATH
      NO_CMAKE_FIND_ROOT_PATH REQUIRED)
    list(APPEND libraries ${OLD_GLIBC_${library}})
  endforeach()
  target_sources(${target} PRIVATE ${wrappers})
  target_link_options(${target} PRIVATE ${options} -static-libstdc++ -static-libgcc -s -Wl,--gc-sections)
  target_link_libraries(${target} PRIVATE -Wl,--no-as-needed ${libraries} -Wl,--as-needed)
endfunction()
