// NVIDIA's libraries beside the wheel.
#include "kernels/cuda/python_packages.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PythonPackages, HaveLibrariesBesideTheWheel) {
  const TemporaryFolder folder;
  const std::filesystem::path packages = folder.path() / "site-packages";
  for (const char* where :
       {"nvidia/cublas/lib", "nvidia/cu13/lib", "nvidia/nccl/lib", "comera/bin", "other/bin"})
    std::filesystem::create_directories(packages / where);
  const std::filesystem::path old = packages / "nvidia/cublas/lib/libcublasLt.so.12",
                              now = packages / "nvidia/cu13/lib/libcublasLt.so.13";
  for (const auto& file : {old, now, packages / "comera/__init__.py"}) std::ofstream(file) << "x";
  const std::string name = "libcublasLt.so.13";
  EXPECT_THAT(in_python_packages(packages / "comera/bin/comera", name), ElementsAre(now.string()));
  EXPECT_THAT(in_python_packages(packages / "comera/_comera.abi3.so", name), ElementsAre(now.string()));
  EXPECT_THAT(in_python_packages(packages / "comera/bin/comera", "libcublasLt.so.12"),
              ElementsAre(old.string()));
  EXPECT_THAT(in_python_packages(packages / "comera/bin/comera", "libcublasLt.so.14"), IsEmpty());
  EXPECT_THAT(in_python_packages(packages / "other/bin/comera", name), IsEmpty());
  EXPECT_THAT(in_python_packages("/usr/bin/comera", name), IsEmpty());
  EXPECT_THAT(in_python_packages("comera", name), IsEmpty());
  // Another folder of this name is not the package.
  std::filesystem::remove(packages / "comera/__init__.py");
  EXPECT_THAT(in_python_packages(packages / "comera/bin/comera", name), IsEmpty());
}

}  // namespace
}  // namespace comera::test
