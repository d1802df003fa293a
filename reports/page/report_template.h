#pragma once

#include <string_view>

namespace comera {

// report_page.html: a page that draws the JSON object inserted at its mark.
inline constexpr std::string_view report_data_mark = "@DATA@";
std::string_view report_template();

}  // namespace comera
