#pragma once

#include <string_view>

namespace comera::exchange {

// modeling_comera.py, which transformers runs with trust_remote_code.
std::string_view modeling_file();

}  // namespace comera::exchange
