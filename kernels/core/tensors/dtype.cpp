#include "kernels/core/tensors/dtype.h"

namespace comera {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 4;
    case DType::float64:
      return 8;
    case DType::int32:
      return 4;
    case DType::int64:
      return 8;
    case DType::uint8:
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      return 1;
    case DType::bfloat16:
      return 2;
  }
  return 0;
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::uint8:
      return "uint8";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float8_e4m3:
      return "float8_e4m3";
    case DType::float8_e5m2:
      return "float8_e5m2";
  }
  return "unknown";
}

}  // namespace comera
