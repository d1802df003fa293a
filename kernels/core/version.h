#pragma once

namespace comera {

// The version that built the program, such as "0.2.0": printed by --version, and kept in checkpoints.
const char* version();

}  // namespace comera
