#pragma once

#include <string>

namespace CLI {
class App;
}

namespace comera::cli {

// --device, which takes what find_processor() takes.
void add_device_option(CLI::App& command, std::string& device);

}  // namespace comera::cli
