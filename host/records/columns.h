// Records as rows of a table, in the one order of columns that all databases have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/records/record.h"

namespace gantry::records {

/// A value of a column; monostate is NULL.
using Field = std::variant<std::monostate, int64_t, double, std::string>;
using Row = std::vector<Field>;

enum class ColumnKind : uint8_t { kInteger, kReal, kText };

struct Column {
  std::string_view name;
  ColumnKind kind;
  bool may_be_null = false;
};
/// All but the id.
std::span<const Column> columns();
/// "work, target, …".
std::string column_names();
/// What a database calls the kinds.
struct ColumnTypes {
  std::string_view integer, real, text;
};
/// ", work TEXT NOT NULL, target …", for a table whose id stands in front.
std::string column_definitions(const ColumnTypes& types);

/// Parallel to columns().
Row row_of(const Record& record);
/// Of the id and a row. User errors as of check(), and for fields that are of no record.
Record record_of(int64_t id, const Row& row);

/// What a filter asks, as the condition of a query, "op = $1 AND threads = $2"; "TRUE" where it asks nothing.
struct Condition {
  std::string sql;
  Row values;  ///< of $1, $2, …
};
Condition condition_of(const Filter& filter);

}  // namespace gantry::records
