// The files that the page is made of; the build puts them into the program.
#pragma once

#include <span>
#include <string_view>

namespace gantry::cli {

/// A file's bytes.
struct PagePart {
  const char* begin;
  const char* end;
  std::string_view text() const { return {begin, static_cast<size_t>(end - begin)}; }
};

extern const std::span<const PagePart> page_template;  ///< page.html, with {{names}} of what goes where
extern const std::span<const PagePart> page_styles;
extern const std::span<const PagePart> page_d3;     ///< modules of d3, in the order that they need each other
extern const std::span<const PagePart> page_dagre;  ///< the layout of graphs
extern const std::span<const PagePart> page_worker;   ///< runs dagre
extern const std::span<const PagePart> page_scripts;  ///< the page's own, in their order
extern const std::span<const PagePart> page_licences;
extern const std::span<const PagePart> page_result_schema;      ///< docs/bench.schema.json
extern const std::span<const PagePart> page_comparison_schema;  ///< docs/compare.schema.json

}  // namespace gantry::cli
