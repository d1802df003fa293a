#include "tests/cpu/world.h"

namespace comera::test {

void add_elementwise_cases(std::vector<OperationCase>& /*cases*/) {}

}  // namespace comera::test
