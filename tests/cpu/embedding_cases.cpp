#include "tests/cpu/world.h"

namespace comera::test {

void add_embedding_cases(std::vector<OperationCase>& /*cases*/) {}

}  // namespace comera::test
