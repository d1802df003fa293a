#include "kernels/core/version.h"

namespace comera {

const char* version() { return COMERA_VERSION; }

}  // namespace comera
