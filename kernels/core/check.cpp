#include "kernels/core/check.h"

namespace comera {

void throw_error(std::string message) { throw Error(std::move(message)); }

}  // namespace comera
