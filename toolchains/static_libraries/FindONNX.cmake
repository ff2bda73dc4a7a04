# onnx_proto: ONNX's messages, generated from the schema inside the installed library, so that they fit its headers.
# There is no target onnx.
if(NOT TARGET onnx_proto)
  find_package(Protobuf REQUIRED)
  find_library(ONNX_SHARED_PROTO NAMES libonnx_proto.so REQUIRED)
  find_library(PROTOBUF_SHARED NAMES libprotobuf.so REQUIRED)
  set(generated ${CMAKE_BINARY_DIR}/generated/onnx_messages)
  file(MAKE_DIRECTORY ${generated})

  add_executable(onnx_schema ${CMAKE_CURRENT_LIST_DIR}/onnx_schema.cpp)
  target_compile_definitions(onnx_schema PRIVATE ONNX_NAMESPACE=onnx ONNX_ML=1)
  target_link_libraries(onnx_schema PRIVATE ${ONNX_SHARED_PROTO} ${PROTOBUF_SHARED})
  add_custom_command(
    OUTPUT ${generated}/onnx/onnx-ml.pb.cc ${generated}/onnx/onnx-data.pb.cc
    BYPRODUCTS ${generated}/onnx/onnx-ml.pb.h ${generated}/onnx/onnx-data.pb.h ${generated}/schema
    COMMAND onnx_schema ${generated}/schema
    COMMAND protobuf::protoc --descriptor_set_in=${generated}/schema --cpp_out=dllexport_decl=ONNX_API:${generated}
      onnx/onnx-ml.proto onnx/onnx-data.proto
    DEPENDS onnx_schema
    COMMENT "Generating ONNX's messages")

  add_library(onnx_proto STATIC ${generated}/onnx/onnx-ml.pb.cc ${generated}/onnx/onnx-data.pb.cc)
  target_include_directories(onnx_proto PRIVATE ${generated})
  target_compile_definitions(onnx_proto PUBLIC ONNX_NAMESPACE=onnx ONNX_ML=1 PRIVATE "ONNX_API=")
  target_link_libraries(onnx_proto PUBLIC protobuf::libprotobuf)
endif()
set(ONNX_FOUND TRUE)
