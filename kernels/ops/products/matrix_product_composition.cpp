#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

namespace {

void matrix_products(const MatrixProducts& op, const Context& context) {
  for (const MatrixProduct& one : op.products) {
    const ProductPlace place(context.products, std::string(one.place), nullptr);
    run(context, one);
  }
}

}  // namespace

void compose_matrix_product(Backend& backend, DType compute) {
  backend.compose<MatrixProducts>(compute, matrix_products);
}

}  // namespace comera
