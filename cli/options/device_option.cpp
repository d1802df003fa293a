#include "cli/options/device_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "kernels/core/device_name.h"

namespace comera::cli {

void add_device_option(CLI::App& command, std::string& device) {
  command
      .add_option("--device", device,
                  "Run the model on auto (the first GPU, or the CPU if there is none), cpu, cuda (the first "
                  "GPU) or cuda:N")
      ->check([](const std::string& text) {
        return is_device_name(text) ? std::string() : fmt::format("\"{}\" is none of {}", text, device_names);
      })
      ->type_name("DEVICE");
}

}  // namespace comera::cli
