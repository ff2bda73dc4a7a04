# cmake -DSOURCE_DIR=… -DHEADER=… -P write_build_commit.cmake: writes the commit that the source is at into the header,
# which stays as it is, time included, where it says so already: only a change of commit compiles anything.
cmake_minimum_required(VERSION 3.25)
set(commit unknown)
find_program(GIT git)
if(GIT)
  # A source without a repository of its own, in a folder of somebody else's, has no commit.
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --show-toplevel
    OUTPUT_VARIABLE root ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  get_filename_component(source_dir ${SOURCE_DIR} REALPATH)
  if(root STREQUAL source_dir)
    execute_process(COMMAND ${GIT} --no-optional-locks -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE described RESULT_VARIABLE failure ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failure EQUAL 0 AND described)
      set(commit ${described})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define GANTRY_BUILD_COMMIT \"@commit@\"\n" @ONLY)
