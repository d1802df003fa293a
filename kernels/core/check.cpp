#include "kernels/core/check.h"

namespace comera {

void throw_error(const std::string& message) { throw Error(message); }

}  // namespace comera
