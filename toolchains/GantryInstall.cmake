# Where things are installed, as GNU's conventions and Debian's multiarch have it, and in which part:
#
#   runtime    the shared runtime of applications
#   dev        what builds applications: headers, static runtime, CMake package, pkg-config
#   programs   gantry, with what shells and readers want of it
#   device     gantry-device
#
# `cmake --install build --component PART` installs one of them.
include(GNUInstallDirs)
set(GANTRY_LICENCE_FOLDER /usr/share/doc CACHE PATH
  "Where PACKAGE/copyright has the licences of what is linked in; empty: they are not installed")

# gantry_install_licences(PART PACKAGE…): gantry's own licence and those of the Debian packages of which the part has
# code in it. Every part has a folder of its own, so that no two install the same file.
function(gantry_install_licences part)
  set(folder ${CMAKE_INSTALL_DOCDIR}/${part})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${folder} COMPONENT ${part})
  if(NOT GANTRY_LICENCE_FOLDER)
    return()
  endif()
  foreach(package ${ARGN})
    set(text ${GANTRY_LICENCE_FOLDER}/${package}/copyright)
    if(EXISTS ${text})
      install(FILES ${text} DESTINATION ${folder} RENAME ${package}.copyright COMPONENT ${part})
    else()
      message(STATUS "${text} is missing: what is installed lacks this licence")
    endif()
  endforeach()
endfunction()
