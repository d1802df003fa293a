#include "reports/text/text_table.h"

#include <gmock/gmock.h>

namespace comera {
namespace {

TEST(TextTable, HasColumnsAsWideAsTheirContent) {
  TextTable table({"phase", "steps"});
  table.align_right(1);
  table.add({"quick", "1,000"});
  table.add({"a ± b", "7"});
  EXPECT_EQ(table.text(),
            "phase  steps\n"
            "quick  1,000\n"
            "a ± b      7\n");
}

// What does not fit the terminal comes in further lines of the same row.
TEST(TextTable, FitsTheTerminal) {
  const std::string shape(60, 's');
  TextTable table({"layer", "shape", "parameters", "gates"});
  table.align_right(2);
  table.add({"encoder.0.attention.query", shape, "1,234", "5"});
  table.add({"norm", "7", "8", ""});
  EXPECT_EQ(table.text(), "layer\n    shape" + std::string(57, ' ') + "parameters\n    gates\n" +
                              "encoder.0.attention.query\n    " + shape + "       1,234\n        5\n" +
                              "norm\n    7" + std::string(70, ' ') + "8\n");
}

}  // namespace
}  // namespace comera
