#include "host/conformance/result.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "host/support/error.h"

namespace gantry::conformance {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinities and no NaN: they become strings.
Json element_json(const Element& element) {
  if (const auto* number = std::get_if<double>(&element); number != nullptr && !std::isfinite(*number))
    return element_text(element);
  return std::visit([](const auto& value) { return Json(value); }, element);
}

Element element_from_json(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  const auto text = json.get<std::string>();
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    if (text == element_text(value)) return value;
  }
  return text;
}

Json worst_json(const Wrong::At& at) {
  return {{"index", at.index},
          {"expected", element_json(at.expected)},
          {"got", element_json(at.got)},
          {"differing", at.differing},
          {"elements", at.elements}};
}

Json wrong_json(const TestResult& result) {
  const Wrong& wrong = *result.wrong;
  Json json;
  json["output"] = result.output;
  json["data_set"] = result.data_set;
  json["within"] = wrong.within;
  json["what"] = wrong.what;
  json["worst_element"] = wrong.at ? worst_json(*wrong.at) : Json(nullptr);
  return json;
}

void read_wrong(const Json& json, TestResult& result) {
  result.output = json.at("output").get<std::string>();
  result.data_set = json.at("data_set").get<std::string>();
  Wrong wrong;
  wrong.what = json.at("what").get<std::string>();
  wrong.within = json.at("within").get<std::vector<size_t>>();
  if (const Json& worst = json.at("worst_element"); worst.is_object()) {
    wrong.at = Wrong::At{worst.at("index").get<std::vector<int64_t>>(),
                         element_from_json(worst.at("expected")), element_from_json(worst.at("got")),
                         worst.at("differing").get<int64_t>(), worst.at("elements").get<int64_t>()};
  }
  result.wrong = std::move(wrong);
}

Status status_of(const std::string& name) {
  for (const Status status : kStatuses) {
    if (name_of(status) == name) return status;
  }
  user_error("'{}' is no status of a test", name);
}

}  // namespace

std::string_view name_of(Status status) {
  switch (status) {
    case Status::kPass:
      return "pass";
    case Status::kWrong:
      return "wrong";
    case Status::kUnsupported:
      return "unsupported";
    case Status::kCrash:
      return "crash";
    case Status::kTimeout:
      return "timeout";
  }
  internal_error("unknown status");
}

Json to_json(const TestResult& result) {
  Json json;
  json["name"] = result.name;
  json["status"] = name_of(result.status);
  json["operator"] = result.operator_name;
  json["opset"] = result.opset;
  json["folder"] = result.folder;
  json["seconds"] = result.seconds;
  if (result.passed()) return json;
  json["phase"] = result.phase;
  json["reason"] = result.reason;
  if (!result.features.empty()) json["features"] = result.features;
  if (result.signal != 0) json["signal"] = result.signal;
  if (result.wrong) json["wrong"] = wrong_json(result);
  return json;
}

std::optional<TestResult> result_from_json(const Json& json) {
  try {
    TestResult result;
    result.name = json.at("name").get<std::string>();
    result.status = status_of(json.at("status").get<std::string>());
    result.operator_name = json.at("operator").get<std::string>();
    result.opset = json.at("opset").get<int64_t>();
    result.folder = json.at("folder").get<std::string>();
    result.seconds = json.at("seconds").get<double>();
    result.phase = json.value("phase", "");
    result.reason = json.value("reason", "");
    result.features = json.value("features", std::vector<std::string>());
    result.signal = json.value("signal", 0);
    if (json.contains("wrong")) read_wrong(json.at("wrong"), result);
    return result;
  } catch (const nlohmann::json::exception&) {
  } catch (const Error&) {
  }
  return std::nullopt;
}

}  // namespace gantry::conformance
