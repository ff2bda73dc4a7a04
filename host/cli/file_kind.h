// What a file is, by its content.
#pragma once

#include <filesystem>
#include <string_view>

namespace gantry::cli {

/// The kinds of files that gantry writes, and what else there may be in their place.
enum class FileKind {
  kEmpty,
  kModule,      ///< .gmod
  kTensor,      ///< .npy
  kArchive,     ///< .npz
  kTensorProto,  ///< ONNX's TensorProto, .pb
  kResult,      ///< JSON of `gantry bench`, by its "schema"
  kComparison,  ///< JSON of `gantry compare`
  kConformance,  ///< JSON of `gantry conformance`
  kTuning,      ///< JSON of `gantry tune`
  kDecisions,   ///< what is decided for nodes, as `gantry tune` writes it
  kRecords,     ///< of `gantry records export`
  kPrior,       ///< of `gantry records train-prior`
  kHistory,     ///< the series of `gantry compare --history`
  kReport,      ///< the page of `gantry report` or `inspect --html`
  kTrace,       ///< of `gantry trace` and --trace, or another program's of the same formats
  kKey,         ///< of `gantry keygen`
  kZooModel,    ///< ONNX that `gantry zoo` has written
  kOtherModel,  ///< any other ONNX
  kGraphText,   ///< .gir, that says its version as those written by gantry do
  kWeights,     ///< safetensors, as beside graph text
  kOther,
};

/// How a report begins.
inline constexpr std::string_view kReportMarker = "<!DOCTYPE html><!-- gantry report -->";

/// How decisions begin.
inline constexpr std::string_view kDecisionsMarker = "# gantry decisions";

/// The kind of a regular file; kOther where it cannot be read.
FileKind kind_of_file(const std::filesystem::path& path);

/// "a module", "a key", …
std::string_view describe(FileKind kind);

}  // namespace gantry::cli
