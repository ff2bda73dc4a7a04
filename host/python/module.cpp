#include "host/python/module.h"

#include <fmt/ranges.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/sha256.h"
#include "host/cli/outputs.h"
#include "host/python/errors.h"
#include "host/support/output_file.h"
#include "module_generated.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

using module_format::TensorInfo;

runtime::ModuleContents read_contents(const runtime::SharedBytes& bytes, const std::string& name) {
  auto contents = runtime::ModuleContents::from_bytes(bytes);
  if (!contents.ok())
    raise_runtime_error(contents.status().code(), name + ": " + contents.status().message());
  return std::move(*contents);
}

const char* element_of(const TensorInfo& tensor) {
  return runtime::element_name(static_cast<runtime::ElementType>(tensor.dtype()));
}

/// Sizes where they are known; else the expression: "N", "2*N".
py::tuple shape_of(const TensorInfo& tensor, const module_format::Manifest& manifest) {
  py::tuple shape(tensor.shape()->size());
  for (uint32_t axis = 0; axis < tensor.shape()->size(); ++axis) {
    const auto& dim = *manifest.dim_exprs()->Get(tensor.shape()->Get(axis));
    if (const auto size = runtime::constant_dim(dim)) {
      shape[axis] = *size;
    } else {
      shape[axis] = to_text(runtime::dim_text(dim, manifest));
    }
  }
  return shape;
}

py::list tensors_of(const flatbuffers::Vector<flatbuffers::Offset<TensorInfo>>& tensors,
                    const module_format::Manifest& manifest) {
  py::list list;
  for (const TensorInfo* tensor : tensors) {
    list.append(
        py::make_tuple(to_text(tensor->name()->str()), element_of(*tensor), shape_of(*tensor, manifest)));
  }
  return list;
}

py::str text_of(const flatbuffers::String* text) {
  return to_text(text == nullptr ? "" : text->str());
}

py::dict describe(const LoadedModule& module) {
  const module_format::Manifest& manifest = module.manifest();
  py::list targets;
  for (const auto* variant : *manifest.variants()) targets.append(text_of(variant->target()));
  py::dict dict;
  dict["name"] = text_of(manifest.model_name());
  dict["producer"] = text_of(manifest.producer());
  dict["optimize"] = text_of(manifest.optimize());
  dict["precision"] = text_of(manifest.variants()->Get(0)->precision());
  dict["targets"] = targets;
  dict["inputs"] = tensors_of(*manifest.inputs(), manifest);
  dict["outputs"] = tensors_of(*manifest.outputs(), manifest);
  dict["size"] = module.bytes().bytes.size();
  return dict;
}

py::bytes bytes_of(const LoadedModule& module) {
  const auto bytes = module.bytes().bytes;
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::shared_ptr<LoadedModule> from_buffer(const py::buffer& buffer, const std::string& name) {
  const py::buffer_info info = buffer.request();
  if (PyBuffer_IsContiguous(info.view(), 'C') == 0)
    user_error("{}: the buffer's bytes do not lie one behind the other; give a copy of it", name);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(info.ptr),
                                         static_cast<size_t>(info.size * info.itemsize));
  return without_lock([&] { return std::make_shared<LoadedModule>(cli::aligned_copy(bytes), name); });
}

void save(const LoadedModule& module, const std::filesystem::path& path, bool force) {
  without_lock([&] {
    cli::OutputPlan().writes(path, cli::FileKind::kModule, "", force);
    const auto bytes = module.bytes().bytes;
    write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

}  // namespace

std::shared_ptr<LoadedModule> LoadedModule::open(const std::filesystem::path& path) {
  if (!cli::is_module_file(path)) {
    user_error("{}: is no module; load takes a file that gantry.compile or `gantry compile` has made",
               path.string());
  }
  auto mapped = runtime::map_file(path.string());
  if (!mapped.ok()) user_error("{}", mapped.status().message());
  return std::make_shared<LoadedModule>(std::move(mapped.value()), path.string());
}

LoadedModule::LoadedModule(runtime::SharedBytes bytes, std::string name)
    : bytes_(std::move(bytes)), contents_(read_contents(bytes_, name)), name_(std::move(name)) {
  for (const TensorInfo* input : *manifest().inputs()) input_names_.push_back(input->name()->str());
}

LoadedModule::~LoadedModule() {
  gantry_module_release(module_);
}

rpc::ElementType LoadedModule::input_type(size_t index) const {
  const TensorInfo& input = *manifest().inputs()->Get(static_cast<uint32_t>(index));
  const DLDataType type = runtime::to_dlpack(static_cast<runtime::ElementType>(input.dtype()));
  return {type.code, type.bits};
}

std::string LoadedModule::inputs_text() const {
  std::vector<std::string> texts;
  for (const TensorInfo* input : *manifest().inputs()) {
    std::vector<std::string> dims;
    for (const uint32_t dim : *input->shape())
      dims.push_back(runtime::dim_text(*manifest().dim_exprs()->Get(dim), manifest()));
    texts.push_back(
        fmt::format("{} ({} ({}))", input->name()->str(), element_of(*input), fmt::join(dims, ", ")));
  }
  return texts.empty() ? "no inputs" : fmt::format("{}", fmt::join(texts, ", "));
}

GantryModule* LoadedModule::runtime_module() {
  const std::lock_guard lock(mutex_);
  if (module_ != nullptr) return module_;
  const GantryStatus status = gantry_module_load_in_place(bytes_.bytes.data(), bytes_.bytes.size(), &module_);
  if (status != GANTRY_OK) raise_runtime_error(status, name_ + ": " + gantry_last_error());
  return module_;
}

void add_module_class(py::module_& module) {
  py::class_<LoadedModule, std::shared_ptr<LoadedModule>>(module, "Module")
      .def_static("open",
                  [](const std::filesystem::path& path) {
                    return without_lock([&] { return LoadedModule::open(path); });
                  })
      .def_static("from_buffer", &from_buffer)
      .def("describe", &describe)
      .def("digest",
           [](const LoadedModule& self) {
             return without_lock([&] { return runtime::to_hex(runtime::sha256(self.bytes().bytes)); });
           })
      .def("to_bytes", &bytes_of)
      .def("save", &save);
}

}  // namespace gantry::python
