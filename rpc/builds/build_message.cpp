#include "rpc/builds/build_message.h"

#include "rpc/protocol/flat_message.h"

namespace gantry::rpc {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kRequest, message);
}

template <typename Table>
auto decode(std::span<const std::uint8_t> payload) {
  const FlatMessage<Table> message(payload);
  using Body = decltype(message->body_type());
  // A union member that this version does not know verifies, but would unpack to nothing.
  if (message->body_type() > Body::MAX)
    refuse("the other side is another gantry: it sends messages that are not known here");
  typename Table::NativeTableType native;
  message->UnPackTo(&native);
  return native;
}

}  // namespace

Bytes encode_build_request(std::uint32_t id, const build_wire::RequestT& request) {
  return encode_flat<build_wire::Request>(id, request, FrameType::kRequest);
}

Bytes encode_build_response(std::uint32_t id, const build_wire::ResponseT& response) {
  return encode_flat<build_wire::Response>(id, response, FrameType::kResponse);
}

build_wire::RequestT decode_build_request(std::span<const std::uint8_t> payload) {
  build_wire::RequestT request = decode<build_wire::Request>(payload);
  if (const auto* model = request.body.AsPutModel()) {
    if (model->text_size == 0 || model->text_size > kMaxBuildText)
      refuse("a model's text has an impossible size");
    if (model->weights_size > kMaxModuleBytes) refuse("a model's weights have an impossible size");
  }
  if (const auto* build = request.body.AsBuild(); build && build->size > kMaxBuildText)
    refuse("the decisions of a build have an impossible size");
  return request;
}

build_wire::ResponseT decode_build_response(std::span<const std::uint8_t> payload) {
  build_wire::ResponseT response = decode<build_wire::Response>(payload);
  if (const auto* built = response.body.AsBuilt()) {
    if (built->module_size == 0 || built->module_size > kMaxModuleBytes)
      refuse("a program has an impossible size");
    if (built->steps_size > kMaxBuildText) refuse("what a program's steps compute has an impossible size");
  }
  return response;
}

std::uint64_t following_bytes(const build_wire::RequestT& request) {
  if (const auto* model = request.body.AsPutModel()) return model->text_size + model->weights_size;
  if (const auto* build = request.body.AsBuild()) return build->size;
  return 0;
}

std::uint64_t following_bytes(const build_wire::ResponseT& response) {
  const auto* built = response.body.AsBuilt();
  return built ? built->module_size + built->steps_size : 0;
}

}  // namespace gantry::rpc
