// Records as JSON Lines: an object a line, first one that says what the file is.
//
//   {"schema":"gantry-records","version":1}
//   {"work":"3f…","op":"nn.conv","decision":"{form=direct, block=16}",…}
//   {"program_of":"3f…","text":"fn @main(…"}
//
// The file comes from outside: each field is checked, and nothing of a line that is wrong is taken.
#pragma once

#include <functional>
#include <istream>
#include <string>
#include <vector>

#include "host/records/store.h"

namespace gantry::records {

/// With its line end.
std::string json_head();
/// Without the id, which only its store knows. With its line end.
std::string json_line(const Record& record);
std::string json_line(const WorkProgram& program);

struct JsonLines {
  std::vector<Record> records;
  std::vector<WorkProgram> programs;
  size_t left_out = 0;  ///< lines that are wrong
};
/// `name` is the file's, for messages. User errors for a file that is none of records, or of a newer version,
/// for a line that is longer than records are; other lines that are wrong are left out, and `warn` hears
/// which and why.
JsonLines read_json_lines(std::istream& file, const std::string& name,
                          const std::function<void(const std::string&)>& warn);

}  // namespace gantry::records
