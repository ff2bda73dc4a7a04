#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "host/cli/commands.h"
#include "host/cli/json_values.h"
#include "host/cli/model_source.h"
#include "host/cli/text.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

std::shared_ptr<KernelCache> cache_of_user() {
  std::shared_ptr<KernelCache> cache = open_cache(true);
  if (cache == nullptr) {
    user_error("there is no place for a cache: set GANTRY_CACHE_DIR to a folder, or HOME or XDG_CACHE_HOME");
  }
  return cache;
}

int show(bool json) {
  const auto cache = cache_of_user();
  const KernelCache::Usage usage = cache->usage();
  if (json) {
    nlohmann::ordered_json report;
    report["folder"] = cache->folder().string();
    report["kernels"] = usage.entries;
    report["bytes"] = usage.bytes;
    report["limit_bytes"] = cache->limit_bytes();
    print_out(document_text(report));
  } else {
    print_out(fmt::format("{}: {} kernels, {} of at most {}\n", cache->folder().string(), usage.entries,
                          bytes_text(static_cast<double>(usage.bytes)),
                          bytes_text(static_cast<double>(cache->limit_bytes()))));
  }
  return 0;
}

int clear(bool json) {
  const auto cache = cache_of_user();
  const auto [removed, failed] = cache->clear();
  if (failed > 0) {
    user_error("{}: {} kernels cannot be removed; check the folder's permissions", cache->folder().string(),
               failed);
  }
  if (json) {
    nlohmann::ordered_json report;
    report["folder"] = cache->folder().string();
    report["removed_kernels"] = removed.entries;
    report["removed_bytes"] = removed.bytes;
    print_out(document_text(report));
  } else {
    print_out(fmt::format("{}: {} kernels removed, {}\n", cache->folder().string(), removed.entries,
                          bytes_text(static_cast<double>(removed.bytes))));
  }
  return 0;
}

}  // namespace

void add_cache_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "cache", "Show or clear the compiled kernels that are kept for the next compilation");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Report as JSON on stdout");
  command->require_subcommand(0, 1);
  command->footer(
      "Examples:\n"
      "  gantry cache\n"
      "  gantry cache clear\n"
      "Kept in $GANTRY_CACHE_DIR, else $XDG_CACHE_HOME/gantry, else ~/.cache/gantry. --no-cache of the "
      "other\n"
      "commands neither reads nor writes it.");
  CLI::App* remove = command->add_subcommand("clear", "Remove them all");
  remove->footer("Example:\n  gantry cache clear");
  command->callback([remove, json, &invocation] {
    if (remove->parsed()) {
      invocation.action = [json] { return clear(*json); };
    } else {
      invocation.action = [json] { return show(*json); };
    }
  });
}

}  // namespace gantry::cli
