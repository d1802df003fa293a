#include "storage/json_file.h"

#include <cstdint>

#include "kernels/core/check.h"

namespace comera::storage {

nlohmann::json parse_json(std::string_view text, std::string_view subject) {
  using Json = nlohmann::json;
  constexpr int deepest = 32;
  constexpr std::int64_t most_values = 10'000'000;  // five times as many as in the largest tokenizer in use
  const auto damaged = [&](std::string_view what) {
    return Error(fmt::format("{} is damaged: {}; get the file again", subject, what));
  };
  std::int64_t values = 0;
  const auto watch = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > deepest) throw damaged("it is nested too deeply");
    if (++values > most_values) throw damaged("it has too many values");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception&) {
    throw damaged("it is not JSON");
  }
}

}  // namespace comera::storage
