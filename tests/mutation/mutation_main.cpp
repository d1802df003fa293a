// The tests of emulated operations with a mistake in the kernels: COMERA_MUTANT=17 removes barrier 17, 17+
// and 17- move bound 17. Without it COMERA_REACHED=FILE lists which mutation points each test reaches: its
// name, milliseconds, and the points.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/mutation/mutation.h"

namespace comera::mutation {

int barrier = -1, bound = -1, distance = 0;
bool listing, reached[most_places];

namespace {

class Listing : public testing::EmptyTestEventListener {
 public:
  explicit Listing(const char* file) : file_(file) {}

 private:
  void OnTestStart(const testing::TestInfo&) override { std::ranges::fill(reached, false); }
  void OnTestEnd(const testing::TestInfo& test) override {
    file_ << test.test_suite_name() << "." << test.name() << "\t" << test.result()->elapsed_time() << "\t";
    for (int place = 0; place < most_places; ++place)
      if (reached[place]) file_ << " " << place;
    file_ << " \n";
  }
  std::ofstream file_;
};

bool choose(const std::string& mutant) {
  std::size_t end = 0;
  const int place = mutant.empty() ? -1 : std::stoi(mutant, &end);
  const std::string sign = mutant.substr(end);
  (sign.empty() ? barrier : bound) = place;
  distance = sign == "-" ? -1 : 1;
  return sign.empty() || sign == "+" || sign == "-";
}

}  // namespace

}  // namespace comera::mutation

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* mutant = std::getenv("COMERA_MUTANT");
  if (mutant != nullptr && !comera::mutation::choose(mutant)) return 2;
  if (const char* file = std::getenv("COMERA_REACHED"); file != nullptr) {
    comera::mutation::listing = true;
    testing::UnitTest::GetInstance()->listeners().Append(new comera::mutation::Listing(file));
  }
  return RUN_ALL_TESTS();
}
