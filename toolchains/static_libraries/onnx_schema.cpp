// onnx_schema FILE: writes the description of ONNX's messages that the installed onnx library has inside, for
// protoc's --descriptor_set_in. Debian installs the schema itself only without its reflection.
#include <google/protobuf/descriptor.pb.h>
#include <onnx/onnx-data_pb.h>

#include <cstdio>
#include <fstream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: onnx_schema FILE\n");
    return 1;
  }
  google::protobuf::FileDescriptorSet set;
  onnx::ModelProto::descriptor()->file()->CopyTo(set.add_file());
  onnx::SequenceProto::descriptor()->file()->CopyTo(set.add_file());
  std::ofstream file(argv[1], std::ios::binary);
  if (!set.SerializeToOstream(&file) || !file.flush()) {
    std::fprintf(stderr, "onnx_schema: cannot write %s\n", argv[1]);
    return 1;
  }
  return 0;
}
