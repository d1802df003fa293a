#pragma once

namespace comera {

// The program's version, such as "0.2.0": printed by --version, and saved in checkpoints.
const char* version();

}  // namespace comera
