#pragma once

#include <string>

namespace CLI {
class App;
}

namespace comera::cli {

// --device, with the values of find_processor().
void add_device_option(CLI::App& command, std::string& device);

}  // namespace comera::cli
