// The module comera._comera: trained models and shards for numpy. python/comera/__init__.py documents what
// users call.
#include "kernels/core/check.h"
#include "kernels/core/version.h"
#include "python/arrays.h"

NB_MODULE(_comera, module) {
  namespace nb = nanobind;
  module.attr("__version__") = comera::version();
  const nb::exception<comera::Error> error(module, "Error", PyExc_RuntimeError);
  const nb::exception<comera::UsageError> usage(module, "UsageError", error);
  comera::python::add_model(module);
  comera::python::add_shards(module);
}
