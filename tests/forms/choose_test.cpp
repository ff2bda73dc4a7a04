// The list of forms, and the rule that takes one of what they propose.
#include "host/forms/choose.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace gantry::forms {
namespace {

Bid bid(const char* form, double cycles) {
  return {.decision = {form, {}}, .cycles = cycles};
}

std::string best(const std::vector<Bid>& bids) {
  const Bid* taken = best_of(bids);
  return taken != nullptr ? taken->decision.form : "none";
}

TEST(BestForm, IsTheLeastPredicted) {
  EXPECT_EQ(best({}), "none");
  EXPECT_EQ(best({bid("a", 3), bid("b", 2), bid("c", 2)}), "b") << "the first of equal ones";
}

TEST(BestForm, IsNotOneThatIsNotToBeTaken) {
  Bid no = bid("a", 1);
  no.no = "too large";
  EXPECT_EQ(best({no, bid("b", 2)}), "b");
  EXPECT_EQ(best({no}), "none");
}

TEST(BestForm, MustPromiseWhatItsPredictionIsShortOf) {
  const auto against_ten = [](double cycles) {
    Bid winograd = bid("winograd", cycles);
    winograd.promise = 0.9;
    return best({bid("direct", 10), winograd});
  };
  EXPECT_EQ(against_ten(9.1), "direct");
  EXPECT_EQ(against_ten(8.9), "winograd");
}

TEST(BestForm, WithTheHighestClaimGoesBeforePredictions) {
  Bid sure = bid("sure", 100), surer = bid("surer", 200);
  sure.claim = 1;
  surer.claim = 2;
  EXPECT_EQ(best({bid("a", 1), sure}), "sure");
  EXPECT_EQ(best({bid("a", 1), surer, sure}), "surer");
  surer.no = "weights do not fit";
  EXPECT_EQ(best({bid("a", 1), surer, sure}), "sure");
}

TEST(BestForm, IsComparedByWhatIsWeighedWhereThatIsNotThePrediction) {
  Bid exact = bid("three parts", 12);
  exact.weighed = 9;
  EXPECT_EQ(best({bid("direct", 10), exact}), "three parts");
}

TEST(BestForm, OnTileUnitsIsComparedWithWhatMultiplyAddsTake) {
  const auto with = [](double tiles, double promise) {
    Bid winograd = bid("winograd", 8.9), on_tiles = bid("tiles", tiles);
    winograd.promise = 0.9;
    on_tiles.promise = promise;
    on_tiles.on_tiles = true;
    return best({bid("direct", 10), winograd, on_tiles});
  };
  EXPECT_EQ(with(8.8, 1), "tiles");
  EXPECT_EQ(with(9, 1), "winograd") << "Winograd's own promise does not count here";
  EXPECT_EQ(with(9, 1.15), "tiles");
}

constexpr NodeOrders kLast{ImageOrder::kChannelsLast, ImageOrder::kChannelsLast, false},
    kStaged{ImageOrder::kChannelsLast, ImageOrder::kChannelsLast, true},
    kFromPlain{ImageOrder::kModel, ImageOrder::kChannelsLast, false};

std::vector<std::string> offered(const std::vector<Bid>& bids, const std::vector<NodeOrders>& orders) {
  std::vector<std::string> text;
  for (const FormOption& option : options_of(bids, orders)) text.push_back(fmt::format("{} {}", option.decision.form, option.cost));
  return text;
}

TEST(FormOptions, AreTheBestForEachWayInWhichImagesLie) {
  EXPECT_THAT(offered({bid("plain data", 3), bid("direct", 3), bid("winograd", 2)}, {kFromPlain, kLast, kStaged}),
              testing::ElementsAre("plain data 3", "winograd 2"));
  EXPECT_THAT(offered({bid("direct", 3), bid("winograd", 5)}, {kLast, kStaged}),
              testing::ElementsAre("direct 3", "winograd 5"))
      << "which may read data in another order";
  EXPECT_THAT(offered({}, {}), testing::IsEmpty());
}

TEST(FormOptions, CostWhatTheyPromiseAndNotLessThanWhatIsTakenBeforeThem) {
  Bid winograd = bid("winograd", 9), tiles = bid("tiles", 9.5);
  winograd.promise = 0.9;
  EXPECT_THAT(offered({bid("direct", 20), winograd}, {kLast, kStaged}), testing::ElementsAre("winograd 10"));
  tiles.promise = 1.25;
  tiles.on_tiles = true;
  EXPECT_THAT(offered({winograd, tiles}, {kStaged, kLast}), testing::ElementsAre("tiles 7.6", "winograd 10"));
  tiles.promise = 1;
  tiles.cycles = 8.99;
  winograd.promise = 1.125;
  EXPECT_THAT(offered({winograd, tiles}, {kStaged, kLast}), testing::ElementsAre("tiles 8.99", "winograd 8.99"));
}

TEST(FormOptions, AreOfTheHighestClaim) {
  Bid sure = bid("sure", 100);
  sure.claim = 1;
  EXPECT_THAT(offered({bid("plain data", 1), sure}, {kFromPlain, kLast}), testing::ElementsAre("sure 100"));
  sure.no = "weights do not fit";
  EXPECT_THAT(offered({bid("plain data", 1), sure}, {kFromPlain, kLast}), testing::ElementsAre("plain data 1"));
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ListOfForms, EachHasANameAFileAndWhatItNeeds) {
  std::set<std::string> named;
  for (const ListedForm& listed : all_forms()) {
    const Form& form = *listed.form;
    EXPECT_TRUE(named.insert(fmt::format("{} {}", listed.ops, form.name)).second) << form.name << " twice";
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(GANTRY_SOURCE) / listed.file)) << listed.file;
    EXPECT_NE(form.possible, nullptr) << form.name;
    EXPECT_EQ(form.bids == nullptr, form.apply == nullptr) << form.name;
    std::set<std::string_view> knobs;
    for (const Knob& knob : form.knobs) EXPECT_TRUE(knobs.insert(knob.name).second) << form.name << " " << knob.name;
  }
}

/// Cells of a table's line.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> result;
  std::istringstream parts(line);
  for (std::string cell; std::getline(parts, cell, '|');) result.push_back(cell);
  return result;
}

/// Words in backquotes.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at + 1)) {
    const size_t end = text.find('`', at + 1);
    words.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return words;
}

// docs/decisions.md has a table of ops, forms and knobs.
TEST(ListOfForms, IsThatOfTheDocumentation) {
  std::map<std::string, std::vector<std::string>> documented;
  std::istringstream page(text_of(std::filesystem::path(GANTRY_SOURCE) / "docs/decisions.md"));
  std::string line, op;
  while (std::getline(page, line) && line != "| op | form | knobs (default) | |") {
  }
  std::getline(page, line);
  while (std::getline(page, line) && line.starts_with("|")) {
    const auto row = cells(line);
    ASSERT_GE(row.size(), 4u) << line;
    if (const auto ops = quoted(row[1]); !ops.empty()) op = ops.front();
    for (const std::string& form : quoted(row[2])) documented[op + " " + form] = quoted(row[3]);
  }
  for (const ListedForm& listed : all_forms()) {
    if (listed.ops == "any") continue;
    const std::string first(listed.ops.substr(0, listed.ops.find(',')));
    const auto found = documented.find(fmt::format("{} {}", first, listed.form->name));
    ASSERT_NE(found, documented.end()) << first << " " << listed.form->name << " is not in docs/decisions.md";
    std::vector<std::string> knobs;
    for (const Knob& knob : listed.form->knobs) knobs.emplace_back(knob.name);
    EXPECT_EQ(found->second, knobs) << first << " " << listed.form->name;
  }
}

}  // namespace
}  // namespace gantry::forms
