// The ModelProto of a file without the raw data of large tensors, which would be in memory twice while
// Protocol Buffers reads them. What is of interest is found in the file's messages; everything else, damaged
// or not, is left to Protocol Buffers.
#pragma once

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/onnx/raw_data.h"
#include "host/support/mapped_file.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf
namespace onnx {
class ModelProto;
}  // namespace onnx

namespace gantry {

/// A serialised ModelProto put together of bytes of a file and others.
struct LeanModel {
  struct Piece {
    std::string bytes;  ///< empty: those of the range are
    FileRange range;
  };
  std::vector<Piece> pieces;
  uint64_t size = 0;                ///< bytes of all pieces
  std::vector<FileRange> raw_data;  ///< what is left out, by the numbers of the references in its place
  bool sound =
      true;  ///< no message was met that is damaged or nested too deep; else all of the file is one piece
};

/// Leaves out the raw data, of 4 KiB or more, of initialisers and of tensors in attributes, of the graph, its
/// branches and loop bodies and the model's functions. Offsets, sizes and their alignment may be any.
LeanModel lean_model(const InputFile& file);

/// Its bytes, in order. Fewer where the file has become shorter. File and model outlive it.
class LeanStream : public google::protobuf::io::CopyingInputStream {
 public:
  LeanStream(const InputFile& file, const LeanModel& model) : file_(file), model_(model) {}
  int Read(void* buffer, int size) override;

 private:
  const InputFile& file_;
  const LeanModel& model_;
  size_t piece_ = 0;
  uint64_t at_ = 0;  ///< bytes of the piece that are read
};

/// While it lives, tensors of the parsed model without their data are bytes, those of their references:
/// onnx's checker compares raw data with shapes. Nothing is copied, and the model is as it was afterwards.
class CheckableModel {
 public:
  /// Of a model that nobody else uses meanwhile.
  explicit CheckableModel(onnx::ModelProto& lean);
  ~CheckableModel();
  CheckableModel(const CheckableModel&) = delete;
  CheckableModel& operator=(const CheckableModel&) = delete;

 private:
  struct Original;
  void add(google::protobuf::Message& message);

  std::vector<Original> originals_;
};

}  // namespace gantry
