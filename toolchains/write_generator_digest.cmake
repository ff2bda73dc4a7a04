# cmake -DSOURCE_DIR=… -DHEADER=… -P write_generator_digest.cmake: writes a digest of the sources that decide how nodes
# are computed into the header, which stays as it is, time included, where it says so already. gantry's records of tuning
# are of one such digest.
cmake_minimum_required(VERSION 3.25)
set(folders machine graph tensor ops loops passes codegen costs targets forms driver)
set(sources)
foreach(folder ${folders})
  file(GLOB_RECURSE found RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/host/${folder}/*.h ${SOURCE_DIR}/host/${folder}/*.cpp
    ${SOURCE_DIR}/host/${folder}/*.def)
  list(APPEND sources ${found})
endforeach()
list(SORT sources)
set(text "")
foreach(source ${sources})
  file(SHA256 ${SOURCE_DIR}/${source} digest)
  string(APPEND text "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${text}")
string(SUBSTRING ${digest} 0 16 digest)
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define GANTRY_GENERATOR_DIGEST \"@digest@\"\n" @ONLY)
