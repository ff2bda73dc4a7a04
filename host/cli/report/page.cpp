#include "host/cli/report/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "device_runtime/src/sha256.h"
#include "host/cli/file_kind.h"
#include "host/cli/report/page_parts.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Files one after another; a script that does not end its last statement does not run into the next.
std::string joined(std::span<const PagePart> parts) {
  std::string text;
  for (const PagePart& part : parts) text.append(part.text()).append("\n");
  return text;
}

/// RFC 4648, section 4.
std::string base64(std::span<const uint8_t> bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t given = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < given ? bytes[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j) text += j <= given ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// What a policy calls a script or style of exactly these bytes.
std::string source_of(const std::string& text) {
  return fmt::format("'sha256-{}'",
                     base64(runtime::sha256(std::as_bytes(std::span(text.data(), text.size())))));
}

/// JSON that no parser of HTML or JavaScript takes for anything else: what could end the element or the
/// string is written as an escape. Outside of strings JSON has none of these characters.
std::string embeddable(const nlohmann::ordered_json& data) {
  const std::string json = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string text;
  text.reserve(json.size() + json.size() / 16);
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const bool separator = json.compare(i, 3, "\xe2\x80\xa8") == 0 || json.compare(i, 3, "\xe2\x80\xa9") == 0;
    if (c == '<' || c == '>' || c == '&') {
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else if (separator) {  // U+2028 and U+2029 end a line of JavaScript
      text += json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      text += c;
    }
  }
  return text;
}

std::string in_html(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else
      escaped += c;
  }
  return escaped;
}

/// The template with each {{name}} replaced; what is put in is not looked at again.
std::string filled(std::string_view form,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string page;
  while (true) {
    const size_t open = form.find("{{");
    page += form.substr(0, open);
    if (open == std::string_view::npos) return page;
    const size_t close = form.find("}}", open);
    const std::string_view name = form.substr(open + 2, close - open - 2);
    const auto value = std::ranges::find(values, name, &std::pair<std::string_view, std::string>::first);
    internal_check(value != values.end(), "page.html asks for '{}'", name);
    page += value->second;
    form.remove_prefix(close + 2);
  }
}

}  // namespace

std::string report_page(const nlohmann::ordered_json& data) {
  // Own scripts are one function, so that they leave no global names.
  const std::string script = "(() => {\n'use strict';\n" + joined(page_scripts) + "})();\n";
  const std::string d3 = joined(page_d3);
  const std::string style = joined(page_styles);
  const std::string policy = fmt::format(
      "default-src 'none'; script-src {} {}; style-src {}; worker-src blob:; base-uri 'none'; form-action "
      "'none'",
      source_of(d3), source_of(script), source_of(style));
  return std::string(kReportMarker) +
         filled(page_template[0].text(), {{"policy", policy},
                                          {"style", style},
                                          {"data", embeddable(data)},
                                          {"d3", d3},
                                          {"worker", joined(page_dagre) + joined(page_worker)},
                                          {"script", script},
                                          {"licences", in_html(joined(page_licences))}});
}

}  // namespace gantry::cli
