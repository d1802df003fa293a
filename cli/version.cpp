#include "cli/program.h"

namespace comera::cli {

const char* version() { return COMERA_VERSION; }

}  // namespace comera::cli
