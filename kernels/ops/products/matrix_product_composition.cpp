#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

namespace {

void matrix_products(const MatrixProducts& op, const Context& context) {
  for (const MatrixProduct& one : op.products) {
    const ProductPlace place(context.products, std::string(one.place), nullptr);
    run(context, one);
  }
}

void biased_product(const BiasedProduct& op, const Context& context) {
  const MatrixProduct& product = op.product;
  run(context, product);
  const Tensor rows = product.c.slice(0, {product.m, product.n});
  run(context, BiasActivationForward{.u = rows, .bias = op.bias, .y = {}});
}

}  // namespace

void compose_matrix_product(Backend& backend, DType compute) {
  backend.compose<MatrixProducts>(compute, matrix_products);
  backend.compose<BiasedProduct>(compute, biased_product);
}

}  // namespace comera
